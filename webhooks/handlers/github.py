"""GitHub: repositories, pushes, pull requests, reviews, issues and deployments.

A state is as new as the resource's own `updated_at`, which has whole seconds; within one second the action decides, as
closing comes after opening. Nothing of an event's envelope is trusted for it: it has no time.
"""

from webhooks.domain import links, staleness
from webhooks.domain.payloads import github
from webhooks.domain.payloads.base import ABSENT
from webhooks.domain.staleness import EPOCH, Version
from webhooks.handlers.activity import ActivityEntry, emit
from webhooks.handlers.github_resources import (
    about_deployment,
    about_issue,
    about_pull_request,
    link,
    login,
    upsert_deployment,
    upsert_issue,
    upsert_pull_request,
    upsert_repository,
)
from webhooks.handlers.registry import Event, handles
from webhooks.models import GithubDeploymentStatus, GithubIssue, GithubPush, GithubRepository, GithubReview
from webhooks.queries.upserts import tombstone, upsert

_RANKS = {"opened": 0, "created": 0, "submitted": 0, "closed": 2, "dismissed": 2, "reopened": 3}
# What happens often and means little, or comes as another event too.
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
    payload = event.read(github.RepositoryEvent)
    repository_id = str(payload.repository.id)
    upsert_repository(event, payload.repository, rank=1)
    if payload.action == "deleted":
        tombstone(GithubRepository, repository_id, at=payload.repository.updated_at or event.occurred_at)
    resource = ActivityEntry(
        actor=payload.actor,
        verb=_verb(payload.action),
        object=f"repository {payload.where}",
        kind="githubrepository",
        resource=repository_id,
        link=links.https(payload.address),
    )
    emit(event, *([] if payload.action in _QUIET else [resource]))


@handles("github", "push")
def push(event: Event) -> None:
    """A branch or tag moved."""
    payload = event.read(github.PushEvent)
    repository_id = upsert_repository(event, payload.repository)
    pushed_at = payload.repository.pushed_at or EPOCH
    moved = {"ref": payload.ref, "before": payload.before, "after": payload.after, "at": pushed_at}
    push_id = f"{repository_id}/{staleness.digest(moved)}"
    commit = payload.head_commit
    upsert(
        GithubPush,
        push_id,
        Version(at=pushed_at),
        parent=repository_id,
        ref=payload.ref,
        after=payload.after,
        commits=payload.sent("commits", len(payload.commits)),
        message=commit.sent("message", commit.message[:2000]) if commit else payload.sent("head_commit", ""),
        pusher=payload.sent("pusher", _pusher(payload)),
        link=payload.sent("compare", links.https(payload.compare)),
        **payload.columns("before", is_creation="created", is_deletion="deleted", is_forced="forced"),
    )
    if payload.commits:
        emit(event, _pushed(payload, push_id))


@handles("github", *(f"issues.{action}" for action in _OF_ISSUES))
def issue(event: Event) -> None:
    """An issue was opened, changed, closed or deleted."""
    payload = event.read(github.IssueEvent)
    issue_id = upsert_issue(event, payload, rank=_rank(payload.action))
    if payload.action in _GONE:
        tombstone(GithubIssue, issue_id, at=payload.issue.updated_at or event.occurred_at)
    if payload.action not in _QUIET:
        emit(event, about_issue(payload, _verb(payload.action), at=payload.issue.updated_at))


@handles("github", *(f"pull_request.{action}" for action in _OF_PULL_REQUESTS))
def pull_request(event: Event) -> None:
    """A pull request was opened, changed, merged or closed."""
    payload = event.read(github.PullRequestEvent)
    upsert_pull_request(event, payload, rank=_rank(payload.action))
    is_merged = payload.action == "closed" and payload.pull_request.merged_at is not None
    if payload.action not in _QUIET:
        verb = "merged" if is_merged else _verb(payload.action)
        emit(event, about_pull_request(payload, verb, at=payload.pull_request.updated_at))


@handles("github", *(f"pull_request_review.{action}" for action in ("submitted", "edited", "dismissed")))
def review(event: Event) -> None:
    """Somebody reviewed a pull request."""
    payload = event.read(github.ReviewEvent)
    pull_request_id = upsert_pull_request(event, payload, rank=1)
    review, pull_request = payload.review, payload.pull_request
    page = link(payload, "pull", pull_request.number if pull_request else None)
    at = review.submitted_at or (pull_request.created_at if pull_request else None)
    upsert(
        GithubReview,
        str(review.id),
        event.version(at, rank=_rank(payload.action)),
        parent=pull_request_id or ABSENT,
        state=review.sent("state", review.state.lower()),  # GitHub sends both cases
        author=review.sent("user", login(review.user)),
        commit=review.sent("commit_id"),
        link=f"{page}#pullrequestreview-{review.id}" if page else ABSENT,
    )
    if payload.action not in _QUIET:
        verb = {"approved": "approved", "changes_requested": "asked for changes to"}.get(
            review.state.lower(), "reviewed"
        )
        emit(
            event,
            about_pull_request(payload, verb if payload.action == "submitted" else "dismissed a review of", at=at),
        )


@handles("github", "deployment.created", "deployment")  # older servers send no action
def deployment(event: Event) -> None:
    """A version is to run somewhere."""
    payload = event.read(github.DeploymentEvent)
    deployment_id = upsert_deployment(event, payload)
    emit(event, about_deployment(payload, "started", deployment_id, at=payload.deployment.created_at))


@handles("github", "deployment_status.created", "deployment_status")
def deployment_status(event: Event) -> None:
    """A deployment got on, or ended."""
    payload = event.read(github.DeploymentStatusEvent)
    deployment_id = upsert_deployment(event, payload)
    status = payload.deployment_status
    upsert(
        GithubDeploymentStatus,
        str(status.id),
        event.version(status.updated_at),
        parent=deployment_id or ABSENT,
        author=status.sent("creator", login(status.creator)),
        **status.columns("state", "environment", "description", "created_at"),
    )
    if status.state and status.state not in _QUIET_STATES:
        emit(event, about_deployment(payload, f"ended with {status.state}", deployment_id, at=status.created_at))


def _pushed(payload: github.PushEvent, push_id: str) -> ActivityEntry:
    count = len(payload.commits)
    ref = payload.ref.removeprefix("refs/heads/").removeprefix("refs/tags/")
    return ActivityEntry(
        actor=_pusher(payload),
        verb="force-pushed" if payload.forced else "pushed",
        object=f"{count} {'commit' if count == 1 else 'commits'} to {payload.where} {ref}",
        at=payload.repository.pushed_at,
        kind="githubpush",
        resource=push_id,
        link=links.https(payload.compare),
    )


def _pusher(payload: github.PushEvent) -> str:
    return payload.pusher.name if payload.pusher else ""


def _rank(action: str) -> int:
    return _RANKS.get(action, 1)


def _verb(action: str) -> str:
    return _VERBS.get(action) or action.replace("_", " ") or "changed"
