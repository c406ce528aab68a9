"""Senders as processes: several at once, killed between a request and its record, beside receivers that hang."""

import signal
from collections import defaultdict
from typing import Any

import pytest
from django.db.models.functions import Now

from outbox import operations
from outbox.models import Attempt, Message
from tests import farm
from tests.jobs.presence.running import janitor
from tests.outbox import receivers
from tests.outbox.receivers import Receiver, receiver
from tests.outbox.support import endpoint

pytestmark = pytest.mark.django_db(transaction=True)
HERE = {"OUTBOX_ALLOWED_NETWORKS": "127.0.0.0/8", "OUTBOX_TIMEOUT_S": "5"}


def record(subject: str, number: int = 0) -> None:
    operations.record("queue.paused", subject, {"n": number})


def all_ended() -> bool:
    return not Message.objects.filter(status="pending").exists()


def test_a_janitor_sends_what_is_recorded_while_it_runs_and_what_was_before() -> None:
    with receiver() as there:
        endpoint(there.url())
        record("queue/before")
        with janitor(**HERE) as process:
            there.wait_for(1)
            record("queue/while")
            there.wait_for(2)
            farm.until(all_ended, what="both to be written as delivered")
            process.send_signal(signal.SIGTERM)
            assert process.wait(15) == 0
    assert len(there.requests) == 2


def test_two_senders_send_each_message_once_and_those_of_a_subject_in_order() -> None:
    with receiver() as there:
        endpoint(there.url())
        with janitor(**HERE), janitor(**HERE):
            for number in range(20):
                for subject in range(10):
                    record(f"job/{subject}", number)
            there.wait_for(200, within_s=60)
            farm.until(all_ended, what="all to be written as delivered")
    by_subject = defaultdict(list)
    for request in there.requests:
        by_subject[request.headers["ce-subject"]].append(int(request.body.rpartition(b'"n":')[2].rstrip(b"}")))
    assert set(map(tuple, by_subject.values())) == {tuple(range(20))}
    assert len({request.headers["webhook-id"] for request in there.requests}) == len(there.requests) == 200


def test_a_sender_that_is_killed_between_request_and_record_is_followed_by_one_that_sends_it_again() -> None:
    """At least once, under the same id: the receiver can know it."""
    with receiver(receivers.hangs) as there:
        endpoint(there.url())
        record("queue/gpu")
        with janitor(**HERE) as process:
            there.wait_for(1)
            process.kill()
            process.wait()
        assert Message.objects.get().lease is not None
        assert not Attempt.objects.exists()
        there.behave = receivers.answers
        Message.objects.update(next_attempt_at=Now())  # its lease is over
        with janitor(**HERE):
            first, second = there.wait_for(2)
            farm.until(all_ended, what="the message to be written as delivered")
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.body == second.body
    assert Message.objects.get().status == "delivered"


def test_a_sender_that_is_stopped_gives_back_what_it_has_under_way() -> None:
    with receiver(receivers.hangs) as there:
        endpoint(there.url())
        record("queue/gpu")
        with janitor(**HERE, OUTBOX_IN_FLIGHT="7") as process:
            there.wait_for(1)
            process.send_signal(signal.SIGTERM)
            assert process.wait(15) == 0
    message = Message.objects.get()
    assert (message.status, message.lease) == ("pending", None)


def test_receivers_that_hang_hold_nobody_up() -> None:
    """More than one sender has requests at a time, to five that say nothing: the others get theirs meanwhile."""
    environment = HERE | {"OUTBOX_TIMEOUT_S": "600", "OUTBOX_IN_FLIGHT": "30", "OUTBOX_IN_FLIGHT_PER_ENDPOINT": "4"}
    with receiver(receivers.hangs) as hanging, receiver() as well:
        for number in range(5):
            endpoint(hanging.url(f"/{number}"))
        good = endpoint(well.url())
        for number in range(50):
            record(f"queue/{number}")
        with janitor(**environment):
            well.wait_for(50)
            farm.until(lambda: delivered(good) == 50, what="all to be written as delivered")
        assert len(hanging.requests) == 5 * 4  # as many as each may have under way


def delivered(to: Any) -> int:
    return Message.objects.filter(endpoint=to, status="delivered").count()


def test_a_receiver_that_comes_back_gets_everything_in_order() -> None:
    refused: list[int] = []

    async def is_away_at_first(there: Receiver, writer: Any, request: Any) -> None:
        refused.append(1)
        there.status = 503 if len(refused) <= 5 else 200
        await receivers.answers(there, writer, request)

    with receiver(is_away_at_first) as there:
        endpoint(there.url())
        for number in range(10):
            record("job/1", number)
        with janitor(**HERE):
            there.wait_for(1)

            def all_due() -> bool:
                Message.objects.filter(status="pending", lease=None).update(next_attempt_at=Now())
                operations.record("queue.resumed", "queue/wake", {})
                return Message.objects.filter(subject="job/1", status="delivered").count() == 10

            farm.until(all_due, what="all to be delivered")
    numbers = [
        int(request.body.rpartition(b'"n":')[2].rstrip(b"}"))
        for request in there.requests
        if request.headers["ce-subject"] == "job/1"
    ]
    assert sorted(numbers) == numbers
    assert set(numbers) == set(range(10))
