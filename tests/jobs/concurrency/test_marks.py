"""Marks of lanes: of who puts a job in and who puts the lane to sleep, one sees the other; and what is behind a mark is
found whatever anybody holds open."""

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import psycopg
import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction

from jobs import operations
from jobs.models import Job, Mark, Worker
from jobs.operations import lanes
from jobs.operations.lanes import AT_ONCE
from jobs.queries import lanes as queries, moves, reads
from postgres import connections, transactions
from tests import farm
from tests.explained import explain

pytestmark = pytest.mark.django_db(transaction=True)

# Waiting jobs whose lane has no mark at or before the moment at which they are due.
_HIDDEN = """
SELECT count(*) FROM jobs_live AS job WHERE job.lease_secret IS NULL
AND NOT EXISTS (SELECT FROM jobs_mark AS mark WHERE mark.lane_id = job.lane_id AND mark.at <= job.run_at)
"""
# Between its look and what comes of that.
_SLOWLY = "IF NOT FOUND THEN\n        PERFORM pg_sleep(0.001);\n        DELETE"
_LOCKED = "OR NOT pg_try_advisory_xact_lock(1784635252, lane % 256) THEN"


def _hidden() -> int:
    with connection.cursor() as cursor:
        cursor.execute(_HIDDEN)
        return int(cursor.fetchone()[0])


@contextmanager
def _tidying(*replaced: tuple[str, str]) -> Iterator[None]:
    """jobs_tidy with another text, until the end of the block."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_get_functiondef('jobs_tidy(integer)'::regprocedure)")
        before = planted = cursor.fetchone()[0]
        for what, instead in replaced:
            assert what in planted, f"{what} does not stand in jobs_tidy any more"
            planted = planted.replace(what, instead)
        cursor.execute(planted)
        try:
            yield
        finally:
            cursor.execute(before)


def _race(rounds: int, submit: Callable[[], object]) -> int:
    """Put a job into a lane that is empty while it is put to sleep, again and again; how many were hidden."""
    hidden = 0
    farm.kind()
    me = farm.worker()
    barrier = threading.Barrier(3)

    def add() -> None:
        for _ in range(rounds):
            barrier.wait(timeout=60)
            submit()
            barrier.wait(timeout=60)
            barrier.wait(timeout=60)

    def sleep() -> None:
        for _ in range(rounds):
            barrier.wait(timeout=60)
            queries.tidy(limit=AT_ONCE)
            barrier.wait(timeout=60)
            barrier.wait(timeout=60)

    def look() -> None:
        nonlocal hidden
        for _ in range(rounds):
            barrier.wait(timeout=60)
            barrier.wait(timeout=60)
            hidden += _hidden()
            for job_id in Job.objects.waiting().values_list("pk", flat=True):
                operations.cancel(job_id, by=None)
            barrier.wait(timeout=60)

    operations.submit("work", {})
    farm.succeed(me, farm.claim_one(me))
    farm.at_once(add, sleep, look)
    return hidden


class TestTheRaceOfWakingAndTidying:
    @pytest.mark.parametrize("rounds", [150, pytest.param(20_000, marks=pytest.mark.long)])
    def test_hides_nothing(self, rounds: int) -> None:
        assert _race(rounds, lambda: operations.submit("work", {})) == 0

    def test_hides_nothing_of_a_serializable_mutation(self) -> None:
        submit = partial(transactions.serializable, lambda: operations.submit("work", {}))
        assert _race(100, submit) == 0

    def test_hides_nothing_where_tidying_is_slow(self) -> None:
        with _tidying(("IF NOT FOUND THEN\n        DELETE", _SLOWLY)):
            assert _race(100, lambda: operations.submit("work", {})) == 0

    def test_would_hide_jobs_without_the_lanes_lock(self) -> None:
        """What the tests above look for is there to be found."""
        with _tidying(("IF NOT FOUND THEN\n        DELETE", _SLOWLY), (_LOCKED, "THEN")):
            assert any(_race(50, lambda: operations.submit("work", {})) for _ in range(10))


class TestAnOpenTransactionThatHasSubmitted:
    def test_keeps_nobody_waiting_and_its_job_is_found(self) -> None:
        farm.kind()
        me = farm.worker()
        farm.submit(2)

        def others() -> list[int]:
            with connection.cursor() as cursor:
                cursor.execute("SET lock_timeout = '2s'")
            mine = operations.claim(me, limit=2)
            operations.submit("work", {})
            operations.tend_lanes()
            mine += operations.claim(me, limit=2)
            with connection.cursor() as cursor:
                cursor.execute("RESET lock_timeout")
            return [job.id for job in mine]

        with transaction.atomic():
            late = operations.submit("work", {})
            [taken] = farm.at_once(others)
        assert len(taken) == 3
        assert [job.id for job in operations.claim(me, limit=2)] == [late.pk]

    def test_of_a_lane_that_is_new_keeps_nobody_waiting_who_makes_the_same(self) -> None:
        farm.kind()

        def other() -> int:
            with connection.cursor() as cursor:
                cursor.execute("SET lock_timeout = '2s'")
            return operations.submit("work", {}, priority=7).pk

        with transaction.atomic():
            mine = operations.submit("work", {}, priority=7).pk
            [theirs] = farm.at_once(other)
        assert {job.id for job in operations.claim(farm.worker(), limit=9)} == {mine, theirs}


def _pages(worker: Worker) -> int:
    statement, params = moves.claim_call(worker, queues=["work"], limit=1)
    with transaction.atomic():
        plan = explain(statement, params)["Plan"]
        transaction.set_rollback(True)
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


class TestASnapshotThatIsHeld:
    @pytest.mark.parametrize("jobs", [10_000, pytest.param(150_000, marks=pytest.mark.long)])
    @pytest.mark.parametrize("is_members", [False, True], ids=["serves all", "a member's"])
    def test_makes_a_claim_read_twice_as_much_at_most(self, jobs: int, is_members: bool) -> None:
        """No vacuum takes away what was taken since; the mark has moved past it."""
        farm.kind()
        owner = farm.user() if is_members else None
        me = farm.worker(owner=owner)
        _submit(1000, owner)
        _through(me, 500)
        with psycopg.connect(connections.conninfo()) as holder:
            holder.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            holder.execute("SELECT count(*) FROM jobs_live")
            before = _pages(me)
            for _ in range(jobs // 1000):
                _submit(1000, owner)
                _through(me, 1000)
            operations.tend_lanes()
            after = _pages(me)
        print(f"pages of a claim: {before}, after {jobs} jobs {after}")
        assert after <= 2 * before


def _submit(count: int, owner: User | None) -> None:
    operations.submit_many([operations.NewJob(kind="work", payload={}, owner=owner) for _ in range(count)])


def _through(worker: Worker, count: int) -> None:
    for _ in range(count // 100):
        mine = operations.claim(worker, limit=100)
        assert len(mine) == 100
        operations.finish(worker, [_success(job) for job in mine])


def _success(job: operations.ClaimedJob) -> operations.Finished:
    return operations.Finished(job_id=job.id, lease=job.lease, outcome="success")


class TestTheOrder:
    def test_is_exact_by_priority_and_within_a_lane_by_time(self) -> None:
        farm.kind()
        me = farm.worker()
        jobs = [operations.submit("work", {}, priority=n % 3) for n in range(60)]
        expected = sorted(jobs, key=lambda job: (-job.priority, job.run_at, job.pk))
        assert [farm.claim_one(me).id for _ in jobs] == [job.pk for job in expected]

    def test_between_lanes_of_one_priority_lets_a_hundred_later_ones_go_before_at_most(self) -> None:
        farm.kind()
        me = farm.worker()
        people = [farm.user(f"p{n}") for n in range(4)]
        for person in people:
            farm.worker(person.username, owner=person)
        turns = itertools.cycle(people)
        order = {operations.submit("work", {}, owner=next(turns)).pk: n for n in range(400)}
        taken = [order[job.id] for _ in range(40) for job in operations.claim(me, limit=10)]
        assert sorted(taken) == list(range(400))
        overtaken = [sum(later > number for later in taken[:place]) for place, number in enumerate(taken)]
        print(f"overtaken by {max(overtaken)}")
        assert max(overtaken) <= 100


class TestWithoutAJanitor:
    def test_a_members_worker_finds_what_came_in_while_its_queue_began_to_keep_owners_apart(self) -> None:
        farm.kind()
        ada, bob = farm.user("ada"), farm.user("bob")
        is_there, is_made = threading.Event(), threading.Event()

        def submit() -> int:
            with transaction.atomic():
                hers = operations.submit("work", {}, owner=ada).pk
                operations.submit("work", {}, owner=bob)
                is_there.set()
                assert is_made.wait(timeout=30)
            return hers

        def make() -> int:
            assert is_there.wait(timeout=30)
            made, _ = operations.create_worker("hers", queues=["work"], owner=ada)
            is_made.set()
            return made.pk

        hers, made = farm.at_once(submit, make)
        worker = Worker.objects.get(pk=made)
        assert [job.id for job in operations.claim(worker, limit=9)] == [hers]
        assert operations.claim(worker, limit=9) == []
        assert _hidden() == 0

    def test_lanes_that_are_empty_are_put_to_sleep_by_who_finds_them_so(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(lanes, "EVERY_S", 0.0)
        farm.kind()
        me = farm.worker()
        for priority in range(5):
            operations.submit("work", {}, priority=priority)
        for job in operations.claim(me, limit=5):
            farm.succeed(me, job)
        assert operations.claim(me) == []
        assert not Mark.objects.exists()


def test_a_job_that_waits_where_no_claim_looks_is_found_by_the_doctor() -> None:
    farm.kind()
    [job] = farm.submit(1)
    Mark.objects.all().delete()
    assert [pk for pk, _ in reads.broken_jobs(most=9)] == [job.pk]
