"""Several who want to end one job: one wins, the others are told, and nobody waits in a circle."""

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.db import transaction

from jobs import operations
from jobs.domain.states import Verdict
from jobs.errors import LeaseLost
from jobs.models import Attempt, Body, Job, Worker
from tests import farm

pytestmark = pytest.mark.django_db(transaction=True)


def _finish_all(worker: Worker, mine: list[operations.Claimed], result: str = "") -> list[Any]:
    finished = [
        operations.Finished(job_id=job.id, lease=job.lease, outcome="success", result=result) for job in mine
    ]
    return operations.finish(worker, finished)


class TestTwoFinishesOfOneLease:
    def test_at_the_same_moment_have_one_winner(self) -> None:
        farm.kind()
        me = farm.worker()
        for _ in range(40):
            farm.submit(1)
            claimed = farm.claim_one(me)
            answers = farm.at_once(*(partial(farm.succeed, me, claimed, f"mine {n}") for n in range(3)))
            [winner] = [n for n, answer in enumerate(answers) if answer == "success"]
            assert sum(isinstance(answer, LeaseLost) for answer in answers) == 2
            assert Body.objects.get(job_id=claimed.id).result == f"mine {winner}"

    def test_one_a_success_and_one_a_failure_leave_one_story(self) -> None:
        farm.kind()
        me = farm.worker()
        for _ in range(20):
            [job] = farm.submit(1)
            claimed = farm.claim_one(me)
            good, bad = farm.at_once(
                partial(farm.succeed, me, claimed), partial(farm.fail, me, claimed, retryable=False)
            )
            assert {type(good), type(bad)} >= {LeaseLost}
            assert farm.status(job) == ("success" if good == "success" else "failed")
            assert Attempt.objects.filter(job=job).count() == (bad == "failed")

    def test_the_second_waits_for_the_first_and_then_is_refused(self) -> None:
        farm.kind()
        farm.submit(1)
        me = farm.worker()
        claimed = farm.claim_one(me)
        said = threading.Event()

        def late() -> Any:
            said.wait(timeout=10)
            return farm.succeed(me, claimed, "late")

        def first() -> Any:
            with transaction.atomic():
                answer = farm.succeed(me, claimed, "first")
                said.set()
                farm.until(farm.waiting_for_locks)
            return answer

        answers = farm.at_once(first, late)
        assert (answers[0], type(answers[1])) == ("success", LeaseLost)
        assert Body.objects.get(job_id=claimed.id).result == "first"

    def test_in_one_batch_counts_the_first(self) -> None:
        farm.kind()
        farm.submit(1)
        me = farm.worker()
        claimed = farm.claim_one(me)
        answers = _finish_all(me, [claimed, claimed])
        assert (answers[0], type(answers[1])) == ("success", LeaseLost)


class TestBatches:
    def test_in_opposite_orders_never_deadlock(self) -> None:
        farm.kind()
        me = farm.worker()
        for _ in range(160):
            farm.submit(12)
            mine = operations.claim(me, limit=12)
            there, back = farm.at_once(
                partial(_finish_all, me, mine, "there"), partial(_finish_all, me, mine[::-1], "back")
            )
            won = [a == "success" for a in there]
            assert [a == "success" for a in back[::-1]] == [not w for w in won]
            assert sum(isinstance(a, LeaseLost) for a in [*there, *back]) == 12
        assert set(Job.objects.values_list("status", flat=True)) == {"success"}

    def test_against_cancels_of_the_same_jobs_end_each_job_once(self) -> None:
        farm.kind()
        me = farm.worker()
        for _ in range(40):
            farm.submit(10)
            mine = operations.claim(me, limit=10)

            def cancel(order: list[operations.Claimed]) -> list[Any]:
                return [operations.cancel(job.id, by=None) for job in order]

            answers, canceled = farm.at_once(partial(_finish_all, me, mine), partial(cancel, mine[::-1]))
            verdicts = [c.verdict for c in canceled[::-1]]
            assert [a == "success" for a in answers] == [v is Verdict.TOO_LATE for v in verdicts]
            assert [v is Verdict.WHILE_RUNNING for v in verdicts] == [
                isinstance(a, LeaseLost) for a in answers
            ]


class TestTheJanitor:
    def _round(self, *others: Callable[[Worker, operations.Claimed], Any]) -> tuple[Job, list[Any]]:
        [job] = farm.submit(1)
        me = farm.worker()
        claimed = farm.claim_one(me)
        farm.expire_lease(claimed)
        answers = farm.at_once(
            operations.sweep, operations.sweep, *(partial(other, me, claimed) for other in others)
        )
        return job, answers

    def test_times_a_job_out_once_however_many_there_are(self) -> None:
        farm.kind()
        for _ in range(15):
            job, sweeps = self._round()
            assert sorted(sweep.timed_out for sweep in sweeps) == [0, 1]
            assert Attempt.objects.filter(job=job).count() == 1
            assert farm.status(job) == "timed_out"

    def test_shares_two_hundred_silent_jobs_among_four(self) -> None:
        farm.kind()
        farm.submit(500)
        me = farm.worker()
        operations.claim(me, limit=500)
        Job.objects.update(lease_expires_at="2001-01-01T00:00:00Z")
        sweeps = farm.at_once(*[operations.sweep] * 4)
        sweeps.append(operations.sweep())  # a round ends when the rest is in other hands
        assert sum(sweep.timed_out for sweep in sweeps) == 500
        assert Attempt.objects.filter(outcome="lease_expired").count() == 500

    def test_and_a_late_finish_end_it_once_and_never_as_a_success(self) -> None:
        farm.kind()
        for _ in range(15):
            job, answers = self._round(farm.succeed)
            assert isinstance(answers[2], LeaseLost)
            assert sum(sweep.timed_out for sweep in answers[:2]) == 1
            assert farm.status(job) == "timed_out"

    def test_leaves_a_job_that_is_just_being_handed_in(self) -> None:
        """The finish came in time and holds the row; the lease runs out while it writes."""
        farm.kind()
        farm.submit(1)
        me = farm.worker()
        claimed = farm.claim_one(me)
        with transaction.atomic():
            assert farm.succeed(me, claimed) == "success"
            [sweep] = farm.at_once(operations.sweep)
        assert sweep.timed_out == 0
        assert farm.status(claimed) == "success"
