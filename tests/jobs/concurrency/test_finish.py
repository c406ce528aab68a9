"""Several who want to end one job: one wins, the others are told, and nobody waits in a circle."""

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.db import transaction

from core.refusal import CancelVerdict
from jobs import operations
from jobs.errors import LeaseLost
from jobs.models import Attempt, Job, Live, Outcome, Worker
from tests import farm
from tests.effort import share

pytestmark = pytest.mark.django_db(transaction=True)


def _finish_all(worker: Worker, mine: list[operations.ClaimedJob], result: str = "") -> list[Any]:
    finished = [operations.Finished(job_id=job.id, lease=job.lease, outcome="success", result=result) for job in mine]
    return operations.finish(worker, finished)


class TestTwoFinishesOfOneLease:
    def test_at_the_same_moment_have_one_winner_and_one_answer(self) -> None:
        farm.kind()
        me = farm.worker()
        for _ in range(share(40, of=4)):
            farm.submit(1)
            claimed = farm.claim_one(me)
            answers = farm.at_once(*(partial(farm.succeed, me, claimed, f"mine {n}") for n in range(3)))
            assert answers == ["success"] * 3
            assert Job.objects.get(pk=claimed.id).result in {f"mine {n}" for n in range(3)}

    def test_at_the_same_moment_bring_the_same_next_jobs(self) -> None:
        farm.kind()
        me = farm.worker()
        for _ in range(share(20, of=4)):
            farm.submit(4)
            done = operations.Finished(job_id=(first := farm.claim_one(me)).id, lease=first.lease, outcome="success")
            answers = farm.at_once(*[partial(operations.finish_and_claim, me, [done], limit=2)] * 3)
            leases = [sorted(str(job.lease) for job in jobs) for _, jobs in answers]
            assert leases == [leases[0]] * 3
            assert Job.objects.running().count() == 2
            farm.end(Job.objects.waiting(), "canceled")
            for job in answers[0][1]:
                operations.cancel(job.id, by=None)

    def test_one_a_success_and_one_a_failure_leave_one_story(self) -> None:
        farm.kind()
        me = farm.worker()
        for _ in range(share(20, of=4)):
            [job] = farm.submit(1)
            claimed = farm.claim_one(me)
            good, bad = farm.at_once(
                partial(farm.succeed, me, claimed), partial(farm.fail, me, claimed, retryable=False)
            )
            assert good == bad == farm.status(job)
            assert Attempt.objects.filter(job=job).count() == (bad == "failed")

    def test_the_second_waits_for_the_first_and_gets_its_answer(self) -> None:
        farm.kind()
        farm.submit(1)
        me = farm.worker()
        claimed = farm.claim_one(me)
        answered = threading.Event()

        def late() -> Any:
            answered.wait(timeout=10)
            return farm.succeed(me, claimed, "late")

        def first() -> Any:
            with transaction.atomic():
                answer = farm.succeed(me, claimed, "first")
                answered.set()
                farm.until(farm.waiting_for_locks)
            return answer

        answers = farm.at_once(first, late)
        assert answers == ["success", "success"]
        assert Job.objects.get(pk=claimed.id).result == "first"

    @pytest.mark.parametrize("limit", [0, 5])
    def test_ends_a_job_that_another_one_was_changing_at_that_moment(self, limit: int) -> None:
        farm.kind()
        me = farm.worker()
        farm.submit(5)
        mine = operations.claim(me, limit=3)
        has_it = threading.Event()

        def change_one() -> None:
            with transaction.atomic():
                Live.objects.filter(pk=mine[1].id).update(progress=0.5)
                has_it.set()
                farm.until(lambda: farm.waiting_for_locks() == 1, what="the batch")

        def end() -> tuple[list[Any], list[operations.ClaimedJob]]:
            assert has_it.wait(timeout=30)
            ended = [operations.Finished(job_id=job.id, lease=job.lease, outcome="success") for job in mine]
            return operations.finish_and_claim(me, ended, limit=limit)

        [_, handed_in] = farm.at_once(change_one, end)
        assert handed_in is not None
        assert handed_in[0] == ["success"] * 3
        assert len(handed_in[1]) == min(limit, 2)
        assert set(Outcome.objects.values_list("pk", flat=True)) == {job.id for job in mine}
        assert not Job.objects.living().filter(pk__in=[job.id for job in mine]).exists()

    def test_in_one_batch_counts_the_first(self) -> None:
        farm.kind()
        farm.submit(1)
        me = farm.worker()
        claimed = farm.claim_one(me)
        assert _finish_all(me, [claimed, claimed]) == ["success", "success"]


class TestBatches:
    def test_in_opposite_orders_never_deadlock(self) -> None:
        farm.kind()
        me = farm.worker()
        for _ in range(share(160, of=4)):
            farm.submit(12)
            mine = operations.claim(me, limit=12)
            there, back = farm.at_once(
                partial(_finish_all, me, mine, "there"), partial(_finish_all, me, mine[::-1], "back")
            )
            assert there == back == ["success"] * 12
            results = set(Outcome.objects.filter(job_id__in=[job.id for job in mine]).values_list("result"))
            assert len(results) == 1  # each job ended once, and all with the batch that came first
        assert set(farm.statuses()) == {"success"}

    def test_lock_jobs_in_the_order_of_their_ids_wherever_the_rows_lie(self) -> None:
        farm.kind()
        farm.submit(2)
        me = farm.worker()
        mine = sorted(operations.claim(me, limit=2), key=lambda job: job.id)
        first, second = (Live.objects.select_for_update(nowait=True).filter(pk=job.id) for job in mine)
        first.update(progress=0.5)  # its row lies behind the other one's now

        def in_order() -> None:
            with transaction.atomic():
                first.get()
                begun.set()
                farm.until(farm.waiting_for_locks)
                second.get()  # which who waits for the first one does not hold

        def finish() -> list[Any]:
            begun.wait(timeout=10)
            return _finish_all(me, mine)

        begun = threading.Event()
        assert farm.at_once(in_order, finish) == [None, ["success"] * 2]

    def test_against_cancels_of_the_same_jobs_end_each_job_once(self) -> None:
        farm.kind()
        me = farm.worker()
        for _ in range(share(40, of=4)):
            farm.submit(10)
            mine = operations.claim(me, limit=10)

            def cancel(order: list[operations.ClaimedJob]) -> list[Any]:
                return [operations.cancel(job.id, by=None) for job in order]

            answers, canceled = farm.at_once(partial(_finish_all, me, mine), partial(cancel, mine[::-1]))
            verdicts = [c.verdict for c in canceled[::-1]]
            assert [a == "success" for a in answers] == [v is CancelVerdict.TOO_LATE for v in verdicts]
            assert [v is CancelVerdict.WHILE_RUNNING for v in verdicts] == [isinstance(a, LeaseLost) for a in answers]


class TestTheJanitor:
    def _round(self, *others: Callable[[Worker, operations.ClaimedJob], Any]) -> tuple[Job, list[Any]]:
        [job] = farm.submit(1)
        me = farm.worker()
        claimed = farm.claim_one(me)
        farm.expire_lease(claimed)
        answers = farm.at_once(operations.sweep, operations.sweep, *(partial(other, me, claimed) for other in others))
        return job, answers

    def test_times_a_job_out_once_however_many_there_are(self) -> None:
        farm.kind()
        for _ in range(share(15, of=4)):
            job, sweeps = self._round()
            assert sorted(sweep.taken_back for sweep in sweeps) == [0, 1]
            assert Attempt.objects.filter(job=job).count() == 1
            assert farm.status(job) == "pending"
            operations.cancel(job.pk, by=None)

    def test_shares_two_hundred_silent_jobs_among_four(self) -> None:
        farm.kind()
        farm.submit(500)
        me = farm.worker()
        operations.claim(me, limit=500)
        farm.alter(Job.objects.all(), lease_expires_at="2001-01-01T00:00:00Z", confirmed_fence=1)
        sweeps = farm.at_once(*[operations.sweep] * 4)
        sweeps.append(operations.sweep())  # a round ends when the rest is in other hands
        assert sum(sweep.taken_back for sweep in sweeps) == 500
        assert Attempt.objects.filter(outcome="lost").count() == 500

    def test_and_a_late_finish_have_one_winner(self) -> None:
        farm.kind(retry_when_lost=False)
        for _ in range(share(15, of=4)):
            job, answers = self._round(farm.succeed)
            taken_back = sum(sweep.taken_back for sweep in answers[:2])
            assert isinstance(answers[2], LeaseLost) is (taken_back == 1)
            assert farm.status(job) == ("timed_out" if taken_back else "success")
