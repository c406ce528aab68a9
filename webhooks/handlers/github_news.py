"""GitHub: events that are told as activity and keep nothing but the repository they are in."""

from datetime import datetime

from webhooks.domain import links
from webhooks.domain.payloads import github
from webhooks.handlers.github_things import (
    about_issue,
    about_pull_request,
    keep_issue,
    keep_pull_request,
    keep_repository,
    link,
    login,
)
from webhooks.handlers.registry import Event, handles
from webhooks.handlers.telling import Line, tell

_COMMENTED = ("created", "edited", "deleted")
_OF_RELEASES = ("created", "edited", "deleted", "prereleased", "published", "released", "unpublished")
# One release is told three times: created and published come along with one of these.
_RELEASED = {"released": "released", "prereleased": "pre-released", "deleted": "deleted the release of"}


@handles("github", "ping")
def ping(event: Event) -> None:
    """A hook was made. That of an organization has no repository."""
    told = event.read(github.PingEvent)
    keep_repository(event, told.repository)
    number = "" if told.hook_id is None else f" {told.hook_id}"
    line = Line(
        actor=login(told.sender),
        verb="connected",
        object=f"the webhook{number} of {told.repository.name if told.repository else 'an organization'}",
        at=told.hook.updated_at,
    )
    tell(event, line)


@handles("github", *(f"issue_comment.{action}" for action in _COMMENTED))
def issue_comment(event: Event) -> None:
    """Somebody commented on an issue, or on a pull request, which then comes in the shape of an issue."""
    told = event.read(github.IssueCommentEvent)
    is_issue = told.issue.pull_request is None
    if is_issue:
        keep_issue(event, told, rank=1)
    else:
        keep_repository(event, told.repository)
    if told.action == "created":
        line = about_issue(told, "commented on", at=told.comment.created_at)
        tell(event, line if is_issue else _of_pull_request(told, line))


@handles("github", *(f"pull_request_review_comment.{action}" for action in _COMMENTED))
def review_comment(event: Event) -> None:
    """Somebody commented on a line of a pull request."""
    told = event.read(github.PullRequestCommentEvent)
    keep_pull_request(event, told, rank=1)
    if told.action == "created":
        tell(event, about_pull_request(told, "commented on", at=told.comment.created_at))


@handles("github", *(f"release.{action}" for action in _OF_RELEASES))
def release(event: Event) -> None:
    """A version is offered."""
    told = event.read(github.ReleaseEvent)
    keep_repository(event, told.repository)
    if told.action in _RELEASED:
        tell(
            event,
            Line(
                actor=told.actor,
                verb=_RELEASED[told.action],
                object=f"{told.where} {told.release.name or told.release.tag_name}".strip() or "a release",
                at=told.release.published_at if told.action != "deleted" else None,
                link=link(told, "releases", "tag", told.release.tag_name or None),
            ),
        )


@handles("github", "create", "delete")
def ref(event: Event) -> None:
    """A branch or tag was made or deleted."""
    told = event.read(github.RefEvent)
    keep_repository(event, told.repository)
    verb = "created" if event.type == "create" else "deleted"
    what = f"{told.ref_type} {told.ref} of".lstrip()
    tell(event, _in_repository(told, verb, what, at=told.repository.pushed_at if told.repository else None))


@handles("github", "fork")
def fork(event: Event) -> None:
    """Somebody copied a repository."""
    told = event.read(github.ForkEvent)
    keep_repository(event, told.repository)
    line = Line(
        actor=told.actor,
        verb="forked",
        object=f"repository {told.where} to {told.forkee.full_name or 'another'}",
        at=told.forkee.created_at,
        link=links.https(told.forkee.html_url),
    )
    tell(event, line)


@handles("github", "watch.started")
def watch(event: Event) -> None:
    """Somebody starred a repository: GitHub calls that watching."""
    told = event.read(github.Envelope)
    keep_repository(event, told.repository)
    tell(event, _in_repository(told, "starred", "repository"))


@handles("github", *(f"member.{action}" for action in ("added", "edited", "removed")))
def member(event: Event) -> None:
    """Somebody may write to a repository, or may no more."""
    told = event.read(github.MemberEvent)
    keep_repository(event, told.repository)
    tell(
        event,
        _in_repository(told, told.action or "changed", f"{login(told.member)} as a collaborator of".strip()),
    )


@handles("github", "workflow_run.completed")
def workflow_run(event: Event) -> None:
    """A workflow ended. Those of its steps and jobs are ignored (handlers.ignored)."""
    told = event.read(github.WorkflowRunEvent)
    keep_repository(event, told.repository)
    run = told.workflow_run
    line = Line(
        actor=told.actor,
        verb=f"ran ({run.conclusion or 'no conclusion'})",
        object=f"workflow {run.name} of {told.where} {run.head_branch}".rstrip(),
        at=run.updated_at,
        link=link(told, "actions", "runs", run.id),
    )
    tell(event, line)


def _in_repository(told: github.Envelope, verb: str, what: str, *, at: datetime | None = None) -> Line:
    return Line(
        actor=told.actor,
        verb=verb,
        object=f"{what} {told.where or 'an organization'}",
        at=at,
        kind="githubrepository" if told.repository else "",
        thing=str(told.repository.id) if told.repository else "",
        link=links.https(told.address),
    )


def _of_pull_request(told: github.IssueCommentEvent, line: Line) -> Line:
    """The issue's id is none of a pull request's, so the line points at none; its number is."""
    return Line(
        actor=line.actor,
        verb=line.verb,
        object=line.object.replace("issue", "pull request", 1),
        at=line.at,
        link=link(told, "pull", told.issue.number),
    )
