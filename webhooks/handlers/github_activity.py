"""GitHub: events that emit activity and keep nothing but the repository they are in."""

from datetime import datetime

from webhooks.domain import links
from webhooks.domain.payloads import github
from webhooks.handlers.activity import ActivityEntry, emit
from webhooks.handlers.github_resources import (
    about_issue,
    about_pull_request,
    link,
    login,
    upsert_issue,
    upsert_pull_request,
    upsert_repository,
)
from webhooks.handlers.registry import Event, handles

_COMMENTED = ("created", "edited", "deleted")
_OF_RELEASES = ("created", "edited", "deleted", "prereleased", "published", "released", "unpublished")
# One release comes three times: created and published come along with one of these.
_RELEASED = {"released": "released", "prereleased": "pre-released", "deleted": "deleted the release of"}


@handles("github", "ping")
def ping(event: Event) -> None:
    """A hook was made. That of an organization has no repository."""
    payload = event.read(github.PingEvent)
    upsert_repository(event, payload.repository)
    number = "" if payload.hook_id is None else f" {payload.hook_id}"
    entry = ActivityEntry(
        actor=login(payload.sender),
        verb="connected",
        object=f"the webhook{number} of {payload.repository.name if payload.repository else 'an organization'}",
        at=payload.hook.updated_at,
    )
    emit(event, entry)


@handles("github", *(f"issue_comment.{action}" for action in _COMMENTED))
def issue_comment(event: Event) -> None:
    """Somebody commented on an issue, or on a pull request, which then comes in the shape of an issue."""
    payload = event.read(github.IssueCommentEvent)
    is_issue = payload.issue.pull_request is None
    if is_issue:
        upsert_issue(event, payload, rank=1)
    else:
        upsert_repository(event, payload.repository)
    if payload.action == "created":
        entry = about_issue(payload, "commented on", at=payload.comment.created_at)
        emit(event, entry if is_issue else _of_pull_request(payload, entry))


@handles("github", *(f"pull_request_review_comment.{action}" for action in _COMMENTED))
def review_comment(event: Event) -> None:
    """Somebody commented on a line of a pull request."""
    payload = event.read(github.PullRequestCommentEvent)
    upsert_pull_request(event, payload, rank=1)
    if payload.action == "created":
        emit(event, about_pull_request(payload, "commented on", at=payload.comment.created_at))


@handles("github", *(f"release.{action}" for action in _OF_RELEASES))
def release(event: Event) -> None:
    """A version is offered."""
    payload = event.read(github.ReleaseEvent)
    upsert_repository(event, payload.repository)
    if payload.action in _RELEASED:
        emit(
            event,
            ActivityEntry(
                actor=payload.actor,
                verb=_RELEASED[payload.action],
                object=f"{payload.where} {payload.release.name or payload.release.tag_name}".strip() or "a release",
                at=payload.release.published_at if payload.action != "deleted" else None,
                link=link(payload, "releases", "tag", payload.release.tag_name or None),
            ),
        )


@handles("github", "create", "delete")
def ref(event: Event) -> None:
    """A branch or tag was made or deleted."""
    payload = event.read(github.RefEvent)
    upsert_repository(event, payload.repository)
    verb = "created" if event.type == "create" else "deleted"
    target = f"{payload.ref_type} {payload.ref} of".lstrip()
    emit(event, _in_repository(payload, verb, target, at=payload.repository.pushed_at if payload.repository else None))


@handles("github", "fork")
def fork(event: Event) -> None:
    """Somebody copied a repository."""
    payload = event.read(github.ForkEvent)
    upsert_repository(event, payload.repository)
    entry = ActivityEntry(
        actor=payload.actor,
        verb="forked",
        object=f"repository {payload.where} to {payload.forkee.full_name or 'another'}",
        at=payload.forkee.created_at,
        link=links.https(payload.forkee.html_url),
    )
    emit(event, entry)


@handles("github", "watch.started")
def watch(event: Event) -> None:
    """Somebody starred a repository: GitHub calls that watching."""
    payload = event.read(github.Envelope)
    upsert_repository(event, payload.repository)
    emit(event, _in_repository(payload, "starred", "repository"))


@handles("github", *(f"member.{action}" for action in ("added", "edited", "removed")))
def member(event: Event) -> None:
    """Somebody may write to a repository, or may no more."""
    payload = event.read(github.MemberEvent)
    upsert_repository(event, payload.repository)
    emit(
        event,
        _in_repository(payload, payload.action or "changed", f"{login(payload.member)} as a collaborator of".strip()),
    )


@handles("github", "workflow_run.completed")
def workflow_run(event: Event) -> None:
    """A workflow ended. Those of its steps and jobs are ignored (handlers.ignored)."""
    payload = event.read(github.WorkflowRunEvent)
    upsert_repository(event, payload.repository)
    run = payload.workflow_run
    entry = ActivityEntry(
        actor=payload.actor,
        verb=f"ran ({run.conclusion or 'no conclusion'})",
        object=f"workflow {run.name} of {payload.where} {run.head_branch}".rstrip(),
        at=run.updated_at,
        link=link(payload, "actions", "runs", run.id),
    )
    emit(event, entry)


def _in_repository(payload: github.Envelope, verb: str, target: str, *, at: datetime | None = None) -> ActivityEntry:
    return ActivityEntry(
        actor=payload.actor,
        verb=verb,
        object=f"{target} {payload.where or 'an organization'}",
        at=at,
        kind="githubrepository" if payload.repository else "",
        resource=str(payload.repository.id) if payload.repository else "",
        link=links.https(payload.address),
    )


def _of_pull_request(payload: github.IssueCommentEvent, entry: ActivityEntry) -> ActivityEntry:
    """The issue's id is none of a pull request's, so the line points at none; its number is."""
    return ActivityEntry(
        actor=entry.actor,
        verb=entry.verb,
        object=entry.object.replace("issue", "pull request", 1),
        at=entry.at,
        link=link(payload, "pull", payload.issue.number),
    )
