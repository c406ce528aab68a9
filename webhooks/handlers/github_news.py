"""GitHub: events that are told as activity and keep nothing but the repository they are in."""

from datetime import datetime

from webhooks.domain import links
from webhooks.domain.payloads import github
from webhooks.domain.payloads.base import read
from webhooks.handlers.github_things import (
    about_issue,
    about_pull_request,
    keep_issue,
    keep_pull_request,
    keep_repository,
)
from webhooks.handlers.registry import Event, handles
from webhooks.handlers.telling import Line, tell

# One release is told three times: created and published come along with one of these.
_RELEASED = {"released": "released", "prereleased": "pre-released", "deleted": "deleted the release of"}


@handles("github", "ping")
def ping(event: Event) -> None:
    """A hook was made. That of an organization has no repository."""
    told = read(github.PingEvent, event.body)
    where = told.repository.full_name if told.repository else "an organization"
    if told.repository:
        keep_repository(told.repository)
    line = Line(
        actor=told.sender.login if told.sender else "",
        verb="connected",
        object=f"the webhook {told.hook_id} of {where}",
        at=told.hook.updated_at,
    )
    tell(event, line)


@handles("github", "issue_comment.*")
def issue_comment(event: Event) -> None:
    """Somebody commented on an issue, or on a pull request, which then comes in the shape of an issue."""
    told = read(github.IssueCommentEvent, event.body)
    is_issue = told.issue.pull_request is None
    if is_issue:
        keep_issue(told, rank=1)
    else:
        keep_repository(told.repository)
    if told.action == "created":
        line = about_issue(told, "commented on", at=told.comment.created_at)
        tell(event, line if is_issue else _of_pull_request(told, line))


@handles("github", "pull_request_review_comment.*")
def review_comment(event: Event) -> None:
    """Somebody commented on a line of a pull request."""
    told = read(github.PullRequestCommentEvent, event.body)
    keep_pull_request(told, rank=1)
    if told.action == "created":
        tell(event, about_pull_request(told, "commented on", at=told.comment.created_at))


@handles("github", "release.*")
def release(event: Event) -> None:
    """A version is offered."""
    told = read(github.ReleaseEvent, event.body)
    keep_repository(told.repository)
    if told.action in _RELEASED:
        tell(
            event,
            Line(
                actor=told.actor,
                verb=_RELEASED[told.action],
                object=f"{told.repository.full_name} {told.release.name or told.release.tag_name}",
                at=told.release.published_at if told.action != "deleted" else None,
                link=links.under(told.repository.html_url, "releases", "tag", told.release.tag_name),
            ),
        )


@handles("github", "create", "delete")
def ref(event: Event) -> None:
    """A branch or tag was made or deleted."""
    told = read(github.RefEvent, event.body)
    keep_repository(told.repository)
    verb = "created" if event.type == "create" else "deleted"
    what = f"{told.ref_type} {told.ref} of"
    tell(event, _in_repository(told, verb, what, at=told.repository.pushed_at))


@handles("github", "fork")
def fork(event: Event) -> None:
    """Somebody copied a repository."""
    told = read(github.ForkEvent, event.body)
    keep_repository(told.repository)
    line = Line(
        actor=told.actor,
        verb="forked",
        object=f"repository {told.repository.full_name} to {told.forkee.full_name}",
        at=told.forkee.created_at,
        link=links.https(told.forkee.html_url),
    )
    tell(event, line)


@handles("github", "watch.*")
def watch(event: Event) -> None:
    """Somebody starred a repository: GitHub calls that watching."""
    told = read(github.Envelope, event.body)
    keep_repository(told.repository)
    tell(event, _in_repository(told, "starred", "repository"))


@handles("github", "member.*")
def member(event: Event) -> None:
    """Somebody may write to a repository, or may no more."""
    told = read(github.MemberEvent, event.body)
    keep_repository(told.repository)
    tell(event, _in_repository(told, told.action or "changed", f"{told.member.login} as a collaborator of"))


@handles("github", "workflow_run.completed")
def workflow_run(event: Event) -> None:
    """A workflow ended. Those of its steps and jobs are ignored (handlers.ignored)."""
    told = read(github.WorkflowRunEvent, event.body)
    keep_repository(told.repository)
    run = told.workflow_run
    line = Line(
        actor=told.actor,
        verb=f"ran ({run.conclusion or 'no conclusion'})",
        object=f"workflow {run.name} of {told.repository.full_name} {run.head_branch}".rstrip(),
        at=run.updated_at,
        link=links.under(told.repository.html_url, "actions", "runs", run.id),
    )
    tell(event, line)


def _in_repository(told: github.Envelope, verb: str, what: str, *, at: datetime | None = None) -> Line:
    return Line(
        actor=told.actor,
        verb=verb,
        object=f"{what} {told.repository.full_name}",
        at=at,
        kind="githubrepository",
        thing=str(told.repository.id),
        link=links.https(told.repository.html_url),
    )


def _of_pull_request(told: github.IssueCommentEvent, line: Line) -> Line:
    """The issue's id is none of a pull request's, so the line points at none; its number is."""
    return Line(
        actor=line.actor,
        verb=line.verb,
        object=line.object.replace("issue", "pull request", 1),
        at=line.at,
        link=links.under(told.repository.html_url, "pull", told.issue.number),
    )
