"""GitHub: repositories, pushes, pull requests, reviews, issues and deployments.

A state is as new as the thing's own `updated_at`, which has whole seconds; within one second the action decides, as
closing comes after opening. Nothing of an event's envelope is trusted for it: it has no time.
"""

from webhooks.domain import links, staleness
from webhooks.domain.payloads import github
from webhooks.domain.payloads.base import ABSENT
from webhooks.domain.staleness import EPOCH, Version
from webhooks.handlers.dating import dated
from webhooks.handlers.github_things import (
    about_deployment,
    about_issue,
    about_pull_request,
    keep_deployment,
    keep_issue,
    keep_pull_request,
    keep_repository,
    link,
    login,
)
from webhooks.handlers.registry import Event, handles
from webhooks.handlers.telling import Line, tell
from webhooks.models import GithubDeploymentStatus, GithubIssue, GithubPush, GithubRepository, GithubReview
from webhooks.queries.keeping import bury, keep

_RANKS = {"opened": 0, "created": 0, "submitted": 0, "closed": 2, "dismissed": 2, "reopened": 3}
# What happens often and tells little, or is told by another event too.
_QUIET = frozenset(
    {"edited", "synchronize", "labeled", "unlabeled", "milestoned", "demilestoned", "locked", "unlocked", "pinned",
     "unpinned", "unassigned", "subscribed", "unsubscribed", "typed", "untyped", "enqueued", "dequeued"}
)  # fmt: skip
_VERBS = {
    "review_requested": "asked for a review of",
    "review_request_removed": "no longer asks for a review of",
    "ready_for_review": "marked as ready",
    "converted_to_draft": "made a draft of",
    "auto_merge_enabled": "lets merge by itself",
    "auto_merge_disabled": "no longer lets merge by itself",
}
_QUIET_STATES = frozenset({"queued", "pending", "in_progress", "waiting", "inactive"})
_GONE = frozenset({"deleted", "transferred"})  # a transferred issue goes on under another id


_LISTED = (
    "opened", "edited", "closed", "reopened", "assigned", "unassigned", "labeled", "unlabeled", "locked", "unlocked",
    "milestoned", "demilestoned",
)  # fmt: skip
_OF_ISSUES = (
    *_LISTED, "deleted", "transferred", "pinned", "unpinned", "typed", "untyped", "subscribed", "unsubscribed",
)  # fmt: skip
_OF_PULL_REQUESTS = (
    *_LISTED, "synchronize", "review_requested", "review_request_removed", "ready_for_review", "converted_to_draft",
    "auto_merge_enabled", "auto_merge_disabled", "enqueued", "dequeued",
)  # fmt: skip
_OF_REPOSITORIES = (
    "created", "deleted", "archived", "unarchived", "edited", "renamed", "transferred", "publicized", "privatized",
)  # fmt: skip


@handles("github", *(f"repository.{action}" for action in _OF_REPOSITORIES))
def repository(event: Event) -> None:
    """A repository was made, changed or deleted."""
    told = event.read(github.RepositoryEvent)
    repository_id = str(told.repository.id)
    keep_repository(event, told.repository, rank=1)
    if told.action == "deleted":
        bury(GithubRepository, repository_id, at=told.repository.updated_at or event.occurred_at)
    thing = Line(
        actor=told.actor,
        verb=_verb(told.action),
        object=f"repository {told.where}",
        kind="githubrepository",
        thing=repository_id,
        link=links.https(told.address),
    )
    tell(event, *([] if told.action in _QUIET else [thing]))


@handles("github", "push")
def push(event: Event) -> None:
    """A branch or tag moved."""
    told = event.read(github.PushEvent)
    repository_id = keep_repository(event, told.repository)
    pushed_at = told.repository.pushed_at or EPOCH
    moved = {"ref": told.ref, "before": told.before, "after": told.after, "at": pushed_at}
    push_id = f"{repository_id}/{staleness.digest(moved)}"
    commit = told.head_commit
    keep(
        GithubPush,
        push_id,
        Version(at=pushed_at),
        repository_id=repository_id,
        ref=told.ref,
        before=told.sent("before"),
        after=told.after,
        is_creation=told.sent("created"),
        is_deletion=told.sent("deleted"),
        is_forced=told.sent("forced"),
        commits=told.sent("commits", len(told.commits)),
        message=commit.sent("message", commit.message[:2000]) if commit else told.sent("head_commit", ""),
        pusher=told.sent("pusher", _pusher(told)),
        link=told.sent("compare", links.https(told.compare)),
    )
    if told.commits:
        tell(event, _pushed(told, push_id))


@handles("github", *(f"issues.{action}" for action in _OF_ISSUES))
def issue(event: Event) -> None:
    """An issue was opened, changed, closed or deleted."""
    told = event.read(github.IssueEvent)
    issue_id = keep_issue(event, told, rank=_rank(told.action))
    if told.action in _GONE:
        bury(GithubIssue, issue_id, at=told.issue.updated_at or event.occurred_at)
    if told.action not in _QUIET:
        tell(event, about_issue(told, _verb(told.action), at=told.issue.updated_at))


@handles("github", *(f"pull_request.{action}" for action in _OF_PULL_REQUESTS))
def pull_request(event: Event) -> None:
    """A pull request was opened, changed, merged or closed."""
    told = event.read(github.PullRequestEvent)
    keep_pull_request(event, told, rank=_rank(told.action))
    is_merged = told.action == "closed" and told.pull_request.merged_at is not None
    if told.action not in _QUIET:
        verb = "merged" if is_merged else _verb(told.action)
        tell(event, about_pull_request(told, verb, at=told.pull_request.updated_at))


@handles("github", *(f"pull_request_review.{action}" for action in ("submitted", "edited", "dismissed")))
def review(event: Event) -> None:
    """Somebody said what they think of a pull request."""
    told = event.read(github.ReviewEvent)
    pull_request_id = keep_pull_request(event, told, rank=1)
    given, its = told.review, told.pull_request
    page = link(told, "pull", its.number if its else None)
    at = given.submitted_at or (its.created_at if its else None)
    keep(
        GithubReview,
        str(given.id),
        dated(event, at, rank=_rank(told.action)),
        pull_request_id=pull_request_id or ABSENT,
        state=given.sent("state", given.state.lower()),  # GitHub sends both cases
        author=given.sent("user", login(given.user)),
        commit=given.sent("commit_id"),
        link=f"{page}#pullrequestreview-{given.id}" if page else ABSENT,
    )
    if told.action not in _QUIET:
        verb = {"approved": "approved", "changes_requested": "asked for changes to"}.get(
            given.state.lower(), "reviewed"
        )
        tell(
            event,
            about_pull_request(told, verb if told.action == "submitted" else "dismissed a review of", at=at),
        )


@handles("github", "deployment.created")
def deployment(event: Event) -> None:
    """A version is to run somewhere."""
    told = event.read(github.DeploymentEvent)
    deployment_id = keep_deployment(event, told)
    tell(event, about_deployment(told, "started", deployment_id, at=told.deployment.created_at))


@handles("github", "deployment_status.created")
def deployment_status(event: Event) -> None:
    """A deployment got on, or ended."""
    told = event.read(github.DeploymentStatusEvent)
    deployment_id = keep_deployment(event, told)
    status = told.deployment_status
    keep(
        GithubDeploymentStatus,
        str(status.id),
        dated(event, status.updated_at),
        deployment_id=deployment_id or ABSENT,
        state=status.sent("state"),
        environment=status.sent("environment"),
        description=status.sent("description"),
        author=status.sent("creator", login(status.creator)),
        created_at=status.sent("created_at"),
    )
    if status.state and status.state not in _QUIET_STATES:
        tell(event, about_deployment(told, f"ended with {status.state}", deployment_id, at=status.created_at))


def _pushed(told: github.PushEvent, push_id: str) -> Line:
    count = len(told.commits)
    ref = told.ref.removeprefix("refs/heads/").removeprefix("refs/tags/")
    return Line(
        actor=_pusher(told),
        verb="force-pushed" if told.forced else "pushed",
        object=f"{count} {'commit' if count == 1 else 'commits'} to {told.where} {ref}",
        at=told.repository.pushed_at,
        kind="githubpush",
        thing=push_id,
        link=links.https(told.compare),
    )


def _pusher(told: github.PushEvent) -> str:
    return told.pusher.name if told.pusher else ""


def _rank(action: str) -> int:
    return _RANKS.get(action, 1)


def _verb(action: str) -> str:
    return _VERBS.get(action) or action.replace("_", " ") or "changed"
