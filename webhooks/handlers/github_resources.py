"""GitHub: keeping what events carry, container before content, and the lines that speak of it.

Nearly every event carries its repository. It is kept first, so that all of them lock rows in one order.
"""

from datetime import datetime
from typing import Any

from webhooks.domain import links
from webhooks.domain.payloads import github
from webhooks.domain.payloads.base import ABSENT
from webhooks.handlers.activity import ActivityEntry
from webhooks.handlers.dating import dated
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
        dated(event, payload.updated_at, rank=rank),
        full_name=payload.sent("full_name"),
        description=payload.sent("description"),
        default_branch=payload.sent("default_branch"),
        language=payload.sent("language"),
        is_private=payload.sent("private"),
        is_archived=payload.sent("archived"),
        is_fork=payload.sent("fork"),
        link=payload.sent("html_url", links.https(payload.html_url)),
        created_at=payload.sent("created_at"),
    )
    return str(payload.id)


def upsert_issue(event: Event, payload: github.IssueEvent, *, rank: int) -> str:
    """Keep the issue of an event, after its repository; its id."""
    given = payload.issue
    repository_id = upsert_repository(event, payload.repository)
    upsert(
        GithubIssue,
        str(given.id),
        dated(event, given.updated_at, rank=rank),
        repository_id=repository_id or ABSENT,
        reason=given.sent("state_reason"),
        assignees=given.sent("assignees", [account.login for account in given.assignees]),
        link=kept_link(payload, "issues", given.number),
        **_common_columns(given),
    )
    return str(given.id)


def upsert_pull_request(
    event: Event, payload: github.PullRequestEvent | github.ReviewEvent, *, rank: int
) -> str | None:
    """Keep the pull request of an event, after its repository; its id. None if the event carries none."""
    given = payload.pull_request
    repository_id = upsert_repository(event, payload.repository)
    if given is None:
        return None
    upsert(
        GithubPullRequest,
        str(given.id),
        dated(event, given.updated_at, rank=rank),
        repository_id=repository_id or ABSENT,
        is_draft=given.sent("draft"),
        reviewers=given.sent("requested_reviewers", [one.login for one in given.requested_reviewers]),
        head_ref=given.head.sent("ref"),
        head_sha=given.head.sent("sha"),
        base_ref=given.base.sent("ref"),
        link=kept_link(payload, "pull", given.number),
        merged_at=given.sent("merged_at"),
        **_common_columns(given),
    )
    return str(given.id)


def upsert_deployment(
    event: Event, payload: github.DeploymentEvent | github.DeploymentStatusEvent
) -> str | None:
    """Keep the deployment of an event, after its repository; its id. None if the event carries none."""
    given = payload.deployment
    repository_id = upsert_repository(event, payload.repository)
    if given is None:
        return None
    upsert(
        GithubDeployment,
        str(given.id),
        dated(event, given.updated_at),
        repository_id=repository_id or ABSENT,
        environment=given.sent("environment"),
        task=given.sent("task"),
        ref=given.sent("ref"),
        sha=given.sent("sha"),
        description=given.sent("description"),
        author=given.sent("creator", login(given.creator)),
        created_at=given.sent("created_at"),
    )
    return str(given.id)


def about_issue(payload: github.IssueEvent, verb: str, *, at: datetime | None) -> ActivityEntry:
    """The line of what somebody did to an issue."""
    given = payload.issue
    return ActivityEntry(
        actor=payload.actor,
        verb=verb,
        object=f"issue {_name(payload, given.number, given.title)}",
        at=at,
        kind="githubissue",
        resource=str(given.id),
        link=link(payload, "issues", given.number),
    )


def about_pull_request(
    payload: github.PullRequestEvent | github.ReviewEvent, verb: str, *, at: datetime | None
) -> ActivityEntry:
    """The line of what somebody did to a pull request."""
    given = payload.pull_request
    if given is None:
        return ActivityEntry(
            actor=payload.actor, verb=verb, object=f"a pull request of {payload.where or 'GitHub'}", at=at
        )
    return ActivityEntry(
        actor=payload.actor,
        verb=verb,
        object=f"pull request {_name(payload, given.number, given.title)}",
        at=at,
        kind="githubpullrequest",
        resource=str(given.id),
        link=link(payload, "pull", given.number),
    )


def about_deployment(
    payload: github.DeploymentEvent | github.DeploymentStatusEvent,
    verb: str,
    deployment_id: str | None,
    *,
    at: datetime | None,
) -> ActivityEntry:
    """The line of how a deployment goes."""
    given = payload.deployment
    ref, environment = (given.ref, given.environment) if given else ("", "")
    words = (
        "deployment",
        f"of {payload.where}" * bool(payload.where),
        ref,
        f"to {environment}" * bool(environment),
    )
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


def _common_columns(given: github.Issue | github.PullRequest) -> dict[str, Any]:
    """What an issue and a pull request both have: to GitHub every pull request is an issue, too."""
    return {
        "number": ABSENT if given.number is None else given.number,
        "title": given.sent("title"),
        "state": given.sent("state"),
        "author": given.sent("user", login(given.user)),
        "labels": given.sent("labels", [label.name for label in given.labels]),
        "created_at": given.sent("created_at"),
        "closed_at": given.sent("closed_at"),
    }


def _name(payload: github.Envelope, number: int | None, title: str) -> str:
    """`octo/repo#7: Title`, without what the event does not say."""
    place = payload.where + (f"#{number}" if number is not None else "")
    return ": ".join(part for part in (place, title) if part) or "of GitHub"
