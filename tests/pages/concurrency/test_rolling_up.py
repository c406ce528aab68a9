"""The roll-up beside others of its kind, and beside transactions that stay open for long."""

import threading
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.db.models import Sum

from jobs.models import Rollup, RollupWatermark
from jobs.operations import rollup
from jobs.queries import rollups
from jobs.queries.rollups import Moments
from postgres import connections
from tests import farm

pytestmark = pytest.mark.django_db(transaction=True)


def _arrived(step_s: int = 60) -> int:
    return Rollup.objects.filter(step_s=step_s).aggregate(sum=Sum("arrived"))["sum"] or 0


class _OpenTransaction:
    """Submits a job in a thread of its own and commits when it is told to."""

    def __init__(self) -> None:
        self._submitted, self._may_commit = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "_OpenTransaction":
        self._thread.start()
        assert self._submitted.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self.commit()

    def commit(self) -> None:
        """Let it commit, and wait until it has."""
        self._may_commit.set()
        self._thread.join(30)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        with connections.released(), transaction.atomic():
            farm.submit(1)
            self._submitted.set()
            assert self._may_commit.wait(60)


class TestAJobThatBecomesVisibleLate:
    def test_is_counted_when_it_does_though_others_of_its_minute_were_counted_long_before(self) -> None:
        farm.kind()
        with _OpenTransaction() as late:
            farm.submit(3)
            moments = rollups.moments()
            began = farm.now()
            assert moments.horizon < began
            # An hour goes by: the roll-up looks again and again, and settles nothing that the open one may add to.
            for minutes in (0, 1, 2, 30, 59):
                now = moments.now + timedelta(minutes=minutes)
                rollup.count(Moments(now=now, horizon=rollups.moments().horizon))
            assert _arrived() == 3
            assert RollupWatermark.objects.get().settled_until <= moments.horizon
            late.commit()
            now = moments.now + timedelta(minutes=61)
            rollup.count(Moments(now=now, horizon=now))
        assert [_arrived(step_s) for step_s in (60, 600, 3600)] == [4, 4, 4]
        assert RollupWatermark.objects.get().settled_until > began

    def test_holds_the_horizon_back_only_while_its_transaction_is_open(self) -> None:
        farm.kind()
        with _OpenTransaction() as late:
            opened = farm.now()
            held = rollups.moments()
            late.commit()
        free = rollups.moments()
        assert held.horizon < opened
        assert free.horizon >= free.now - timedelta(seconds=2)

    def test_a_reader_holds_nothing_back(self) -> None:
        """A dump that runs for an hour reads a snapshot and writes nothing."""
        with connection.cursor() as cursor:
            cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            cursor.execute("SELECT count(*) FROM jobs_job")
            read_at = farm.now()
            try:
                [found] = farm.at_once(rollups.moments)
            finally:
                cursor.execute("ROLLBACK")
        assert found.horizon > read_at - timedelta(seconds=2.5)


class TestTwoAtOnce:
    def test_count_each_job_once(self) -> None:
        farm.kind()
        for _ in range(5):
            farm.submit(20)
            farm.at_once(*[lambda: rollup.count(rollups.moments())] * 4)
        assert [_arrived(step_s) for step_s in (60, 600, 3600)] == [100, 100, 100]

    def test_count_each_job_once_while_more_come_and_end(self) -> None:
        farm.kind()
        worker = farm.worker()
        stop = threading.Event()

        def work() -> int:
            done = 0
            while not stop.is_set() and done < 60:
                farm.submit(1)
                farm.succeed(worker, farm.claim_one(worker))
                done += 1
            return done

        def count() -> int:
            for _ in range(15):
                rollup.count(rollups.moments())
            stop.set()
            return 0

        done, *_ = farm.at_once(work, count, count)
        rollup.count(rollups.moments())
        totals = Rollup.objects.filter(step_s=60).aggregate(Sum("arrived"), Sum("success"))
        assert totals == {"arrived__sum": done, "success__sum": done}
