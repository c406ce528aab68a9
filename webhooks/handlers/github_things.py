"""GitHub: keeping what events carry, container before content, and the lines that speak of it.

Nearly every event carries its repository. It is kept first, so that all of them lock rows in one order.
"""

from datetime import datetime
from typing import Any

from webhooks.domain import links
from webhooks.domain.payloads import github
from webhooks.domain.payloads.base import ABSENT
from webhooks.handlers.dating import dated
from webhooks.handlers.registry import Event
from webhooks.handlers.telling import Line
from webhooks.models import GithubDeployment, GithubIssue, GithubPullRequest, GithubRepository
from webhooks.queries.keeping import keep


def keep_repository(event: Event, told: github.Repository | None, *, rank: int = 0) -> str | None:
    """Keep the repository that an event carries, if it does; its id. Its own events (`rank` 1) know best."""
    if told is None:
        return None
    keep(
        GithubRepository,
        str(told.id),
        dated(event, told.updated_at, rank=rank),
        full_name=told.sent("full_name"),
        description=told.sent("description"),
        default_branch=told.sent("default_branch"),
        language=told.sent("language"),
        is_private=told.sent("private"),
        is_archived=told.sent("archived"),
        is_fork=told.sent("fork"),
        link=told.sent("html_url", links.https(told.html_url)),
        created_at=told.sent("created_at"),
    )
    return str(told.id)


def keep_issue(event: Event, told: github.IssueEvent, *, rank: int) -> str:
    """Keep the issue of an event, after its repository; its id."""
    given = told.issue
    repository_id = keep_repository(event, told.repository)
    keep(
        GithubIssue,
        str(given.id),
        dated(event, given.updated_at, rank=rank),
        repository_id=repository_id or ABSENT,
        reason=given.sent("state_reason"),
        assignees=given.sent("assignees", [account.login for account in given.assignees]),
        link=kept_link(told, "issues", given.number),
        **_common_columns(given),
    )
    return str(given.id)


def keep_pull_request(
    event: Event, told: github.PullRequestEvent | github.ReviewEvent, *, rank: int
) -> str | None:
    """Keep the pull request of an event, after its repository; its id. None if the event carries none."""
    given = told.pull_request
    repository_id = keep_repository(event, told.repository)
    if given is None:
        return None
    keep(
        GithubPullRequest,
        str(given.id),
        dated(event, given.updated_at, rank=rank),
        repository_id=repository_id or ABSENT,
        is_draft=given.sent("draft"),
        reviewers=given.sent("requested_reviewers", [one.login for one in given.requested_reviewers]),
        head_ref=given.head.sent("ref"),
        head_sha=given.head.sent("sha"),
        base_ref=given.base.sent("ref"),
        link=kept_link(told, "pull", given.number),
        merged_at=given.sent("merged_at"),
        **_common_columns(given),
    )
    return str(given.id)


def keep_deployment(event: Event, told: github.DeploymentEvent | github.DeploymentStatusEvent) -> str | None:
    """Keep the deployment of an event, after its repository; its id. None if the event carries none."""
    given = told.deployment
    repository_id = keep_repository(event, told.repository)
    if given is None:
        return None
    keep(
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


def about_issue(told: github.IssueEvent, verb: str, *, at: datetime | None) -> Line:
    """The line of what somebody did to an issue."""
    given = told.issue
    return Line(
        actor=told.actor,
        verb=verb,
        object=f"issue {_name(told, given.number, given.title)}",
        at=at,
        kind="githubissue",
        thing=str(given.id),
        link=link(told, "issues", given.number),
    )


def about_pull_request(
    told: github.PullRequestEvent | github.ReviewEvent, verb: str, *, at: datetime | None
) -> Line:
    """The line of what somebody did to a pull request."""
    given = told.pull_request
    if given is None:
        return Line(actor=told.actor, verb=verb, object=f"a pull request of {told.where or 'GitHub'}", at=at)
    return Line(
        actor=told.actor,
        verb=verb,
        object=f"pull request {_name(told, given.number, given.title)}",
        at=at,
        kind="githubpullrequest",
        thing=str(given.id),
        link=link(told, "pull", given.number),
    )


def about_deployment(
    told: github.DeploymentEvent | github.DeploymentStatusEvent,
    verb: str,
    deployment_id: str | None,
    *,
    at: datetime | None,
) -> Line:
    """The line of how a deployment goes."""
    given = told.deployment
    ref, environment = (given.ref, given.environment) if given else ("", "")
    words = (
        "deployment",
        f"of {told.where}" * bool(told.where),
        ref,
        f"to {environment}" * bool(environment),
    )
    return Line(
        actor=told.actor,
        verb=verb,
        object=" ".join(word for word in words if word),
        at=at,
        kind="githubdeployment" if deployment_id else "",
        thing=deployment_id or "",
        link=link(told, "deployments", environment or None),
    )


def login(account: github.Account | None) -> str:
    """The name of an account; "" for GitHub itself and for one that is gone."""
    return account.login if account else ""


def link(told: github.Envelope, *parts: object) -> str:
    """An address within the event's repository; "" if it does not say that, or one of the parts is None."""
    return "" if None in parts else links.under(told.address, *parts)


def kept_link(told: github.Envelope, *parts: object) -> Any:
    """The same for a column: ABSENT where the event does not say it."""
    return link(told, *parts) if told.address and None not in parts else ABSENT


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


def _name(told: github.Envelope, number: int | None, title: str) -> str:
    """`octo/repo#7: Title`, without what the event does not say."""
    place = told.where + (f"#{number}" if number is not None else "")
    return ": ".join(part for part in (place, title) if part) or "of GitHub"
