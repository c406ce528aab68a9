"""Cancel against claim against finish: the verdict says what really happened (promise 4 of docs/promises.md)."""

import collections
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from core.backoff import Backoff
from core.refusal import CancelVerdict
from jobs import operations
from jobs.errors import LeaseLost
from jobs.models import Attempt, Job, Worker
from tests import farm
from tests.effort import share

pytestmark = pytest.mark.django_db(transaction=True)
ROUNDS = share(500, of=2)
AT_ONCE = 25  # rounds that run side by side: a thread costs more than a round


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """What the two sides of one round were told: the worker, and who canceled."""

    claimed: bool
    answer: Any
    canceled: operations.Cancellation


class TestCancel:
    def test_against_claim_and_finish_always_tells_the_truth(self) -> None:
        farm.kind("fresh")
        farm.kind("again", backoff=Backoff(first_s=0))
        fresh, again = farm.worker("fresh", "fresh"), farm.worker("again", "again")
        verdicts: collections.Counter[CancelVerdict] = collections.Counter()
        for first in range(0, ROUNDS, AT_ONCE):
            queue, worker = ("again", again) if first % 50 else ("fresh", fresh)
            jobs = _jobs_that_wait(queue, worker)
            reported = _race(worker, jobs, turn=first // AT_ONCE)
            for job in jobs:
                _is_true(job, reported[job.pk], ran_before=queue == "again")
                verdicts[reported[job.pk].canceled.verdict] += 1

        print(dict(verdicts))
        assert sum(verdicts.values()) == ROUNDS
        assert set(verdicts) == set(CancelVerdict) - {CancelVerdict.WHILE_SUSPENDED}  # nothing here waits for others

    def test_by_two_people_happens_once(self) -> None:
        farm.kind()
        me = farm.worker()
        for state in ["pending", "in_progress"] * 20:
            [job] = farm.submit(1)
            if state == "in_progress":
                farm.claim_one(me)
            reported = farm.at_once(*[partial(operations.cancel, job.pk, by=None)] * 2)
            expected = CancelVerdict.BEFORE_START if state == "pending" else CancelVerdict.WHILE_RUNNING
            assert sorted(answer.verdict for answer in reported) == sorted([expected, CancelVerdict.TOO_LATE])
            assert {answer.status for answer in reported} == {"canceled"}
            assert Attempt.objects.filter(job=job).count() == (state == "in_progress")


def _jobs_that_wait(queue: str, worker: Worker) -> list[Job]:
    jobs = farm.submit(AT_ONCE, queue)
    if queue == "again":
        for claimed in operations.claim(worker, limit=AT_ONCE):
            assert farm.fail(worker, claimed) == "pending"
    return jobs


def _race(worker: Worker, jobs: list[Job], *, turn: int) -> dict[int, Reported]:
    """One worker takes and finishes the jobs one after the other, while two people cancel them all."""

    def work() -> dict[int, Any]:
        answers: dict[int, Any] = {}
        while claimed := operations.claim(worker, limit=1 + turn % 3):
            for job in claimed:
                answers[job.id] = None if job.id % 5 == 0 else farm.succeed(worker, job)
        return answers

    def cancel(mine: list[Job]) -> dict[int, operations.Cancellation]:
        return {job.pk: operations.cancel(job.pk, by=None) for job in mine}

    # Those who cancel go from the end, from the middle, or with the worker: so that all verdicts come up.
    order = [jobs[::-1], jobs[AT_ONCE // 2 :] + jobs[: AT_ONCE // 2], jobs][turn % 3]
    answers, *canceled = farm.at_once(work, partial(cancel, order[::2]), partial(cancel, order[1::2]))
    by_job = {pk: answer for each in canceled for pk, answer in each.items()}
    return {
        job.pk: Reported(claimed=job.pk in answers, answer=answers.get(job.pk), canceled=by_job[job.pk]) for job in jobs
    }


def _is_true(job: Job, reported: Reported, *, ran_before: bool) -> None:
    """Compare the verdict with what the worker was told, and with what is stored."""
    job.refresh_from_db()
    outcomes = list(Attempt.objects.filter(job=job).order_by("number").values_list("outcome", flat=True))
    before = ["failed"] if ran_before else []
    match reported.canceled.verdict:
        case CancelVerdict.BEFORE_START | CancelVerdict.BEFORE_RETRY as verdict:
            assert verdict is (CancelVerdict.BEFORE_RETRY if ran_before else CancelVerdict.BEFORE_START)
            assert not reported.claimed
            assert (job.status, outcomes) == ("canceled", before)
            assert job.fence == len(before)
        case CancelVerdict.WHILE_RUNNING:
            assert reported.claimed
            assert reported.answer is None or isinstance(reported.answer, LeaseLost)
            assert (job.status, outcomes) == ("canceled", [*before, "canceled"])
        case CancelVerdict.TOO_LATE:
            assert (reported.claimed, reported.answer, reported.canceled.status) == (True, "success", "success")
            assert (job.status, outcomes) == ("success", before)
    assert reported.canceled.status == job.status
