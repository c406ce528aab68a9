"""Ceilings: how many jobs of a queue run at a time, at every moment and whatever happens around it."""

import threading
from collections.abc import Callable
from functools import partial

import pytest
from django.db import connection, transaction

from jobs import operations
from jobs.models import Job, Worker
from postgres import connections
from tests import farm
from tests.effort import share

pytestmark = pytest.mark.django_db(transaction=True)


def _running(queue: str = "work") -> int:
    return Job.objects.running().filter(queue=queue).count()


def _watch(done: threading.Event, most: list[int]) -> None:
    with connections.released():
        while not done.is_set():
            most.append(_running())


class Notifier:
    """Wakes all who found no place as soon as one is free, so that each place is asked for by all at one moment."""

    def __init__(self) -> None:
        self._changed, self._rings = threading.Condition(), 0

    def barrier(self) -> None:
        """A job has ended."""
        with self._changed:
            self._rings += 1
            self._changed.notify_all()

    def wait_groups(self) -> int:
        """How often it rang so far."""
        with self._changed:
            return self._rings

    def wait(self, *, past: int) -> None:
        """Until it rang once more than this; or a moment, as a claim may miss a place that another one has locked."""
        with self._changed:
            self._changed.wait_for(lambda: self._rings > past, timeout=0.1)


def _work_until_empty(worker: Worker, *, limit: int, notifier: Notifier) -> int:
    """Claim and finish until nothing waits any more; how many this worker finished."""
    finished = 0
    while Job.objects.living().exists():
        wait_groups = notifier.wait_groups()
        mine = operations.claim(worker, limit=limit)
        for claimed in mine:
            finished += farm.succeed(worker, claimed) == "success"
            notifier.barrier()
        if not mine:
            notifier.wait(past=wait_groups)
    return finished


def _what_runs_is_counted(queue: str = "work") -> None:
    """Each running job of a queue with a ceiling counts against it."""
    assert {job.counted_in for job in Job.objects.running().filter(queue=queue)} <= {queue}


class TestACeiling:
    @pytest.mark.parametrize("limit", [1, 4])
    def test_is_never_exceeded_by_sixteen_claimers(self, limit: int) -> None:
        farm.kind()
        operations.set_ceiling("work", 3)
        farm.submit(100)
        workers = [farm.worker(f"w{n}") for n in range(16)]
        done, most, notifier = threading.Event(), [0], Notifier()
        watcher = threading.Thread(target=_watch, args=(done, most))
        watcher.start()
        try:
            finished = farm.at_once(*(partial(_work_until_empty, w, limit=limit, notifier=notifier) for w in workers))
        finally:
            done.set()
            watcher.join()

        assert sum(finished) == 100
        assert max(most) <= 3

    def test_is_reached_by_one_claim_although_more_was_asked_for(self) -> None:
        farm.kind()
        farm.submit(10)
        operations.set_ceiling("work", 4)
        assert len(operations.claim(farm.worker(), limit=10)) == 4

    def test_is_never_exceeded_by_claims_at_the_same_moment(self) -> None:
        farm.kind()
        operations.set_ceiling("work", 5)
        workers = [farm.worker(f"w{n}") for n in range(8)]
        for _ in range(share(20, of=4)):
            farm.submit(20)
            claims = farm.at_once(*(partial(operations.claim, w, limit=2) for w in workers))
            assert 1 <= sum(map(len, claims)) <= 5
            assert _running() == sum(map(len, claims))
            _what_runs_is_counted()
            for worker, claimed in zip(workers, claims, strict=True):
                for job in claimed:
                    farm.succeed(worker, job)

    def test_of_zero_lets_nothing_start(self) -> None:
        farm.kind()
        farm.submit(1)
        operations.set_ceiling("work", 0)
        assert operations.claim(farm.worker(), limit=5) == []

    def test_counts_the_jobs_of_a_members_worker_too(self) -> None:
        farm.kind()
        ada = farm.user("ada")
        farm.submit(4, owner=ada)
        operations.set_ceiling("work", 2)
        hers, everybodys = farm.worker("hers", owner=ada), farm.worker("all")
        assert [len(operations.claim(hers)), len(operations.claim(everybodys, limit=4))] == [1, 1]
        assert operations.claim(hers) == operations.claim(everybodys) == []

    def test_costs_a_thief_of_a_thousand_queues_few_locks(self) -> None:
        """The server has some thousand locks in all, for everybody."""
        farm.kind()
        operations.create_worker("maker", queues=[f"q{n}" for n in range(1000)])
        thief = farm.worker("thief", steals=["*"])
        with transaction.atomic():
            assert operations.claim(thief) == []
            with connection.cursor() as cursor:
                cursor.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()")
                assert cursor.fetchone()[0] <= 150


class TestEveryEnd:
    def _endings(self) -> dict[str, Callable[[Worker, operations.ClaimedJob], object]]:
        return {
            "success": farm.succeed,
            "failed for good": partial(farm.fail, retryable=False),
            "failed, to be retried": farm.fail,
            "released": lambda worker, job: operations.release(worker, job.id, job.lease),
            "canceled": lambda _, job: operations.cancel(job.id, by=None),
            "timed out": lambda _, job: farm.time_out(job),
        }

    def test_makes_room_for_the_next(self) -> None:
        farm.kind(max_attempts=2)
        operations.set_ceiling("work", 1)
        me = farm.worker()
        for name, end in self._endings().items():
            [job] = farm.submit(1, priority=50)
            claimed = farm.claim_one(me)
            assert (claimed.id, _running()) == (job.pk, 1), name
            end(me, claimed)
            assert _running() == 0, name
            if farm.status(job) == "pending":
                operations.cancel(job.pk, by=None)

    def test_leaves_the_place_of_a_job_that_waits_for_its_retry_to_another(self) -> None:
        farm.kind(max_attempts=2)
        operations.set_ceiling("work", 1)
        _, other = farm.submit(2)
        me = farm.worker()
        assert farm.fail(me, farm.claim_one(me)) == "pending"
        assert farm.claim_one(me).id == other.pk


class TestMovingACeiling:
    def test_up_lets_more_start_and_down_waits_until_fewer_run(self) -> None:
        farm.kind()
        farm.submit(20)
        operations.set_ceiling("work", 2)
        me = farm.worker()
        mine = operations.claim(me, limit=9)
        operations.set_ceiling("work", 4)
        mine += operations.claim(me, limit=9)
        assert len(mine) == 4

        operations.set_ceiling("work", 2)
        seen = []
        for claimed in mine:  # whichever job ends: the ones that still run count against the new ceiling
            seen.append((_running(), len(new := operations.claim(me, limit=9))))
            mine.extend(new)
            farm.succeed(me, claimed)
            if len(seen) == 6:
                break
        assert [running for running, _ in seen] == [4, 3, 2, 1, 1, 1]
        assert [started for _, started in seen] == [0, 0, 0, 1, 1, 1]

    @pytest.mark.parametrize("first", [0, -1])
    def test_down_counts_the_jobs_that_sit_beyond_it(self, first: int) -> None:
        farm.kind()
        farm.submit(9)
        operations.set_ceiling("work", 3)
        me = farm.worker()
        mine = operations.claim(me, limit=3)
        operations.set_ceiling("work", 2)
        farm.succeed(me, mine.pop(first))
        assert operations.claim(me, limit=9) == []
        farm.succeed(me, mine.pop(first))
        assert len(operations.claim(me, limit=9)) == 1

    def test_down_is_never_exceeded_once_fewer_run(self) -> None:
        """While jobs sit beyond a lowered ceiling, free numbers below it are no proof of room."""
        farm.kind()
        workers = [farm.worker(f"w{n}") for n in range(8)]
        for _ in range(share(15, of=4)):
            operations.set_ceiling("work", 6)
            farm.submit(20)
            mine = operations.claim(workers[0], limit=6)
            operations.set_ceiling("work", 3)
            for claimed in mine[:5]:
                farm.succeed(workers[0], claimed)
            claims = farm.at_once(*(partial(operations.claim, w, limit=3) for w in workers))
            assert 1 <= sum(map(len, claims)) <= 2
            assert _running() <= 3
            for job_id in Job.objects.running().values_list("pk", flat=True):
                operations.cancel(job_id, by=None)
            _what_runs_is_counted()

    def test_counts_what_runs_when_a_queue_gets_its_first_ceiling(self) -> None:
        farm.kind()
        farm.submit(9)
        me = farm.worker()
        mine = operations.claim(me, limit=3)
        operations.set_ceiling("work", 4)
        assert len(operations.claim(me, limit=9)) == 1
        _what_runs_is_counted()
        operations.set_ceiling("work", None)
        assert len(operations.claim(me, limit=9)) == 5
        assert [farm.succeed(me, job) for job in mine] == ["success"] * 3

    def test_counts_what_a_claim_takes_that_is_under_way(self) -> None:
        farm.kind()
        workers = [farm.worker(f"w{n}") for n in range(6)]
        for round_no in range(share(40, of=4)):
            operations.set_ceiling("work", 6)
            farm.submit(6)
            farm.at_once(
                *(partial(operations.claim, worker) for worker in workers),
                partial(operations.set_ceiling, "work", 4 + round_no % 4),
            )
            _what_runs_is_counted()
            for job_id in Job.objects.running().values_list("pk", flat=True):
                operations.cancel(job_id, by=None)

    def test_while_jobs_end_neither_deadlocks_nor_leaks(self) -> None:
        farm.kind()
        me = farm.worker()
        ceilings = [3, 1, None, 5, 2, None, 4]
        for round_no in range(share(40, of=4)):
            operations.set_ceiling("work", ceilings[round_no % 7])
            farm.submit(4)
            mine = operations.claim(me, limit=4)
            half = len(mine) // 2
            farm.at_once(
                partial(_finish, me, mine[:half]),
                partial(_finish, me, list(reversed(mine[half:]))),
                partial(operations.set_ceiling, "work", ceilings[(round_no + 1) % 7]),
            )
            assert _running() == 0

    def test_while_everything_else_goes_on_ends_with_room_for_all(self) -> None:
        farm.kind()
        operations.set_ceiling("work", 2)
        farm.submit(150)
        workers = [farm.worker(f"w{n}") for n in range(6)]

        def move() -> int:
            turn = 0
            while Job.objects.waiting().exists():
                operations.set_ceiling("work", [5, 1, None, 3][turn % 4])
                turn += 1
            return 0

        notifier = Notifier()
        finished = farm.at_once(*(partial(_work_until_empty, w, limit=2, notifier=notifier) for w in workers), move)
        assert sum(finished) == 150
        operations.set_ceiling("work", 2)
        farm.submit(3)
        assert len(operations.claim(workers[0], limit=3)) == 2


def _finish(worker: Worker, mine: list[operations.ClaimedJob]) -> None:
    finished = [operations.Finished(job_id=job.id, lease=job.lease, outcome="success") for job in mine]
    assert operations.finish(worker, finished) == ["success"] * len(mine)
