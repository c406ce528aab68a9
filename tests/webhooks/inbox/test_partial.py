"""What adapters really send: parts, types that nobody has heard of, and bodies without what their handler needs."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from scheduling import operations as scheduling
from tests.webhook_samples import fields, sample, stored
from tests.webhooks.inbox.support import keep_one, pass_time, pending, receive
from webhooks.domain.deliveries import Source
from webhooks.errors import BadPayload, CannotReplay
from webhooks.handlers.registry import Event
from webhooks.models import Activity, Delivery, DeliveryAttempt
from webhooks.models.resources import (
    ConfluenceComment,
    GithubIssue,
    GithubRepository,
    JiraComment,
    JiraIssue,
    StripeInvoice,
)
from webhooks.operations import Verdict, process, replay

pytestmark = pytest.mark.usefixtures("transactional_db")
Register = Callable[[str, str, Any], None]

ISSUE = "github/issues.opened.1.json"
SITE = "https://farm.atlassian.net/rest/api/2"
STUB = {"id": "10040", "key": "TES-41", "fields": {}}
COMMENT = {"id": "7", "self": f"{SITE}/issue/10040/comment/7", "body": "Soon."}
UNKNOWN = [
    ("github", "issues.frobnicated", {"action": "frobnicated", "issue": {"id": 1}}),
    ("github", "pull_request.frobnicated", {"action": "frobnicated"}),
    ("github", "deployment.frobnicated", {"action": "frobnicated"}),
    ("github", "sub_issues.parent_issue_added", {"action": "parent_issue_added"}),
    ("github", "issues", {}),
    ("jira", "jira:issue_archived", {"webhookEvent": "jira:issue_archived"}),
    ("jira", "comment_pinned", {"webhookEvent": "comment_pinned"}),
    ("confluence", "page_unheard_of", {"event": "page_unheard_of"}),
    ("confluence", "whiteboard_created", {"event": "whiteboard_created"}),
    ("stripe", "invoice.frobnicated", {"type": "invoice.frobnicated"}),
    ("stripe", "invoice_payment.paid", {"type": "invoice_payment.paid"}),
    ("stripe", "customer.subscription.frobnicated", {"type": "customer.subscription.frobnicated"}),
    ("stripe", "v1.billing.meter.no_meter_found", {"object": "v2.core.event"}),
    ("clerk", "user.frobnicated", {"type": "user.frobnicated"}),
    ("clerk", "organizationInvitation.frobnicated", {"type": "organizationInvitation.frobnicated"}),
    ("clerk", "waitlistEntry.created", {"type": "waitlistEntry.created"}),
    ("sandbox_hooks", "TaskCreated", {"hook_event_name": "TaskCreated"}),
    ("sandbox_completion", "sandbox.session.frobnicated", {"type": "sandbox.session.frobnicated"}),
    ("sandbox_completion", "sandbox.started", {"type": "sandbox.started"}),
    ("sandbox_telemetry", "frobnicated", [{"outcome": "ok"}]),
]


def processed(document: Any, source: str, event_type: str, *, name: str = "d-1", minute: int = 0) -> Delivery:
    """A delivery, after its first attempt."""
    at = datetime(2026, 11, 21, 12, minute, tzinfo=UTC)
    delivery = receive(document, source=Source(source), event_type=event_type, delivery_id=name, occurred_at=at)
    scheduling.run_due()
    delivery.refresh_from_db()
    return delivery


def issue_event(action: str, **issue: Any) -> dict[str, Any]:
    """An event of GitHub with no more of its issue than is given."""
    body: dict[str, Any] = json.loads(sample(ISSUE).body)
    return body | {"action": action, "issue": {"id": 444500041, "number": 1} | issue}


def kept_issue() -> tuple[Any, ...]:
    return fields(GithubIssue, "title", "state", "labels")


class TestAnIssueOfGithub:
    def test_without_state_or_labels_keeps_those_that_are_known(self) -> None:
        processed(json.loads(sample(ISSUE).body), "github", "issues.opened")
        later = issue_event("edited", title="Fixed", updated_at="2026-01-01T00:00:00Z")
        delivery = processed(later, "github", "issues.edited", name="d-2")
        assert (delivery.status, delivery.note) == ("processed", None)
        assert kept_issue() == ("Fixed", "open", ["bug"])

    def test_without_labels_is_closed_and_keeps_them(self) -> None:
        processed(json.loads(sample(ISSUE).body), "github", "issues.opened")
        later = issue_event("closed", state="closed", updated_at="2026-01-01T00:00:00Z")
        processed(later, "github", "issues.closed", name="d-2")
        assert kept_issue() == ("Spelling error in the README file", "closed", ["bug"])

    def test_that_has_no_label_any_more_says_so(self) -> None:
        processed(json.loads(sample(ISSUE).body), "github", "issues.opened")
        later = issue_event("unlabeled", labels=[], updated_at="2026-01-01T00:00:00Z")
        processed(later, "github", "issues.unlabeled", name="d-2")
        assert kept_issue() == ("Spelling error in the README file", "open", [])

    def test_in_part_is_filled_in_by_an_older_whole_one(self) -> None:
        part = issue_event("edited", title="Fixed", updated_at="2026-01-01T00:00:00Z")
        processed(part, "github", "issues.edited")
        assert kept_issue() == ("Fixed", None, None)
        processed(json.loads(sample(ISSUE).body), "github", "issues.opened", name="d-2")
        assert kept_issue() == ("Fixed", "open", ["bug"])
        assert stored(GithubIssue).state_at == datetime(2026, 1, 1, tzinfo=UTC)

    def test_without_a_moment_fills_in_and_replaces_nothing_that_has_one(self) -> None:
        processed(issue_event("edited", title="Undated", state="closed"), "github", "issues.edited")
        assert kept_issue() == ("Undated", "closed", None)
        processed(json.loads(sample(ISSUE).body), "github", "issues.opened", name="d-2")
        again = issue_event("closed", title="Undated again", state="closed")
        processed(again, "github", "issues.closed", name="d-3")
        assert kept_issue() == ("Spelling error in the README file", "open", ["bug"])

    def test_without_a_repository_is_kept_and_told(self) -> None:
        body = {key: value for key, value in issue_event("opened", title="Alone").items() if key != "repository"}
        delivery = processed(body, "github", "issues.opened")
        assert delivery.status == "processed"
        assert stored(GithubIssue).parent is None
        assert not GithubRepository.objects.exists()
        assert Activity.objects.get().object == "issue #1: Alone"

    def test_with_a_field_that_cannot_be_read_is_taken_without_it_and_the_note_names_it(self) -> None:
        delivery = processed(issue_event("opened", title="T", labels="bug", state=7), "github", "issues.opened")
        note = "taken in without what could not be read: issue.state, issue.labels"
        assert (delivery.status, delivery.note) == ("processed", note)
        assert kept_issue() == ("T", None, None)


class TestACommentOnAStub:
    def test_of_jira_makes_the_issue_and_leaves_the_rest_to_others(self) -> None:
        body = {"webhookEvent": "comment_created", "timestamp": 1790000000000, "comment": COMMENT, "issue": STUB}
        delivery = processed(body, "jira", "comment_created")
        assert (delivery.status, delivery.note) == ("processed", None)
        assert fields(JiraIssue, "external_id", "key", "summary", "status") == (
            "farm.atlassian.net/10040", "TES-41", None, None,
        )  # fmt: skip
        assert stored(JiraComment).parent == "farm.atlassian.net/10040"
        assert Activity.objects.get().object == "TES-41"

    @pytest.mark.parametrize("is_first", [True, False])
    def test_of_jira_takes_nothing_from_a_whole_issue_before_it_or_after(self, *, is_first: bool) -> None:
        whole = json.loads(sample("jira/jira.issue_created.2.json").body)
        site = whole["issue"]["self"].partition("/issue/")[0]
        stub = {"id": whole["issue"]["id"], "key": whole["issue"]["key"], "fields": {}}
        comment = COMMENT | {"self": f"{site}/issue/{stub['id']}/comment/7"}
        part = {"webhookEvent": "comment_created", "timestamp": 1790000000000, "comment": comment, "issue": stub}
        events = [(whole, "jira:issue_created"), (part, "comment_created")]
        for n, (body, event_type) in enumerate(events if is_first else events[::-1]):
            assert processed(body, "jira", event_type, name=f"d-{n}").status == "processed"
        kept = stored(JiraIssue)
        assert (kept.summary, kept.status, kept.labels) == ("Unit test summary", "To Do", ["test-label"])

    def test_of_confluence_is_kept_with_the_page_that_it_names(self) -> None:
        body = {"event": "comment_created", "comment": {"id": 7, "parent": {"id": 5}}}
        assert processed(body, "confluence", "comment_created").status == "processed"
        comment: Any = stored(ConfluenceComment)
        assert (comment.external_id, comment.parent) == ("7", "5")

    def test_of_github_is_processed(self) -> None:
        body = {"action": "created", "issue": {"id": 1}, "comment": {}}
        assert processed(body, "github", "issue_comment.created").status == "processed"


class TestAnUnknownType:
    @pytest.mark.parametrize(("source", "event_type", "body"), UNKNOWN)
    def test_is_ignored(self, source: str, event_type: str, body: Any) -> None:
        delivery = receive(body, source=Source(source), event_type=event_type)
        process(delivery=delivery.pk)
        delivery.refresh_from_db()
        assert (delivery.status, delivery.note) == ("ignored", "nothing handles this type of event")


class TestABodyWithoutWhatIsNeeded:
    @pytest.mark.parametrize(
        ("source", "event_type", "body", "field"),
        [
            ("github", "issues.opened", {"action": "opened", "issue": {"title": "T"}}, "issue.id"),
            ("github", "push", {"ref": "refs/heads/main", "after": "a" * 40}, "repository"),
            ("jira", "jira:issue_created", {"issue": {"key": "TES-41"}}, "issue.id"),
            ("jira", "jira:issue_created", {"issue": STUB}, "issue.self"),
            ("confluence", "page_updated", {"page": {"title": "T"}}, "page.id"),
            ("stripe", "invoice.paid", {"data": {"object": {"total": 7}}}, "data.object.id"),
            ("clerk", "user.created", {"data": {"username": "ada"}}, "data.id"),
            ("sandbox_hooks", "Stop", {}, "session_id"),
            ("sandbox_completion", "sandbox.session.failed", {"data": {"job_id": "a"}}, "data.attempt"),
            ("sandbox_telemetry", "batch", [7], "items"),
        ],
    )
    def test_is_rejected_at_once_with_the_name_of_the_field(
        self, source: str, event_type: str, body: Any, field: str
    ) -> None:
        delivery = receive(body, source=Source(source), event_type=event_type)
        process(delivery=delivery.pk)
        delivery.refresh_from_db()
        sentence = f"The payload is not what its type promises: {field}"
        assert (delivery.status, delivery.attempts, delivery.next_attempt_at) == ("rejected", 1, None)
        assert (delivery.note or "").startswith(sentence)
        attempt = DeliveryAttempt.objects.get()
        assert (attempt.outcome, attempt.error, attempt.traceback) == ("rejected", delivery.note, None)
        assert [run for run in pending() if run.args.get("number")] == []

    def test_leaves_nothing_of_what_was_written_before_it_was_found(self, handle: Register) -> None:
        def half(event: Event) -> None:
            GithubRepository.objects.create(type="githubrepository", external_id=event.delivery_id)
            raise BadPayload(field="issue.id", reason="field required")

        handle("github", "probe", half)
        assert processed({"a": 1}, "github", "probe").status == "rejected"
        assert not GithubRepository.objects.exists()

    def test_is_processed_again_when_a_person_replays_it(self, handle: Register) -> None:
        body = {"action": "opened", "issue": {"title": "T"}}
        delivery = processed(body, "github", "issues.opened")
        handle("github", "issues.opened", lambda _: None)
        assert replay(delivery.pk).status == "received"
        pass_time()
        delivery.refresh_from_db()
        assert (delivery.status, delivery.note, delivery.tries) == ("processed", None, 2)

    def test_is_processed_again_when_its_sender_repeats_it(self) -> None:
        body = {"action": "opened", "issue": {"title": "T"}}
        first = processed(body, "github", "issues.opened")
        assert keep_one(body, event_type="issues.opened").verdict is Verdict.DUPLICATE
        assert scheduling.run_due() == 1
        first.refresh_from_db()
        assert (first.status, first.tries, first.duplicates) == ("rejected", 2, 1)

    def test_is_not_replayed_if_it_was_rejected_on_arrival(self) -> None:
        """It never got to a handler: another one could not read it either."""
        delivery = receive({"a": 1})
        Delivery.objects.update(status="rejected", note="x", ended_at=delivery.received_at)
        with pytest.raises(CannotReplay):
            replay(delivery.pk)


class TestAPartThatComesTwice:
    def test_is_the_same_as_once(self) -> None:
        part = issue_event("edited", title="Fixed", updated_at="2026-01-01T00:00:00Z")
        delivery = processed(part, "github", "issues.edited")
        before = GithubIssue.objects.values().get()
        replay(delivery.pk)
        pass_time()
        assert GithubIssue.objects.values().get() == before
        delivery.refresh_from_db()
        assert (delivery.status, delivery.tries) == ("processed", 2)

    def test_of_stripe_names_its_customer_by_id_or_whole(self) -> None:
        invoice = {"id": "in_1", "customer": {"id": "cus_1", "object": "customer"}, "status": "open"}
        body = {"created": 1790000000, "data": {"object": invoice}}
        assert processed(body, "stripe", "invoice.finalized").status == "processed"
        kept: Any = stored(StripeInvoice)
        assert (kept.parent, kept.status) == ("cus_1", "open")
