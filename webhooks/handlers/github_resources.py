"""GitHub: keeping what events carry, container before content, and the lines that speak of it.

Nearly every event carries its repository. It is kept first, so that all of them lock rows in one order.
"""

from datetime import datetime
from typing import Any

from webhooks.domain import links
from webhooks.domain.payloads import github
from webhooks.domain.payloads.base import ABSENT
from webhooks.handlers.activity import ActivityEntry
from webhooks.handlers.registry import Event
from webhooks.models import GithubDeployment, GithubIssue, GithubPullRequest, GithubRepository
from webhooks.queries.upserts import upsert


def upsert_repository(event: Event, payload: github.Repository | None, *, rank: int = 0) -> str | None:
    """Keep the repository that an event carries, if it does; its id. Its own events (`rank` 1) know best."""
    if payload is None:
        return None
    upsert(
        GithubRepository,
        str(payload.id),
        event.version(payload.updated_at, rank=rank),
        link=payload.sent("html_url", links.https(payload.html_url)),
        **payload.columns(
            "full_name",
            "description",
            "default_branch",
            "language",
            "created_at",
            is_private="private",
            is_archived="archived",
            is_fork="fork",
        ),
    )
    return str(payload.id)


def upsert_issue(event: Event, payload: github.IssueEvent, *, rank: int) -> str:
    """Keep the issue of an event, after its repository; its id."""
    issue = payload.issue
    repository_id = upsert_repository(event, payload.repository)
    upsert(
        GithubIssue,
        str(issue.id),
        event.version(issue.updated_at, rank=rank),
        parent=repository_id or ABSENT,
        reason=issue.sent("state_reason"),
        assignees=issue.sent("assignees", [account.login for account in issue.assignees]),
        link=kept_link(payload, "issues", issue.number),
        **_common_columns(issue),
    )
    return str(issue.id)


def upsert_pull_request(
    event: Event, payload: github.PullRequestEvent | github.ReviewEvent, *, rank: int
) -> str | None:
    """Keep the pull request of an event, after its repository; its id. None if the event carries none."""
    pull_request = payload.pull_request
    repository_id = upsert_repository(event, payload.repository)
    if pull_request is None:
        return None
    upsert(
        GithubPullRequest,
        str(pull_request.id),
        event.version(pull_request.updated_at, rank=rank),
        parent=repository_id or ABSENT,
        is_draft=pull_request.sent("draft"),
        reviewers=pull_request.sent("requested_reviewers", [one.login for one in pull_request.requested_reviewers]),
        base_ref=pull_request.base.sent("ref"),
        link=kept_link(payload, "pull", pull_request.number),
        merged_at=pull_request.sent("merged_at"),
        **pull_request.head.columns(head_ref="ref", head_sha="sha"),
        **_common_columns(pull_request),
    )
    return str(pull_request.id)


def upsert_deployment(event: Event, payload: github.DeploymentEvent | github.DeploymentStatusEvent) -> str | None:
    """Keep the deployment of an event, after its repository; its id. None if the event carries none."""
    deployment = payload.deployment
    repository_id = upsert_repository(event, payload.repository)
    if deployment is None:
        return None
    upsert(
        GithubDeployment,
        str(deployment.id),
        event.version(deployment.updated_at),
        parent=repository_id or ABSENT,
        author=deployment.sent("creator", login(deployment.creator)),
        **deployment.columns("environment", "task", "ref", "sha", "description", "created_at"),
    )
    return str(deployment.id)


def about_issue(payload: github.IssueEvent, verb: str, *, at: datetime | None) -> ActivityEntry:
    """The line of what somebody did to an issue."""
    issue = payload.issue
    return ActivityEntry(
        actor=payload.actor,
        verb=verb,
        object=f"issue {_name(payload, issue.number, issue.title)}",
        at=at,
        kind="githubissue",
        resource=str(issue.id),
        link=link(payload, "issues", issue.number),
    )


def about_pull_request(
    payload: github.PullRequestEvent | github.ReviewEvent, verb: str, *, at: datetime | None
) -> ActivityEntry:
    """The line of what somebody did to a pull request."""
    pull_request = payload.pull_request
    if pull_request is None:
        return ActivityEntry(
            actor=payload.actor, verb=verb, object=f"a pull request of {payload.where or 'GitHub'}", at=at
        )
    return ActivityEntry(
        actor=payload.actor,
        verb=verb,
        object=f"pull request {_name(payload, pull_request.number, pull_request.title)}",
        at=at,
        kind="githubpullrequest",
        resource=str(pull_request.id),
        link=link(payload, "pull", pull_request.number),
    )


def about_deployment(
    payload: github.DeploymentEvent | github.DeploymentStatusEvent,
    verb: str,
    deployment_id: str | None,
    *,
    at: datetime | None,
) -> ActivityEntry:
    deployment = payload.deployment
    ref, environment = (deployment.ref, deployment.environment) if deployment else ("", "")
    words = ("deployment", f"of {payload.where}" * bool(payload.where), ref, f"to {environment}" * bool(environment))
    return ActivityEntry(
        actor=payload.actor,
        verb=verb,
        object=" ".join(word for word in words if word),
        at=at,
        kind="githubdeployment" if deployment_id else "",
        resource=deployment_id or "",
        link=link(payload, "deployments", environment or None),
    )


def login(account: github.Account | None) -> str:
    """The name of an account; "" for GitHub itself and for one that is gone."""
    return account.login if account else ""


def link(payload: github.Envelope, *parts: object) -> str:
    """An address within the event's repository; "" if it does not say that, or one of the parts is None."""
    return "" if None in parts else links.under(payload.address, *parts)


def kept_link(payload: github.Envelope, *parts: object) -> Any:
    """The same for a column: ABSENT where the event does not say it."""
    return link(payload, *parts) if payload.address and None not in parts else ABSENT


def _common_columns(issue: github.Issue | github.PullRequest) -> dict[str, Any]:
    """What an issue and a pull request both have: to GitHub every pull request is an issue, too."""
    return {
        "number": ABSENT if issue.number is None else issue.number,
        "author": issue.sent("user", login(issue.user)),
        "labels": issue.sent("labels", [label.name for label in issue.labels]),
        **issue.columns("title", "state", "created_at", "closed_at"),
    }


def _name(payload: github.Envelope, number: int | None, title: str) -> str:
    """`octo/repo#7: Title`, without what the event does not say."""
    place = payload.where + (f"#{number}" if number is not None else "")
    return ": ".join(part for part in (place, title) if part) or "of GitHub"
