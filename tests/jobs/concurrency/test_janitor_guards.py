"""What each statement of the janitor guards: it goes around rows that others hold, takes no more than its limit, those
first that waited longest, and touches nothing that does not stand as it must."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta

import psycopg
import pytest
from django.db import connection, transaction
from django.db.models.functions import Now

from jobs import operations
from jobs.domain.states import Status
from jobs.errors import OutputGap
from jobs.models import Job, OutputChunk, Suspension
from jobs.queries import bulks, moves, waits
from postgres import connections
from tests import farm

pytestmark = pytest.mark.django_db(transaction=True)


@contextmanager
def held(*job_ids: int) -> Iterator[None]:
    """Another session that has locked the rows of these jobs; a wait for them is an error here."""
    with psycopg.connect(connections.conninfo()) as other, connection.cursor() as cursor:
        other.execute("SELECT FROM jobs_job WHERE id = ANY(%s) FOR UPDATE", [list(job_ids)])
        other.execute("SELECT FROM jobs_live WHERE job_id = ANY(%s) FOR UPDATE", [list(job_ids)])
        cursor.execute("SET lock_timeout = '300ms'")
        yield
        cursor.execute("RESET lock_timeout")
        other.rollback()


@contextmanager
def _sorting() -> Iterator[None]:
    """The planner takes no index by its order: it sorts what it has read. Plans are made anew, before and after."""
    kinds = ("indexscan", "indexonlyscan", "bitmapscan")
    with connection.cursor() as cursor:
        for kind in kinds:
            cursor.execute(f"SET enable_{kind} = off")
        cursor.execute("DISCARD PLANS")
        yield
        for kind in kinds:
            cursor.execute(f"RESET enable_{kind}")
        cursor.execute("DISCARD PLANS")


def _silent(count: int) -> list[int]:
    """Running jobs whose leases ran out. Neither the table nor its index has them in the order of their ids."""
    early, late = farm.worker("early"), farm.worker("late")
    jobs = farm.submit(count)
    Job.objects.filter(pk__in=[job.pk for job in jobs[count // 2 :]]).update(priority=9)
    operations.claim(early, limit=count - count // 2)
    operations.claim(late, limit=count // 2)
    _each([job.pk for job in jobs], lambda _: {"lease_expires_at": Now() - timedelta(seconds=1)})
    return [job.pk for job in jobs]


def _late(count: int) -> list[int]:
    """Waiting jobs whose time to start has passed. No index has them in the order of their ids."""
    ids = [job.pk for job in farm.submit(count)]
    _each(ids, lambda n: {"expires_at": Now() - timedelta(minutes=n), "priority": n})
    return ids


def _old(count: int) -> list[int]:
    """Jobs that ended long ago, the longest ago first: those with the higher ids."""
    jobs = farm.submit(count)
    for n, job in enumerate(jobs):
        operations.cancel(job.pk, by=None)
        farm.age(job, 31 * 86400 + 60 * n)
    return [job.pk for job in jobs[::-1]]


def _waited_out(count: int) -> list[int]:
    """Suspended jobs whose signal has not come in time, the longest ago first: those with the higher ids."""
    me, jobs = farm.worker(), farm.submit(count)
    wait = operations.Wait(signal="go", timeout_s=60)
    operations.finish(me, [
        operations.Finished(job_id=one.id, lease=one.lease, outcome="suspended", wait=wait)
        for one in operations.claim(me, limit=count)
    ])  # fmt: skip
    for n, job in enumerate(jobs):
        Suspension.objects.filter(pk=job.pk).update(until=Now() - timedelta(minutes=1 + n))
    return [job.pk for job in jobs[::-1]]


def _each(ids: list[int], columns: Callable[[int], dict[str, object]]) -> None:
    """Write each row by itself, the last one first: so they lie in the table."""
    for n, job_id in reversed(list(enumerate(ids, start=1))):
        farm.alter(Job.objects.filter(pk=job_id), **columns(n))


@dataclass(frozen=True, slots=True)
class Duty:
    """One of the statements: rows that it is for, in the order in which it takes them, and the statement itself."""

    due: Callable[[int], list[int]]
    take: Callable[[int], list[moves.Row]]

    def taken(self, limit: int) -> list[int]:
        """The ids of what it takes, in a transaction of its own. A wait for somebody's lock is an error."""
        with transaction.atomic():
            _wait_for_nobody()
            return sorted(row.id for row in self.take(limit))


DUTIES = {
    "lock_overdue": Duty(_silent, moves.lock_overdue),
    "lock_expired": Duty(_late, moves.lock_expired),
    "lock_timed_out": Duty(_waited_out, waits.lock_timed_out),
    "retain": Duty(_old, lambda limit: moves.retain(age_s=30 * 86400.0, limit=limit)),
}


@pytest.mark.parametrize("duty", DUTIES.values(), ids=DUTIES.keys())
class TestAMaintenanceStatement:
    def test_takes_no_more_than_it_is_told_and_the_first_ones_whatever_its_plan(self, duty: Duty) -> None:
        farm.kind()
        due = duty.due(6)
        with farm.rescanning():
            assert duty.taken(2) == sorted(due[:2])

    def test_goes_around_what_somebody_holds_and_waits_for_nobody(self, duty: Duty) -> None:
        farm.kind()
        due = duty.due(6)
        with held(due[0], due[3]):
            assert duty.taken(3) == sorted([due[1], due[2], due[4]])

    @pytest.mark.parametrize("planned", [nullcontext, _sorting])
    def test_of_which_two_run_at_once_share_what_there_is(
        self, duty: Duty, planned: Callable[[], AbstractContextManager[None]]
    ) -> None:
        """The second runs while the transaction of the first is open, which has locked nothing but what it takes."""
        farm.kind()
        due = duty.due(6)
        with transaction.atomic():
            with planned():
                first = sorted(row.id for row in duty.take(4))
            [second] = farm.at_once(lambda: duty.taken(6))
        assert (first, second) == (sorted(due[:4]), sorted(due[4:]))

    def test_leaves_alone_what_was_changed_while_it_looked(self, duty: Duty) -> None:
        """Somebody else settles all of it and commits: nothing is due any more."""
        farm.kind()
        duty.due(3)
        operations.sweep()
        farm.retain()
        assert duty.taken(3) == []


class TestTheJanitor:
    def test_leaves_a_job_whose_lease_has_run_out_while_it_is_handed_in(self) -> None:
        """The finish came before the janitor and holds the row: it is not waited for, and what it says stands."""
        farm.kind()
        farm.submit(1)
        me = farm.worker()
        claimed = farm.claim_one(me)
        farm.expire_lease(claimed)

        def sweep() -> operations.Sweep:
            with transaction.atomic():
                _wait_for_nobody()
                return operations.sweep()

        with transaction.atomic():
            assert farm.succeed(me, claimed) == "success"
            with psycopg.connect(connections.conninfo()) as other:
                runs = "SELECT lease_secret IS NOT NULL FROM jobs_live WHERE job_id = %s"
                seen = other.execute(runs, [claimed.id]).fetchone()
            assert seen == (True,)  # as the janitor sees it
            [swept] = farm.at_once(sweep)
        assert (swept.taken_back, farm.status(claimed)) == (0, "success")


def _wait_for_nobody() -> None:
    """In this transaction, where somebody holds what it wants."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL lock_timeout = '2s'")


class TestOfJobsThatDoNotStandSo:
    """Promise 3: the guard is in the WHERE clause, whatever ids come."""

    @pytest.fixture
    def jobs(self) -> tuple[int, int, int]:
        """One that waits, one that runs, one that has ended."""
        farm.kind()
        ended = farm.ended("success").pk
        running, waiting = (job.pk for job in farm.submit(2))
        assert farm.claim_one(farm.worker("other")).id == running
        return waiting, running, ended

    @pytest.mark.parametrize(
        "write",
        [lambda ids: moves.end_waiting(ids, Status.CANCELED), lambda ids: bulks.change_waiting(ids, priority=9)],
        ids=["end_waiting", "change_waiting"],
    )
    def test_none_is_written_but_what_waits(
        self, jobs: tuple[int, int, int], write: Callable[[list[int]], int]
    ) -> None:
        waiting, *others = jobs
        before = [farm.everything(job_id) for job_id in others]
        assert write([*jobs, 10**9]) == 1
        assert [farm.everything(job_id) for job_id in others] == before
        changed = Job.objects.get(pk=waiting)
        assert (changed.status, changed.priority) != ("pending", 0)

    def test_none_is_forgotten_that_is_younger_by_a_second(self, jobs: tuple[int, int, int]) -> None:
        *_, ended = jobs
        farm.age(Job.objects.get(pk=ended), 100.0)
        assert moves.retain(age_s=1000.0, limit=10) == []
        assert [row.id for row in moves.retain(age_s=100.0, limit=10)] == [ended]


class TestOnePieceOfOutput:
    def test_sent_three_times_at_once_is_stored_once_and_answered_alike(self) -> None:
        """All three wait for the job's row, and get it one after the other."""
        farm.kind()
        farm.submit(1)
        me = farm.worker()
        claimed = farm.claim_one(me)
        operations.write_output(me, claimed.id, claimed.lease, seq=0, text="before")

        def write() -> int:
            return operations.write_output(me, claimed.id, claimed.lease, seq=1, text="once")

        with psycopg.connect(connections.conninfo()) as other:
            other.execute("SELECT FROM jobs_live WHERE job_id = %s FOR UPDATE", [claimed.id])

            def let_them_go() -> int:
                try:
                    farm.until(lambda: farm.waiting_for_locks() == 3, what="that all three wait")
                finally:
                    other.rollback()
                return 0

            answers = farm.at_once(write, write, write, let_them_go)
        assert answers[:3] == [2, 2, 2]
        stored = OutputChunk.objects.filter(job_id=claimed.id).order_by("seq")
        assert list(stored.values_list("seq", "text")) == [(0, "before"), (1, "once")]
        assert Job.objects.get(pk=claimed.id).next_seq == 2

    def test_of_an_older_number_moves_neither_the_number_expected_nor_what_is_stored(self) -> None:
        farm.kind()
        farm.submit(1)
        me = farm.worker()
        claimed = farm.claim_one(me)
        for seq in range(3):
            operations.write_output(me, claimed.id, claimed.lease, seq=seq, text=str(seq))
        assert operations.write_output(me, claimed.id, claimed.lease, seq=0, text="late") == 3
        assert Job.objects.get(pk=claimed.id).next_seq == 3

    def test_behind_a_gap_is_no_sign_of_life(self) -> None:
        farm.kind()
        farm.submit(1)
        me = farm.worker()
        claimed = farm.claim_one(me)
        before = _lease_of(claimed)
        with pytest.raises(OutputGap):
            operations.write_output(me, claimed.id, claimed.lease, seq=5, text="gap")
        assert _lease_of(claimed) == before


def _lease_of(claimed: operations.ClaimedJob) -> datetime | None:
    return farm.stored(claimed).lease_expires_at
