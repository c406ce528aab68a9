"""A body that is not what its type promises is refused with the name of the field: each required one of each type."""

import copy
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.webhook_samples import handle, sample
from webhooks.domain.payloads.base import Many, Maybe, Millis, Moment, Payload, Short, read
from webhooks.errors import BadPayload

_REPOSITORY = (
    "repository repository.id repository.full_name "
    "repository.html_url repository.private repository.updated_at"
)
_ISSUE = (
    f"{_REPOSITORY} issue issue.id issue.number issue.title issue.state issue.created_at issue.updated_at"
)
_PULL_REQUEST = (
    f"{_REPOSITORY} pull_request pull_request.id pull_request.number pull_request.title pull_request.state "
    "pull_request.head pull_request.head.ref pull_request.head.sha pull_request.base pull_request.base.ref "
    "pull_request.created_at pull_request.updated_at"
)
_DEPLOYMENT = (
    f"{_REPOSITORY} deployment deployment.id deployment.sha deployment.ref deployment.task deployment.environment "
    "deployment.created_at deployment.updated_at"
)
_JIRA = (
    "timestamp issue issue.id issue.key issue.self issue.fields issue.fields.summary issue.fields.status.name"
)
_STRIPE = "created data data.object data.object.id"
_MEMBERSHIP = (
    "data data.id data.role data.organization.id data.organization.name data.public_user_data.user_id"
)

REQUIRED = {
    "github/issues.opened.1.json": _ISSUE,
    "github/issues.deleted.1.json": _ISSUE,
    "github/issue_comment.created.1.json": f"{_ISSUE} comment comment.created_at",
    "github/pull_request.opened.1.json": _PULL_REQUEST,
    "github/pull_request_review.submitted.1.json": f"{_PULL_REQUEST} review review.id review.state",
    "github/pull_request_review_comment.created.1.json": f"{_PULL_REQUEST} comment comment.created_at",
    "github/push.2.json": f"{_REPOSITORY} ref before after created deleted forced compare commits pusher.name "
    "head_commit.message head_commit.timestamp",
    "github/deployment.created.1.json": _DEPLOYMENT,
    "github/deployment_status.created.1.json": f"{_DEPLOYMENT} deployment_status.id deployment_status.state "
    "deployment_status.created_at deployment_status.updated_at",
    "github/release.prereleased.1.json": f"{_REPOSITORY} release release.tag_name",
    "github/create.1.json": f"{_REPOSITORY} ref ref_type",
    "github/delete.1.json": f"{_REPOSITORY} ref ref_type",
    "github/fork.1.json": f"{_REPOSITORY} forkee.full_name forkee.html_url forkee.created_at",
    "github/member.added.1.json": f"{_REPOSITORY} member.login",
    "github/watch.started.1.json": _REPOSITORY,
    "github/ping.1.json": "zen hook_id",
    "jira/jira.issue_created.1.json": f"{_JIRA} issue.fields.project.key issue.fields.issuetype.name changelog.id",
    "jira/jira.issue_deleted.1.json": _JIRA,
    "jira/comment_created.1.json": f"{_JIRA.replace(' issue ', ' ')} comment comment.id comment.self comment.body",
    "jira/comment_created.2.json": "timestamp comment comment.id comment.self comment.body",
    "confluence/page_created.1.json": "timestamp page page.id",
    "confluence/page_updated.2.json": "timestamp page page.id",
    "confluence/blog_created.1.json": "timestamp blog blog.id",
    "confluence/comment_created.2.json": "timestamp comment comment.id comment.parent.id",
    "stripe/customer.created.1.json": _STRIPE,
    "stripe/customer.subscription.created.1.json": f"{_STRIPE} data.object.customer data.object.status "
    "data.object.items data.object.items.data data.object.items.data.0.price data.object.items.data.0.price.id",
    "stripe/invoice.paid.1.json": f"{_STRIPE} data.object.status data.object.currency data.object.amount_due",
    "stripe/checkout.session.completed.1.json": "created data data.object",
    "stripe/payout.paid.1.json": f"{_STRIPE} data.object.amount data.object.currency",
    "clerk/user.created.1.json": "data data.id data.email_addresses.0.id data.email_addresses.0.email_address",
    "clerk/user.deleted.1.json": "data data.id",
    "clerk/organization.created.1.json": "data data.id data.name",
    "clerk/organizationMembership.created.1.json": _MEMBERSHIP,
    "clerk/organizationMembership.deleted.1.json": _MEMBERSHIP,
    "clerk/session.created.1.json": "data data.id data.user_id data.status",
    "sandbox-hook-events/SessionStart.2.json": "session_id",
    "sandbox-hook-events/Notification.1.json": "session_id message",
    "sandbox-hook-events/PreToolUse.3.json": "session_id tool_name tool_input",
    "sandbox-hook-events/PostToolUse.3.json": "session_id tool_name tool_input",
    "sandbox-hook-events/PostToolUseFailure.1.json": "session_id tool_name tool_input",
    "sandbox-completion/sandbox.session.failed.1.json": "timestamp data data.job_id data.session_id data.sandbox_id "
    "data.attempt data.status",
    "sandbox-tail-telemetry/fetch.3.json": "items items.0.outcome",
}
CASES = [(file, field) for file, fields in REQUIRED.items() for field in fields.split()]


def changed(file: str, field: str, *, to: Any = None, is_missing: bool = False) -> Any:
    """The body of a sample with one field changed or taken away."""
    document = copy.deepcopy(sample(file).document())
    *path, last = [int(part) if part.isdecimal() else part for part in field.split(".")]
    holder = document
    for part in path:
        holder = holder[part]
    if is_missing:
        del holder[last]
    else:
        holder[last] = to
    return document


def refusal(file: str, body: Any) -> BadPayload:
    """What the handler says of a body, before it touches the database."""
    with pytest.raises(BadPayload) as refused:
        handle(sample(file).event(body=body))
    return refused.value


class TestAPromise:
    @pytest.mark.parametrize(("file", "field"), CASES)
    def test_is_broken_by_a_missing_field(self, file: str, field: str) -> None:
        refused = refusal(file, changed(file, field, is_missing=True))
        assert (refused.field, refused.reason) == (field, "field required")
        assert field in refused.message

    @pytest.mark.parametrize(("file", "field"), CASES)
    def test_is_broken_by_another_type(self, file: str, field: str) -> None:
        given = sample(file).document()
        for part in field.split("."):
            given = given[int(part) if part.isdecimal() else part]
        wrong = ["a", "list"] if isinstance(given, str) else "a text"
        assert refusal(file, changed(file, field, to=wrong)).field == field

    def test_is_broken_by_true_for_a_number(self) -> None:
        assert (
            refusal(
                "github/issues.opened.1.json", changed("github/issues.opened.1.json", "issue.id", to=True)
            ).field
            == "issue.id"
        )

    @pytest.mark.parametrize("number", [-1, 2**63])
    def test_is_broken_by_a_number_that_no_column_holds(self, number: int) -> None:
        body = changed("github/issues.opened.1.json", "issue.number", to=number)
        assert refusal("github/issues.opened.1.json", body).field == "issue.number"

    @pytest.mark.parametrize("body", [[], "text", 7, None])
    def test_is_broken_by_what_is_no_object(self, body: Any) -> None:
        assert refusal("github/push.2.json", body).field == "body"


class Sample(Payload):
    """Of each of the types that need care, one."""

    at: Moment
    millis: Millis
    title: Short = ""
    note: Maybe = ""
    labels: Many[Short] = []


def sampled(**given: Any) -> Sample:
    return read(Sample, {"at": "2026-11-21T12:00:00Z", "millis": 0} | given)


class TestAMoment:
    @pytest.mark.parametrize(
        "text", ["2019-02-15T19:11:18.321-0800", "2019-02-16T03:11:18.321Z", "2019-02-16T03:11:18.321+00:00"]
    )
    def test_is_read_in_every_zone(self, text: str) -> None:
        assert sampled(at=text).at == datetime(2019, 2, 16, 3, 11, 18, 321000, tzinfo=UTC)

    @pytest.mark.parametrize(
        "value",
        ["", "now", "2019-02-15T19:11:18", "2019-02-15", "2019-13-15T19:11:18Z", "0001-01-01T00:00:00+14:00",
         "9" * 1000, 7, None, True],
    )  # fmt: skip
    def test_that_is_none_is_refused(self, value: Any) -> None:
        with pytest.raises(BadPayload) as refused:
            sampled(at=value)
        assert refused.value.field == "at"

    @pytest.mark.parametrize("value", ["1", None, True, 10**30, -(10**30), float("inf"), float("nan")])
    def test_in_milliseconds_that_is_none_is_refused(self, value: Any) -> None:
        with pytest.raises(BadPayload) as refused:
            sampled(millis=value)
        assert refused.value.field == "millis"

    def test_in_milliseconds_counts_from_1970(self) -> None:
        assert sampled(millis=1790000000977).millis == datetime(2026, 9, 21, 14, 13, 20, 977000, tzinfo=UTC)


class TestAText:
    def test_that_is_too_long_is_cut(self) -> None:
        assert sampled(title="x" * 255).title == "x" * 255
        assert sampled(title="x" * 1000).title == "x" * 254 + "…"

    def test_that_is_null_says_nothing(self) -> None:
        assert sampled(note=None).note == ""
        assert sampled(labels=None).labels == []

    def test_is_no_number(self) -> None:
        with pytest.raises(BadPayload) as refused:
            sampled(title=7)
        assert (refused.value.field, refused.value.reason) == ("title", "input should be a valid string")
