"""How often each call waits for the database: what is not waited for (a NOTIFY) is counted too."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from django.db import transaction

from jobs import operations
from jobs.errors import LeaseLost
from jobs.models import Job, Mark, Worker
from jobs.operations import lanes
from tests import farm, wire

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _between_two_tidyings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Moving a lane's mark is a round trip of its own, after the commit: each fifty jobs, or once a second."""
    monkeypatch.setattr(lanes, "FIRST", 10**6)
    monkeypatch.setattr(lanes, "EVERY_S", 3600.0)
    monkeypatch.setattr(lanes, "_UNTIDIED", lanes.Untidied())


def _done(*claimed: operations.ClaimedJob) -> list[operations.Finished]:
    return [operations.Finished(job_id=each.id, lease=each.lease, outcome="success") for each in claimed]


def _round_trips(call: Callable[[], Any]) -> int:
    with wire.traced() as sent:
        call()
    return sent.round_trips


def _at_work() -> Worker:
    """A worker with a hundred jobs before it, in a process that has done all of this before."""
    farm.kind()
    me = farm.worker()
    farm.submit(100)
    for _ in range(2):
        held = operations.claim(me, limit=2)
        _, held = operations.finish_and_claim(me, _done(*held), limit=2)
        operations.finish(me, _done(*held))
    return me


class TestHowOften:
    def test_each_call_waits(self) -> None:
        """The statements of a call and its BEGIN once, its COMMIT once; the last is the NOTIFY, sent and left."""
        me = _at_work()
        one, many = operations.claim(me, limit=1), operations.claim(me, limit=20)
        rest = operations.claim(me, limit=20)
        farm.submit(1)
        assert {
            "claim": _round_trips(lambda: operations.claim(me, limit=3)),
            "finish one and claim": _round_trips(
                lambda: operations.finish_and_claim(me, _done(*one), limit=1, unless_lost=True)
            ),
            "finish many and claim": _round_trips(lambda: operations.finish_and_claim(me, _done(*many), limit=20)),
            "finish many": _round_trips(lambda: operations.finish(me, _done(*rest))),
            "submit": _round_trips(lambda: operations.submit("work", {})),
        } == {
            "claim": 3,
            "finish one and claim": 3,
            "finish many and claim": 3,
            "finish many": 3,
            "submit": 3,  # its kind is a row here, and one statement is a transaction by itself
        }

    def test_a_claim_that_found_less_than_it_may_take_waits_no_more_often(self) -> None:
        farm.kind()
        me = farm.worker()
        assert {self._a_claim_that_found_less(me) for _ in range(3)} == {(1, 3)}

    def test_a_claim_of_so_many_jobs_of_a_queue_moves_the_marks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(lanes, "FIRST", 3)
        monkeypatch.setattr(lanes, "_UNTIDIED", lanes.Untidied())
        farm.kind()
        me = farm.worker()
        farm.submit(9)
        held = [operations.claim(me) for _ in range(2)]
        before = Mark.objects.get().at
        assert _round_trips(lambda: held.append(operations.claim(me))) == 4
        assert Mark.objects.get().at == min(job.run_at for job in Job.objects.waiting()) > before

    def _a_claim_that_found_less(self, me: Worker) -> tuple[int, int]:
        """Jobs that it brought, and its round trips."""
        farm.submit(3)
        first = farm.claim_one(me)
        _, held = operations.finish_and_claim(me, _done(first), limit=1)
        with wire.traced() as sent:
            _, more = operations.finish_and_claim(me, _done(*held), limit=5)
        operations.finish(me, _done(*more))
        return len(more), sent.round_trips


class TestAFinishWhoseClaimWentAlong:
    """As if one had waited for the other: what the claim brought is undone where it should not have been made."""

    def test_of_one_lost_lease_claims_nothing(self) -> None:
        me = _at_work()
        held = farm.claim_one(me)
        operations.cancel(held.id, by=None)
        [answer], jobs = operations.finish_and_claim(me, _done(held), limit=1, unless_lost=True)
        assert isinstance(answer, LeaseLost)
        assert jobs == []
        assert not Job.objects.running().exists()

    def test_of_a_batch_goes_on_with_what_was_not_lost(self) -> None:
        me = _at_work()
        held = operations.claim(me, limit=3)
        operations.cancel(held[1].id, by=None)
        answers, jobs = operations.finish_and_claim(me, _done(*held), limit=2)
        assert [isinstance(answer, LeaseLost) for answer in answers] == [False, True, False]
        assert len(jobs) == 2
        assert Job.objects.running().count() == 2

    def test_that_is_repeated_is_answered_as_the_first_time(self) -> None:
        me = _at_work()
        held = operations.claim(me, limit=3)
        first, repeat = (operations.finish_and_claim(me, _done(*held), limit=2) for _ in range(2))
        assert first[0] == repeat[0] == ["success"] * 3
        assert [(job.id, job.lease) for job in first[1]] == [(job.id, job.lease) for job in repeat[1]]
        assert Job.objects.running().count() == 2

    def test_within_a_transaction_that_is_rolled_back_has_not_happened(self) -> None:
        me = _at_work()
        held = operations.claim(me, limit=3)
        with transaction.atomic():
            operations.finish_and_claim(me, _done(*held), limit=2)
            transaction.set_rollback(True)
        assert set(Job.objects.running().values_list("pk", flat=True)) == {j.id for j in held}

    def test_takes_the_place_that_it_has_freed_itself(self) -> None:
        """The claim begins when the slot is free."""
        me = _at_work()
        operations.set_ceiling("work", 1)
        held = farm.claim_one(me)
        for _ in range(3):
            [status], [held] = operations.finish_and_claim(me, _done(held), limit=1, unless_lost=True)
            assert status == "success"
        assert Job.objects.counted_in("work").get().pk == held.id

    def test_with_a_lease_named_twice_ends_its_job_once(self) -> None:
        me = _at_work()
        held = farm.claim_one(me)
        answers, jobs = operations.finish_and_claim(me, _done(held, held), limit=1)
        assert answers == ["success", "success"]
        assert len(jobs) == 1

    def test_leaves_a_job_that_another_worker_runs_its_slot(self) -> None:
        """Its lease was lost, and it is somebody else's by now."""
        me, other = _at_work(), farm.worker("other")
        operations.set_ceiling("work", 1)
        held = farm.claim_one(me)
        operations.release(me, held.id, held.lease)
        Job.objects.waiting().exclude(pk=held.id).update(priority=-1)
        assert farm.claim_one(other).id == held.id
        [answer], jobs = operations.finish_and_claim(me, _done(held), limit=1)
        assert (isinstance(answer, LeaseLost), jobs) == (True, [])
        assert Job.objects.counted_in("work").get().pk == held.id

    def test_of_which_one_result_cannot_be_stored_claims_nothing(self) -> None:
        me = _at_work()
        held = operations.claim(me, limit=2)
        broken = [*_done(held[0]), replace(*_done(held[1]), result="\ud800")]
        with pytest.raises(Exception, match="result"):
            operations.finish_and_claim(me, broken, limit=2)
        assert Job.objects.running().count() == 2
