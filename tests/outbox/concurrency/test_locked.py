"""A row that somebody keeps locked in a session of their own stops nothing of others: it is settled later."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from django.db import connection

from outbox.domain.addresses import Answer
from outbox.models import Attempt, Endpoint, Message
from outbox.operations import attempts
from outbox.operations.http import Client
from outbox.operations.sender import Sender
from postgres import clock, connections
from ratelimits.models import Bucket
from tests import farm
from tests.jobs.presence.running import janitor
from tests.outbox.concurrency.test_senders import HERE, delivered, record
from tests.outbox.receivers import receiver
from tests.outbox.support import endpoint

pytestmark = pytest.mark.django_db(transaction=True)


@contextmanager
def locked(row: Any) -> Iterator[psycopg.Connection[Any]]:
    """Somebody has this row until the end of the block, or a rollback; whoever waits for it here fails soon."""
    with psycopg.connect(connections.conninfo()) as somebody, connection.cursor() as cursor:
        somebody.execute(f"SELECT FROM {row._meta.db_table} WHERE id = %s FOR UPDATE", [row.pk])
        cursor.execute("SET lock_timeout = '300ms'")
        try:
            yield somebody
        finally:
            somebody.rollback()
            cursor.execute("RESET lock_timeout")


def ended(claimed: list[attempts.Claimed], status: int, **headers: str) -> list[attempts.Ended]:
    answer = Answer(status=status, headers={name.replace("_", "-"): value for name, value in headers.items()})
    return [attempts.Ended(claimed=one, started_at=clock.now(), answer=answer) for one in claimed]


def statuses() -> list[str]:
    return list(Message.objects.order_by("id").values_list("status", flat=True))


def test_the_failures_of_a_locked_endpoint_are_written_and_it_is_judged_by_the_last_once_it_is_free() -> None:
    bad, good = endpoint("https://bad.example/"), endpoint("https://good.example/")
    record("queue/1")
    record("queue/2")
    theirs = [one for one in attempts.claim(4) if one.endpoint_id == bad.pk]
    with locked(bad):
        outcomes, later = attempts.settle(ended(theirs, 410))
        assert (outcomes, len(later)) == (["gone", "gone"], 1)
        assert attempts.settle(later) == ([], later)
    assert list(Message.objects.filter(endpoint=bad).values_list("status", flat=True)) == ["dead", "dead"]
    assert attempts.settle(later) == ([], [])
    assert dict(Endpoint.objects.values_list("pk", "status")) == {bad.pk: "disabled", good.pk: "active"}
    assert Attempt.objects.count() == 2


def test_an_endpoint_that_recovers_while_it_is_locked_is_well_once_it_is_free() -> None:
    row = endpoint()
    record("queue/1")
    record("queue/2")
    first, second = attempts.claim(2)
    attempts.settle(ended([first], 500))
    with locked(row):
        _, later = attempts.settle(ended([second], 200))
        assert statuses() == ["pending", "delivered"]
    attempts.settle(later)
    assert Endpoint.objects.get().failing_since is None


@pytest.mark.parametrize("answers", [(410, 500), (410, 200), (200, 410)])
def test_an_endpoint_that_was_gone_while_it_was_locked_is_disabled_whatever_else_came(answers: tuple[int, ...]) -> None:
    row = endpoint(failing_since=clock.now())
    record("queue/1")
    record("queue/2")
    with locked(row):
        later: list[attempts.Ended] = []
        for one, status in zip(attempts.claim(2), answers, strict=True):
            _, later = attempts.settle([*later, *ended([one], status)])
    attempts.settle(later)
    assert Endpoint.objects.get().status == "disabled"


def test_a_sender_that_ends_writes_what_is_locked_for_a_moment() -> None:
    endpoint()
    record("queue/1")
    both = ended(attempts.claim(2), 200)
    with locked(Message.objects.get()) as somebody:

        async def end() -> None:
            sender = Sender(client=Client())
            sender._ended = both
            asyncio.get_running_loop().call_later(0.3, somebody.rollback)
            await sender._end()

        asyncio.run(end())
    assert statuses() == ["delivered"]


def test_a_locked_message_keeps_its_lease_and_is_written_later_and_the_others_at_once() -> None:
    endpoint()
    record("queue/1")
    record("queue/2")
    both = ended(attempts.claim(2), 200)
    with locked(Message.objects.earliest("id")):
        assert attempts.settle(both) == (["delivered"], both[:1])
        assert statuses() == ["pending", "delivered"]
    assert attempts.settle(both[:1]) == (["delivered"], [])
    assert Attempt.objects.count() == 2


def test_what_follows_a_message_does_not_hold_its_end_though_it_is_locked() -> None:
    endpoint()
    record("queue/1", 1)
    record("queue/1", 2)
    claimed = attempts.claim(2)
    with locked(Message.objects.latest("id")):
        attempts.settle(ended(claimed, 410))
    assert statuses() == ["dead", "pending"]
    Message.objects.filter(status="pending").update(next_attempt_at=clock.now())
    assert attempts.claim(2) == []
    assert statuses() == ["dead", "dead"]


def test_a_locked_endpoint_whose_limit_is_used_up_holds_no_claim() -> None:
    row, other = endpoint(per_minute=0.001), endpoint("https://other.example/")
    record("queue/1")
    attempts.settle(ended(attempts.claim(2), 200))
    record("queue/2")
    with locked(row):
        assert [one.endpoint_id for one in attempts.claim(2)] == [other.pk]


def test_a_locked_limit_of_an_endpoint_fails_no_attempt_and_holds_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connection.settings_dict, "LOCK_S", 0.1)
    row, other = endpoint(per_minute=600), endpoint("https://other.example/")
    record("queue/1")
    attempts.settle(ended(attempts.claim(2), 200))
    record("queue/2")
    with locked(Bucket.objects.get(name=attempts.LIMIT)):
        assert [one.endpoint_id for one in attempts.claim(2)] == [other.pk]
    Endpoint.objects.update(held_until=None)
    assert [(one.endpoint_id, one.fault) for one in attempts.claim(2)] == [(row.pk, "")]


def test_a_janitor_goes_on_with_all_other_endpoints_and_sends_no_message_twice() -> None:
    with receiver(status=410) as bad, receiver() as good:
        row, other = endpoint(bad.url()), endpoint(good.url())
        with locked(row) as somebody, janitor(**HERE):
            record("queue/1")
            farm.until(lambda: statuses() == ["dead", "delivered"], what="both answers to be written")
            record("queue/2")
            farm.until(lambda: delivered(other) == 2, what="the next to be delivered")
            assert Endpoint.objects.get(pk=row.pk).status == "active"
            somebody.rollback()
            farm.until(lambda: Endpoint.objects.get(pk=row.pk).status == "disabled", what="it to be judged")
        assert len(bad.requests) == Attempt.objects.filter(message__endpoint=row).count()
