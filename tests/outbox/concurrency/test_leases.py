"""Leases of messages: no sender waits for another, and only who has the lease speaks for a message."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import transaction
from django.db.models.functions import Now

from outbox import operations
from outbox.domain.addresses import Answer
from outbox.domain.messages import Outcome
from outbox.models import Endpoint, Message
from outbox.operations import attempts
from postgres import clock, connections
from tests import farm
from tests.outbox.support import due_now, endpoint

pytestmark = pytest.mark.django_db(transaction=True)


def claim() -> attempts.Claimed:
    [claimed] = attempts.claim(1)
    return claimed


def settle(claimed: attempts.Claimed, *, status: int = 200) -> list[Outcome]:
    return attempts.settle([attempts.Ended(claimed=claimed, started_at=clock.now(), answer=Answer(status=status))])[0]


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


def test_what_another_one_holds_of_an_endpoint_that_is_disabled_meanwhile_is_dead_in_the_end() -> None:
    """It waited for good, and was counted as such: an attempt that failed afterwards left it pending."""
    endpoint()
    for subject in ("queue/1", "queue/2"):
        operations.record("queue.paused", subject, {})
    gone, failed = attempts.claim(2)
    settle(gone, status=410)
    settle(failed, status=500)
    due_now()
    assert attempts.claim(2) == []
    assert set(Message.objects.values_list("status", flat=True)) == {"dead"}


def test_what_is_recorded_at_the_moment_at_which_its_endpoint_is_disabled_is_dead_too() -> None:
    root, row = farm.user("root", is_staff=True, is_superuser=True), endpoint()
    farm.meanwhile(
        lambda: operations.record("queue.paused", "queue/1", {}), lambda: operations.disable(row.pk, by=root)
    )
    assert attempts.claim(1) == []
    assert Message.objects.get().status == "dead"


def test_what_is_recorded_at_the_moment_at_which_its_endpoint_is_deleted_is_deleted_with_time() -> None:
    root, row = farm.user("root", is_staff=True, is_superuser=True), endpoint()
    farm.meanwhile(lambda: operations.record("queue.paused", "queue/1", {}), lambda: operations.delete(row.pk, by=root))
    Message.objects.update(created_at=Now() - timedelta(days=31))
    assert farm.retain("messages to nobody") == 1


def test_an_endpoint_that_took_what_was_under_way_when_another_attempt_failed_is_not_failing() -> None:
    endpoint()
    for subject in ("queue/1", "queue/2"):
        operations.record("queue.paused", subject, {})
    failed, taken = attempts.claim(2)
    settle(failed, status=500)
    settle(taken)
    assert Endpoint.objects.get().failing_since is None
