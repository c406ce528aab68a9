"""GitHub: repositories, pushes, pull requests, reviews, issues and deployments.

A state is as new as the thing's own `updated_at`, which has whole seconds; within one second the action decides, as
closing comes after opening. Nothing of an event's envelope is trusted for it: it has no time.
"""

from webhooks.domain import links, staleness
from webhooks.domain.payloads import github
from webhooks.domain.payloads.base import read
from webhooks.domain.staleness import EPOCH, Version
from webhooks.handlers.github_things import (
    about_deployment,
    about_issue,
    about_pull_request,
    keep_deployment,
    keep_issue,
    keep_pull_request,
    keep_repository,
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


@handles("github", "repository.*")
def repository(event: Event) -> None:
    """A repository was made, changed or deleted."""
    told = read(github.Envelope, event.body)
    repository_id = keep_repository(told.repository, rank=1)
    if told.action == "deleted":
        bury(GithubRepository, repository_id, at=told.repository.updated_at)
    thing = Line(
        actor=told.actor,
        verb=_verb(told.action),
        object=f"repository {told.repository.full_name}",
        kind="githubrepository",
        thing=repository_id,
        link=links.https(told.repository.html_url),
    )
    tell(event, *([] if told.action in _QUIET else [thing]))


@handles("github", "push")
def push(event: Event) -> None:
    """A branch or tag moved."""
    told = read(github.PushEvent, event.body)
    repository_id = keep_repository(told.repository)
    pushed_at = told.repository.pushed_at or EPOCH
    moved = {"ref": told.ref, "before": told.before, "after": told.after, "at": pushed_at}
    push_id = f"{repository_id}/{staleness.digest(moved)}"
    message = told.head_commit.message if told.head_commit else ""
    keep(
        GithubPush,
        push_id,
        Version(at=pushed_at),
        repository_id=repository_id,
        ref=told.ref,
        before=told.before,
        after=told.after,
        is_creation=told.created,
        is_deletion=told.deleted,
        is_forced=told.forced,
        commits=len(told.commits),
        message=message[:2000],
        pusher=told.pusher.name,
        link=links.https(told.compare),
    )
    if told.commits:
        tell(event, _pushed(told, push_id))


@handles("github", "issues.*")
def issue(event: Event) -> None:
    """An issue was opened, changed, closed or deleted."""
    told = read(github.IssueEvent, event.body)
    issue_id = keep_issue(told, rank=_rank(told.action))
    if told.action in _GONE:
        bury(GithubIssue, issue_id, at=told.issue.updated_at)
    if told.action not in _QUIET:
        tell(event, about_issue(told, _verb(told.action), at=told.issue.updated_at))


@handles("github", "pull_request.*")
def pull_request(event: Event) -> None:
    """A pull request was opened, changed, merged or closed."""
    told = read(github.PullRequestEvent, event.body)
    keep_pull_request(told, rank=_rank(told.action))
    is_merged = told.action == "closed" and told.pull_request.merged_at is not None
    if told.action not in _QUIET:
        verb = "merged" if is_merged else _verb(told.action)
        tell(event, about_pull_request(told, verb, at=told.pull_request.updated_at))


@handles("github", "pull_request_review.*")
def review(event: Event) -> None:
    """Somebody said what they think of a pull request."""
    told = read(github.ReviewEvent, event.body)
    pull_request_id = keep_pull_request(told, rank=1)
    given = told.review
    at = given.submitted_at or told.pull_request.created_at
    link = links.under(told.repository.html_url, "pull", told.pull_request.number)
    keep(
        GithubReview,
        str(given.id),
        Version(at=at, rank=_rank(told.action)),
        pull_request_id=pull_request_id,
        state=given.state.lower(),  # GitHub sends both cases
        author=given.user.login if given.user else "",
        commit=given.commit_id,
        link=f"{link}#pullrequestreview-{given.id}" if link else "",
    )
    if told.action not in _QUIET:
        verb = {"approved": "approved", "changes_requested": "asked for changes to"}.get(
            given.state.lower(), "reviewed"
        )
        tell(
            event,
            about_pull_request(told, verb if told.action == "submitted" else "dismissed a review of", at=at),
        )


@handles("github", "deployment.*")
def deployment(event: Event) -> None:
    """A version is to run somewhere."""
    told = read(github.DeploymentEvent, event.body)
    deployment_id = keep_deployment(told)
    tell(event, about_deployment(told, "started", deployment_id, at=told.deployment.created_at))


@handles("github", "deployment_status.*")
def deployment_status(event: Event) -> None:
    """A deployment got on, or ended."""
    told = read(github.DeploymentStatusEvent, event.body)
    deployment_id = keep_deployment(told)
    status = told.deployment_status
    keep(
        GithubDeploymentStatus,
        str(status.id),
        Version(at=status.updated_at),
        deployment_id=deployment_id,
        state=status.state,
        environment=status.environment,
        description=status.description,
        author=status.creator.login if status.creator else "",
        created_at=status.created_at,
    )
    if status.state not in _QUIET_STATES:
        tell(event, about_deployment(told, f"ended with {status.state}", deployment_id, at=status.created_at))


def _pushed(told: github.PushEvent, push_id: str) -> Line:
    count = len(told.commits)
    ref = told.ref.removeprefix("refs/heads/").removeprefix("refs/tags/")
    return Line(
        actor=told.pusher.name,
        verb="force-pushed" if told.forced else "pushed",
        object=f"{count} {'commit' if count == 1 else 'commits'} to {told.repository.full_name} {ref}",
        at=told.repository.pushed_at,
        kind="githubpush",
        thing=push_id,
        link=links.https(told.compare),
    )


def _rank(action: str) -> int:
    return _RANKS.get(action, 1)


def _verb(action: str) -> str:
    return _VERBS.get(action) or action.replace("_", " ") or "changed"
