"""Kinds with a limit under many hands: moments are dealt out once, tokens come back once, nobody waits in a circle."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from jobs import operations
from jobs.errors import NotUnique
from jobs.models import Job
from postgres import clock
from ratelimits.errors import RateLimited
from ratelimits.models import Bucket
from tests import farm
from tests.effort import share
from tests.jobs.limits.integration import sample
from tests.jobs.limits.integration.sample import PLENTY, SLOW, TEN, left, used

pytestmark = pytest.mark.django_db(transaction=True)


def first_used_at(name: str, *, used: float) -> datetime:
    """When a full bucket was first taken of, by its own account: by the database's clock, in whole milliseconds."""
    [bucket] = Bucket.objects.filter(name=name)
    came_in = bucket.value + used - bucket.most
    return datetime.fromtimestamp((bucket.ts - came_in * bucket.period_ms / bucket.rate) / 1000, UTC)


class TestFiftySubmitsAtOnce:
    def test_are_due_ten_at_once_and_ten_a_minute_from_then_on(self) -> None:
        sample.kind()
        began = clock.now()
        jobs = [job for [job] in farm.at_once(*[partial(farm.submit, 1)] * 50)]
        took_s = (max(job.created_at for job in jobs) - began).total_seconds()
        start = first_used_at(TEN, used=50)
        at_once = sum(job.limit_until is None for job in jobs)
        assert 10 <= at_once <= 10 + took_s // 6
        waits = sorted((job.run_at - start).total_seconds() for job in jobs if job.limit_until is not None)
        # Each has its own moment, six seconds behind the one before, and up to a tenth of its wait (5 s at most) is
        # added. The first token was taken 3 to 66 ms before the first job was stored, so the limit's account decides.
        for nth, wait in enumerate(waits, start=at_once - 9):
            assert 6 * nth - 0.001 <= wait <= 6 * nth + min(0.6 * nth, 5) + took_s + 0.001
        for since in waits:
            assert sum(since <= wait < since + 6 for wait in waits) <= 10

    def test_of_a_limit_that_lets_nobody_wait_store_what_it_grants(self) -> None:
        sample.kind(limit=sample.NO_DEBT)

        def one() -> bool:
            try:
                farm.submit(1)
            except RateLimited:
                return False
            return True

        assert sum(farm.at_once(*[one] * 16)) == Job.objects.count() == 2


class TestTokensComeBack:
    def test_once_from_a_job_that_two_cancel(self) -> None:
        sample.kind(limit=SLOW, limit_count=2)
        for _ in range(share(40, of=4)):
            [job] = farm.submit(1)
            verdicts = farm.at_once(*[partial(operations.cancel, job.pk, by=None)] * 2)
            assert sorted(answer.verdict for answer in verdicts) == ["canceled_before_start", "too_late"]
            assert (left(SLOW), used(SLOW)) == (10, {"": 0})

    def test_unless_a_worker_got_it_first(self) -> None:
        sample.kind(limit=PLENTY)
        me = farm.worker()
        ran = 0
        for _ in range(share(40, of=4)):
            [job] = farm.submit(1)
            both: list[Callable[[], Any]] = [partial(operations.cancel, job.pk, by=None), partial(operations.claim, me)]
            canceled, claimed = farm.at_once(*both)
            assert (canceled.verdict == "canceled_while_running") == bool(claimed)
            ran += len(claimed)
            assert used(PLENTY) == {"": ran}

    def test_once_from_a_job_that_expires_while_it_is_canceled(self) -> None:
        sample.kind(limit=SLOW, limit_count=2, expires_s=60)
        for _ in range(share(40, of=4)):
            [job] = farm.submit(1)
            farm.pass_time(job, 61)
            farm.at_once(partial[Any](operations.cancel, job.pk, by=None), partial[Any](operations.sweep))
            operations.sweep()  # of the two one may have skipped it
            assert farm.status(job) in {"canceled", "timed_out"}
            assert used(SLOW) == {"": 0}


class TestNobodyWaitsInACircle:
    def test_where_twins_are_submitted_while_jobs_are_canceled_and_expire(self) -> None:
        """The submit holds the limit and looks at the job's row; the end holds the row and wants the limit."""
        sample.kind(limit=PLENTY, expires_s=60)
        for round_no in range(share(60, of=4)):
            [job, other] = [farm.submit(1, unique_key=f"{round_no}-{n}")[0] for n in range(2)]
            farm.pass_time(other, 61)

            def twin(n: int, round_no: int = round_no) -> Any:
                try:
                    return operations.submit("work", {}, unique_key=f"{round_no}-{n}")
                except NotUnique as refusal:
                    return refusal

            farm.at_once(
                partial[Any](operations.cancel, job.pk, by=None), partial[Any](operations.sweep),
                partial[Any](twin, 0), partial[Any](twin, 1),
            )  # fmt: skip
            live = Job.objects.waiting()
            assert used(PLENTY) == {"": live.count()}
            for each in live:
                operations.cancel(each.pk, by=None)

    def test_where_bulks_name_two_limits_in_opposite_orders(self) -> None:
        sample.kind("a", limit=SLOW, limit_count=0.001)
        sample.kind("b", limit=TEN, limit_count=0.001)
        names = ["a", "b"] * 5

        def bulk(kinds: list[str]) -> int:
            return len(operations.submit_many([operations.NewJob(kind=kind, payload={}) for kind in kinds]))

        for _ in range(share(40, of=4)):
            assert farm.at_once(partial(bulk, names), partial(bulk, names[::-1])) == [10, 10]
