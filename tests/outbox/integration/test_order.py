"""Messages that wait for an earlier one of their subject: no claim looks at them again and again, however many."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models.functions import Now

from outbox import operations, queries
from outbox.domain.addresses import Answer
from outbox.models import Endpoint, Message
from outbox.operations import attempts
from postgres import clock, connections, statements
from tests.explained import explain
from tests.outbox.support import endpoint

# Committed: what a transaction wrote over is looked at until it ends.
pytestmark = pytest.mark.django_db(transaction=True)
BACKLOG, FEW_PAGES = 500, 120  # 32 alone, up to 66 after other tests; who looks at each reads more than 500


@pytest.fixture
def quiet() -> Endpoint:
    """An endpoint whose messages are delivered, in a table without what other tests left there."""
    row = endpoint()
    record(*(f"queue/{number}" for number in range(100)))
    Message.objects.update(status="delivered", next_attempt_at=None, ended_at=Now())
    with connection.cursor() as cursor:
        cursor.execute("VACUUM (ANALYZE) outbox_message")
    return row


@pytest.fixture
def hooks(quiet: Endpoint) -> Endpoint:
    """An endpoint whose messages all wait for the first of their subject, which is to be repeated in an hour."""
    record(*["job/1"] * (BACKLOG + 1))
    first = waiting()[0]
    Message.objects.filter(pk=first.pk).update(attempts=3, next_attempt_at=Now() + timedelta(hours=1))
    return quiet


def record(*subjects: str) -> None:
    operations.record_all([operations.NewEvent(type="queue.paused", subject=one, data={}) for one in subjects])


def pages(name: str, **given: Any) -> int:
    with transaction.atomic():
        plan: dict[str, Any] = explain(statements.load("outbox", name), given)["Plan"]
        transaction.set_rollback(True)
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def pages_of_a_claim() -> int:
    return pages("claim", limit=1, per_endpoint=1, per_owner=1, lease_s=45.0)


def deliver(claimed: list[attempts.Claimed], *, status: int = 200) -> list[attempts.Ended]:
    """Write this answer of each; what is to be settled later."""
    now = clock.now()
    return attempts.settle(
        [attempts.Ended(claimed=one, started_at=now, answer=Answer(status=status)) for one in claimed]
    )[1]


def waiting() -> list[Message]:
    return list(Message.objects.filter(status="pending").order_by("id"))


def due() -> list[int]:
    """The ids of what is due, oldest first."""
    rows = Message.objects.filter(status="pending", next_attempt_at__lte=Now()).order_by("id")
    return list(rows.values_list("pk", flat=True))


def test_a_claim_looks_at_what_waits_for_an_earlier_one_once(hooks: Endpoint) -> None:
    assert attempts.claim(10) == []
    assert pages_of_a_claim() < FEW_PAGES
    assert pages("put_behind", most=100, again_s=600.0) < FEW_PAGES
    assert pages("health") < BACKLOG / 4  # it counts what waits


def test_a_claim_of_one_looks_at_few_of_many_that_are_due_since_one_moment(quiet: Endpoint) -> None:
    record(*(f"job/{number}" for number in range(BACKLOG)))
    assert pages_of_a_claim() < FEW_PAGES


def test_the_end_of_a_message_looks_at_few_of_those_that_wait(hooks: Endpoint) -> None:
    attempts.claim(10)
    first = waiting()[0]
    assert pages("unblock", ids=[first.pk]) < FEW_PAGES


def test_the_next_of_a_subject_is_due_at_once_when_the_one_before_it_has_ended(hooks: Endpoint) -> None:
    attempts.claim(10)
    first, second, third = (one.pk for one in waiting()[:3])
    Message.objects.filter(pk=first).update(next_attempt_at=Now())
    for expected in (first, second, third):
        assert due() == [expected]
        [claimed] = attempts.claim(10)
        deliver([claimed], status=410 if expected == third else 200)
    assert set(Message.objects.values_list("status", flat=True)) == {"delivered", "dead"}


def test_the_next_of_a_subject_keeps_waiting_while_the_one_before_it_fails(hooks: Endpoint) -> None:
    Message.objects.filter(attempts=3).update(next_attempt_at=Now())
    deliver(attempts.claim(10), status=500)
    assert attempts.claim(10) == []
    assert due() == []


def test_a_subject_with_a_backlog_delays_no_other(hooks: Endpoint) -> None:
    record("job/2", "job/1", "job/3")
    assert [one.subject for one in attempts.claim(10)] == ["job/2", "job/3"]


def test_what_is_sent_once_more_and_what_waits_behind_it_are_sent_in_order() -> None:
    """A message that ended is before one that waits for its second attempt: that one keeps its time."""
    endpoint()
    record("job/1", "job/1", "job/1")
    first, second, third = Message.objects.order_by("id")
    deliver(attempts.claim(10))
    deliver(attempts.claim(10), status=500)
    Message.objects.filter(pk=first.pk).update(status="pending", next_attempt_at=Now(), ended_at=None, attempts=0)
    [claimed] = attempts.claim(10)
    assert claimed.id == first.pk
    deliver([claimed])
    assert due() == []
    Message.objects.filter(pk=second.pk).update(next_attempt_at=Now())
    deliver(attempts.claim(10))
    assert [one.id for one in attempts.claim(10)] == [third.pk]


def test_an_end_that_comes_while_another_sender_puts_messages_behind_it_is_not_missed() -> None:
    """The end is written when that sender's lock is gone, and sees what was put behind after it began."""
    endpoint()
    record("job/1")
    claimed = attempts.claim(10)
    record("job/1")
    with ThreadPoolExecutor(1) as other:
        with transaction.atomic():
            assert queries.put_behind(most=100, again_s=600.0) == 1
            later = other.submit(connections.released()(deliver), claimed).result(30)
        assert attempts.settle(later) == (["delivered"], [])
    assert [one.subject for one in attempts.claim(10)] == ["job/1"]


def test_the_next_of_a_subject_is_due_though_another_sender_puts_a_message_behind_it_at_that_moment() -> None:
    endpoint()
    record("job/1")
    claimed = attempts.claim(10)
    record("job/1")
    assert queries.put_behind(most=100, again_s=600.0) == 1
    record("job/1")
    with ThreadPoolExecutor(1) as other, transaction.atomic():
        assert queries.put_behind(most=100, again_s=600.0) == 1
        assert other.submit(connections.released()(deliver), claimed).result(30) == []
    assert len(attempts.claim(10)) == 1
