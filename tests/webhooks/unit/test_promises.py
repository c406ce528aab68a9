"""A body is refused with the name of the field if it lacks one that its handler cannot do without, and for no other."""

import copy
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.webhook_samples import handle, sample
from tests.webhooks.integration.variants import GONE, fields, variant
from webhooks.domain.payloads import stripe
from webhooks.domain.payloads.base import ABSENT, Many, Maybe, Millis, Moment, Payload, Short, read
from webhooks.errors import BadPayload

# All that the handlers cannot do without; of a part that is needed its holders are too.
NEEDED = {
    "github/issues.opened.1.json": "issue issue.id",
    "github/issues.deleted.1.json": "issue issue.id",
    "github/issue_comment.created.1.json": "issue issue.id",
    "github/pull_request.opened.1.json": "pull_request pull_request.id",
    "github/pull_request_review.submitted.1.json": "review review.id",
    "github/pull_request_review_comment.created.1.json": "pull_request pull_request.id",
    "github/push.2.json": "ref after repository repository.id",
    "github/deployment.created.1.json": "deployment deployment.id",
    "github/deployment_status.created.1.json": "deployment_status deployment_status.id",
    "github/release.prereleased.1.json": "release",
    "github/create.1.json": "ref",
    "github/delete.1.json": "ref",
    "github/fork.1.json": "",
    "github/member.added.1.json": "",
    "github/watch.started.1.json": "",
    "github/ping.1.json": "",
    "jira/jira.issue_created.1.json": "issue issue.id",
    "jira/jira.issue_deleted.1.json": "issue issue.id",
    "jira/comment_created.1.json": "comment comment.id",
    "jira/comment_created.2.json": "comment comment.id",
    "confluence/page_created.1.json": "page page.id",
    "confluence/page_updated.2.json": "page page.id",
    "confluence/blog_created.1.json": "blog blog.id",
    "confluence/comment_created.2.json": "comment comment.id",
    "stripe/customer.created.1.json": "data data.object data.object.id",
    "stripe/customer.subscription.created.1.json": "data data.object data.object.id",
    "stripe/invoice.paid.1.json": "data data.object data.object.id",
    "stripe/checkout.session.completed.1.json": "data data.object",
    "stripe/payout.paid.1.json": "data data.object",
    "clerk/user.created.1.json": "data data.id",
    "clerk/user.deleted.1.json": "data data.id",
    "clerk/organization.created.1.json": "data data.id",
    "clerk/organizationMembership.created.1.json": "data data.id",
    "clerk/organizationMembership.deleted.1.json": "data data.id",
    "clerk/session.created.1.json": "data data.id",
    "sandbox-hook-events/SessionStart.2.json": "session_id",
    "sandbox-hook-events/Notification.1.json": "session_id",
    "sandbox-hook-events/PreToolUse.3.json": "session_id",
    "sandbox-hook-events/PostToolUse.3.json": "session_id",
    "sandbox-hook-events/PostToolUseFailure.1.json": "session_id",
    "sandbox-completion/sandbox.session.failed.1.json": "data data.job_id data.attempt",
    "sandbox-tail-telemetry/fetch.3.json": "items",
}
CASES = [(file, field) for file, fields in NEEDED.items() for field in fields.split()]


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

    @pytest.mark.django_db
    @pytest.mark.parametrize("file", NEEDED)
    def test_is_not_broken_by_any_other_field_that_is_missing(self, file: str) -> None:
        event = sample(file).event()
        for path in fields(event.body):
            name = ".".join(map(str, path))
            if name not in NEEDED[file].split() and isinstance(path[-1], str):
                part = variant(event.body, (path, GONE)).body
                assert handle(replace(event, body=part)) is None, name

    def test_is_broken_by_true_for_a_number(self) -> None:
        assert (
            refusal("github/issues.opened.1.json", changed("github/issues.opened.1.json", "issue.id", to=True)).field
            == "issue.id"
        )

    @pytest.mark.parametrize("number", [-1, 2**63])
    def test_is_broken_by_a_number_that_no_column_holds(self, number: int) -> None:
        body = changed("github/issues.opened.1.json", "issue.id", to=number)
        assert refusal("github/issues.opened.1.json", body).field == "issue.id"

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


class Part(Payload):
    """With a field that is needed, and a list of the same."""

    name: Short
    parts: list["Part"] = []


class Whole(Payload):
    """With optional parts."""

    name: Short = ""
    part: Part | None = None
    parts: list[Part] = []


class TestAFieldThatCannotBeRead:
    def test_counts_as_left_out_and_is_named(self) -> None:
        unread: list[str] = []
        whole = read(Whole, {"name": 7, "part": {"name": "a"}}, unread=unread)
        assert (whole.sent("name"), whole.part, unread) == (ABSENT, Part(name="a"), ["name"])

    def test_takes_the_optional_part_with_it_that_needs_it(self) -> None:
        unread: list[str] = []
        whole = read(Whole, {"name": "w", "part": {"name": 7}}, unread=unread)
        assert (whole.name, whole.sent("part"), unread) == ("w", ABSENT, ["part.name"])

    def test_within_an_item_of_a_list_takes_the_list_with_it(self) -> None:
        """Nobody knows what the whole of it would be."""
        unread: list[str] = []
        whole = read(Whole, {"parts": [{"name": "a"}, {}, {"name": None}]}, unread=unread)
        assert (whole.sent("parts"), unread) == (ABSENT, ["parts.1.name", "parts.2.name"])

    def test_takes_no_more_with_it_than_it_must(self) -> None:
        nested = {"part": {"name": "a", "parts": [{"name": "b", "parts": [{"name": 7}]}]}}
        whole = read(Whole, nested)
        assert whole == Whole(part=Part(name="a", parts=[Part(name="b")]))

    def test_leaves_the_body_as_it_was(self) -> None:
        body = {"parts": [{"name": 7}], "name": 7}
        read(Whole, body)
        assert body == {"parts": [{"name": 7}], "name": 7}

    def test_is_no_null_that_says_there_is_none(self) -> None:
        assert read(Whole, {"part": None}).sent("part") is None
        assert read(Whole, {}).sent("part") is ABSENT

    def test_is_asked_for_by_a_name_that_there_is(self) -> None:
        with pytest.raises(KeyError):
            read(Whole, {}).sent("parts_")

    def test_of_two_hundred_thousand_items_is_found_in_one_copy(self) -> None:
        """Copied anew for each of them, this would take hours."""
        body = {"part": {"name": "a", "parts": [{"name": "b", "parts": 7}] * 200_000}}
        assert len(read(Whole, body).part.parts) == 200_000  # type: ignore[union-attr]


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
        unread: list[str] = []
        assert read(Sample, {"at": "2026-11-21T12:00:00Z", "millis": 0, "title": 7}, unread=unread).title == ""
        assert unread == ["title"]


def test_a_refusal_names_no_class_of_ours() -> None:
    with pytest.raises(BadPayload) as refused:
        read(stripe.Envelope[stripe.Customer], {"data": 7})
    assert (refused.value.field, refused.value.reason) == ("data", "should be an object")
