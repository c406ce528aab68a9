"""A checkpoint and the end of its lease at the same moment: the next claim brings it exactly if it was taken."""

import pytest

from core import refusal
from core.refusal import Refusal
from jobs import operations
from jobs.errors import LeaseLost
from jobs.models import Job, Worker
from tests import farm
from tests.effort import share

pytestmark = pytest.mark.django_db(transaction=True)
ROUNDS = share(60, of=3)


def test_that_meets_the_claim_of_another_worker_is_what_that_brings_or_is_refused() -> None:
    farm.kind()
    me, other = farm.worker("me"), farm.worker("other")
    farm.submit(1)

    def keep(held: operations.ClaimedJob, value: int) -> object:
        return refusal.value_or_refusal(operations.checkpoint, me, held.id, held.lease, value)

    def take(held: operations.ClaimedJob, by: Worker) -> operations.ClaimedJob:
        operations.release(me, held.id, held.lease)
        farm.pass_time(Job.objects.get(), 7200)  # from the fourth release on it waits a while
        return farm.claim_one(by)

    last = None
    for value in range(ROUNDS):
        held = farm.claim_one(me)
        answer, taken = farm.at_once(lambda: keep(held, value), lambda: take(held, other))  # noqa: B023
        last = last if isinstance(answer, Refusal) else value
        assert isinstance(answer, LeaseLost) or not isinstance(answer, Refusal)
        assert isinstance(taken, operations.ClaimedJob)
        assert (taken.checkpoint, Job.objects.whole().get().checkpoint) == (last, last)
        operations.withdraw(other, [(taken.id, taken.lease)])


def test_beside_heartbeats_of_the_same_lease_is_never_refused() -> None:
    farm.kind()
    me = farm.worker("me")
    farm.submit(1)
    held = farm.claim_one(me)
    for value in range(ROUNDS):
        farm.at_once(
            lambda: operations.heartbeat(me, held.id, held.lease, progress=0.5),
            lambda: operations.checkpoint(me, held.id, held.lease, value),  # noqa: B023
            lambda: operations.heartbeat(me, held.id, held.lease, progress=0.6),
        )
        assert Job.objects.whole().get().checkpoint == value
