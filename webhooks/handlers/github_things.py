"""GitHub: keeping what events carry, container before content, and the lines that speak of it.

Every event carries its repository. It is kept first, so that all of them lock rows in one order.
"""

from datetime import datetime

from webhooks.domain import links
from webhooks.domain.payloads import github
from webhooks.domain.staleness import Version
from webhooks.handlers.telling import Line
from webhooks.models import GithubDeployment, GithubIssue, GithubPullRequest, GithubRepository
from webhooks.queries.keeping import keep


def keep_repository(told: github.Repository, *, rank: int = 0) -> str:
    """Keep the repository that every event carries; its id. Its own events (`rank` 1) know best."""
    keep(
        GithubRepository,
        str(told.id),
        Version(at=told.updated_at, rank=rank),
        full_name=told.full_name,
        description=told.description,
        default_branch=told.default_branch,
        language=told.language,
        is_private=told.private,
        is_archived=told.archived,
        is_fork=told.fork,
        link=links.https(told.html_url),
        created_at=told.created_at,
    )
    return str(told.id)


def keep_issue(told: github.IssueEvent, *, rank: int) -> str:
    """Keep the issue of an event, after its repository; its id."""
    given = told.issue
    repository_id = keep_repository(told.repository)
    keep(
        GithubIssue,
        str(given.id),
        Version(at=given.updated_at, rank=rank),
        repository_id=repository_id,
        number=given.number,
        title=given.title,
        state=given.state,
        reason=given.state_reason,
        author=given.user.login if given.user else "",
        labels=[label.name for label in given.labels],
        assignees=[account.login for account in given.assignees],
        link=links.under(told.repository.html_url, "issues", given.number),
        created_at=given.created_at,
        closed_at=given.closed_at,
    )
    return str(given.id)


def keep_pull_request(told: github.PullRequestEvent, *, rank: int) -> str:
    """Keep the pull request of an event, after its repository; its id."""
    given = told.pull_request
    repository_id = keep_repository(told.repository)
    keep(
        GithubPullRequest,
        str(given.id),
        Version(at=given.updated_at, rank=rank, is_whole=given.is_whole),
        repository_id=repository_id,
        number=given.number,
        title=given.title,
        state=given.state,
        is_draft=given.draft,
        author=given.user.login if given.user else "",
        labels=[label.name for label in given.labels],
        reviewers=[account.login for account in given.requested_reviewers],
        head_ref=given.head.ref,
        head_sha=given.head.sha,
        base_ref=given.base.ref,
        link=links.under(told.repository.html_url, "pull", given.number),
        created_at=given.created_at,
        closed_at=given.closed_at,
        merged_at=given.merged_at,
    )
    return str(given.id)


def about_issue(told: github.IssueEvent, verb: str, *, at: datetime) -> Line:
    """The line of what somebody did to an issue."""
    return Line(
        actor=told.actor,
        verb=verb,
        object=f"issue {told.repository.full_name}#{told.issue.number}: {told.issue.title}",
        at=at,
        kind="githubissue",
        thing=str(told.issue.id),
        link=links.under(told.repository.html_url, "issues", told.issue.number),
    )


def about_pull_request(told: github.PullRequestEvent, verb: str, *, at: datetime) -> Line:
    """The line of what somebody did to a pull request."""
    given = told.pull_request
    return Line(
        actor=told.actor,
        verb=verb,
        object=f"pull request {told.repository.full_name}#{given.number}: {given.title}",
        at=at,
        kind="githubpullrequest",
        thing=str(given.id),
        link=links.under(told.repository.html_url, "pull", given.number),
    )


def keep_deployment(told: github.DeploymentEvent) -> str:
    """Keep the deployment of an event, after its repository; its id."""
    given = told.deployment
    repository_id = keep_repository(told.repository)
    keep(
        GithubDeployment,
        str(given.id),
        Version(at=given.updated_at),
        repository_id=repository_id,
        environment=given.environment,
        task=given.task,
        ref=given.ref,
        sha=given.sha,
        description=given.description,
        author=given.creator.login if given.creator else "",
        created_at=given.created_at,
    )
    return str(given.id)


def about_deployment(told: github.DeploymentEvent, verb: str, deployment_id: str, *, at: datetime) -> Line:
    """The line of how a deployment goes."""
    given = told.deployment
    return Line(
        actor=told.actor,
        verb=verb,
        object=f"deployment of {told.repository.full_name} {given.ref} to {given.environment}",
        at=at,
        kind="githubdeployment",
        thing=deployment_id,
        link=links.under(told.repository.html_url, "deployments", given.environment),
    )
