"""Events are written by the transaction that makes them true, for those who ask, and for nobody else."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from outbox import operations
from outbox.models import Callback, Event, Message
from outbox.operations import NewEvent
from tests.outbox.support import endpoint, messages

pytestmark = pytest.mark.django_db


def record(event_type: str = "queue.paused", **fields: Any) -> int:
    return operations.record(event_type, "queue/gpu", {"queue": "gpu"}, **fields)


def job(event_type: str = "job.succeeded", **fields: Any) -> NewEvent:
    return NewEvent(
        **{"type": event_type, "subject": "job/7", "data": {"job": 7}, "job_id": 7, "kind": "image", **fields}
    )


class TestWithoutAnEndpoint:
    def test_nothing_is_written(self) -> None:
        endpoint(status="disabled")
        assert record() == 0
        assert operations.record_all([job()]) == 0
        assert not Event.objects.exists()

    def test_one_short_statement_says_so(self) -> None:
        with CaptureQueriesContext(connection) as captured:
            record()
        assert len(captured) == 1


class TestWhoGetsAnEvent:
    def test_is_who_asks_for_its_type_its_family_or_all(self) -> None:
        asks = {
            "type": endpoint(events=["queue.paused"]), "family": endpoint(events=["queue.*"]), "all": endpoint(),
            "another type": endpoint(events=["queue.resumed"]), "another family": endpoint(events=["job.*"]),
        }  # fmt: skip
        assert record() == 3
        assert {name for name, one in asks.items() if messages(one)} == {"type", "family", "all"}

    def test_is_who_names_its_kind(self) -> None:
        image, chat, any_kind = endpoint(kinds=["image"]), endpoint(kinds=["chat"]), endpoint()
        operations.record_all([job()])
        record()
        assert messages(image) == [("job.succeeded", "job/7")]
        assert messages(chat) == []
        assert len(messages(any_kind)) == 2

    def test_is_its_owner_their_group_and_who_watches_the_farm(self) -> None:
        ann, bob, eve = (User.objects.create_user(name) for name in ("ann", "bob", "eve"))
        group = Group.objects.create(name="lab")
        bob.groups.add(group)
        mine = {one.username: endpoint(owner=one) for one in (ann, bob, eve)}
        farm = endpoint()
        operations.record_all([job(owner_id=ann.pk, group_id=group.pk)])
        record()  # of a queue, which is nobody's
        assert {name: len(messages(one)) for name, one in mine.items()} == {"ann": 1, "bob": 1, "eve": 0}
        assert len(messages(farm)) == 2

    def test_is_nobody_who_may_not_log_in_any_more(self) -> None:
        ann = User.objects.create_user("ann", is_active=False)
        gone = endpoint(owner=ann)
        operations.record_all([job(owner_id=ann.pk)])
        assert messages(gone) == []

    def test_is_the_address_that_came_with_the_job(self) -> None:
        seven, eight = endpoint(is_callback=True), endpoint("https://other.example", is_callback=True)
        Callback.objects.create(job_id=7, endpoint=seven)
        Callback.objects.create(job_id=8, endpoint=eight)
        operations.record_all([job()])
        record()
        assert messages(seven) == [("job.succeeded", "job/7")]
        assert messages(eight) == []


class TestWhatIsWritten:
    def test_is_one_event_and_a_message_for_each_endpoint(self) -> None:
        endpoint(), endpoint("https://second.example/")
        assert record() == 2
        event = Event.objects.get()
        assert json.loads(event.body)["data"] == {"queue": "gpu"}
        assert {row.event_id for row in Message.objects.all()} == {event.pk}
        assert {(row.status, row.attempts) for row in Message.objects.all()} == {("pending", 0)}

    def test_is_what_standard_webhooks_says_of_a_payload(self) -> None:
        endpoint()
        record(occurred_at=datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC))
        assert json.loads(Event.objects.get().body) == {
            "type": "queue.paused", "timestamp": "2026-01-02T03:04:05.678901Z", "data": {"queue": "gpu"},
        }  # fmt: skip

    def test_has_the_result_for_those_who_ask_for_results(self) -> None:
        endpoint()
        operations.record_all([job(result={"text": "nül \x00 \ud800"})])
        assert Event.objects.get().body_with_result is None
        endpoint("https://results.example/", with_result=True)
        operations.record_all([job(result={"text": "nül \x00 \ud800"})])
        event = Event.objects.latest("id")
        assert "result" not in json.loads(event.body)["data"]
        assert json.loads(event.body_with_result or "")["data"] == {"job": 7, "result": {"text": "nül \x00 \ud800"}}

    def test_says_that_a_result_is_too_large(self, settings: Any) -> None:
        settings.OUTBOX = {**settings.OUTBOX, "RESULT_BYTES": 10}
        endpoint(with_result=True)
        operations.record_all([job(result="x" * 9)])
        data = json.loads(Event.objects.get().body_with_result or "")["data"]
        assert data == {"job": 7, "result_omitted": "it has more than 10 bytes"}

    def test_is_gone_with_the_transaction(self) -> None:
        endpoint()
        with transaction.atomic():
            record()
            transaction.set_rollback(True)
        assert not Message.objects.exists()

    def test_is_of_a_type_that_is_known(self) -> None:
        with pytest.raises(ValueError, match=r"no type of event 'job\.done'"):
            operations.record("job.done", "job/7", {})
        endpoint()
        with pytest.raises(TypeError):
            operations.record("queue.paused", "queue/x", {"at": object()})
