"""Leases of messages: no sender waits for another, and only who has the lease speaks for a message."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import transaction
from django.db.models.functions import Now

from outbox import operations
from outbox.domain.addresses import Answer
from outbox.domain.messages import Outcome
from outbox.models import Message
from outbox.operations import attempts
from postgres import clock, connections
from tests.outbox.support import endpoint

pytestmark = pytest.mark.django_db(transaction=True)


def claim() -> attempts.Claimed:
    [claimed] = attempts.claim(1)
    return claimed


def settle(claimed: attempts.Claimed) -> list[Outcome]:
    return attempts.settle([attempts.Ended(claimed=claimed, started_at=clock.now(), answer=Answer(status=200))])


def test_a_claim_leaves_what_another_one_is_taking_and_waits_for_nobody() -> None:
    endpoint()
    operations.record("queue.paused", "queue/1", {})
    with ThreadPoolExecutor(1) as other, transaction.atomic():
        claim()
        assert other.submit(connections.released()(attempts.claim), 1).result(15) == []


def test_a_sender_whose_lease_is_over_ends_nothing_and_gives_nothing_back() -> None:
    endpoint()
    operations.record("queue.paused", "queue/1", {})
    late = claim()
    Message.objects.update(next_attempt_at=Now())  # its lease is over
    current = claim()
    attempts.release([late])
    assert (settle(late), Message.objects.get().lease) == ([], current.lease)
    assert settle(current) == [Outcome.DELIVERED]
