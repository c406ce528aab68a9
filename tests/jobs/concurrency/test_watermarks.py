"""Claims begin where the last ones ended: that stays cheap behind dead rows, and leaves nothing behind for good."""

import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import psycopg
import pytest
from django.contrib.auth.models import Group
from django.db import connection, transaction

from core.backoff import Backoff
from jobs import operations
from jobs.domain import watermarks
from jobs.domain.ranges import EVER, Head, IndexRange, Slice, behind
from jobs.domain.watermarks import Scan, Watermarks
from jobs.models import Job, Worker
from jobs.operations import hooks
from jobs.queries import moves
from postgres import connections, statements
from tests import farm

pytestmark = [pytest.mark.usefixtures("no_dead_rows"), pytest.mark.django_db(transaction=True)]
PASS = 10_000
# What a claim of one job may read more after ten thousand than after a thousand: a page here and there, a level of the
# index more; a member's jobs lie in two indexes. Measured: 2, and 58. Without marks: 1,000 more, and 1,600.
MORE_BUFFERS = 90

FILL = """
INSERT INTO jobs_job (kind, queue, status, priority, created_at, run_at, max_attempts, failures, retry_on_timeout,
                      excluded_workers, fence, next_seq, owner_id, group_id)
SELECT 'work', 'work', 'pending', n %% 2, now() - interval '1 hour', now() - interval '1 hour' + n * interval '1 ms',
       3, 0, false, '{}', 0, 0, %(owner)s, %(group)s
FROM generate_series(1, %(count)s) AS n
"""


@pytest.fixture(autouse=True)
def _fresh_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a process that has just begun: no marks, and time saved for looking everywhere."""
    monkeypatch.setattr(hooks, "WATERMARKS", Watermarks())


def _fill(**of_whom: int | None) -> None:
    farm.kind()
    with connection.cursor() as cursor:
        cursor.execute(FILL, {"count": PASS + 1000, **of_whom})
        cursor.execute("INSERT INTO jobs_body (job_id, payload) SELECT id, '1' FROM jobs_job")
        cursor.execute("ANALYZE jobs_job")


@contextmanager
def _held_snapshot() -> Iterator[None]:
    """Somebody else's report that has been running all the time: what dies now cannot be cleaned up."""
    with psycopg.connect(connections.conninfo()) as other:
        other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        other.execute("SELECT count(*) FROM jobs_job")
        yield
        other.rollback()


def _buffers(worker: Worker, look: Scan) -> int:
    """What a claim of one job that looks so reads; it is rolled back."""
    statement, given = moves.claim_call(worker, queues=["work"], limit=1, scan=look)
    with transaction.atomic():
        plan: dict[str, Any] = statement.explain(given)["Plan"]
        transaction.set_rollback(True)
    assert plan["Actual Rows"] == 1
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def _notifier(worker: Worker, within: Sequence[IndexRange]) -> int:
    """What it reads to find that there is one job."""
    given = {"queues": ["work"], "owner": [worker.owner_id], "wanted": [1], "horizon_s": 5.0}
    given |= {"satisfies": ["{}"]}
    plan = statements.load("jobs", "claimable").explain(given | moves.ranges(within))["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def _everywhere(worker: Worker) -> Scan:
    return Watermarks().scan(["work"], now_s=0, owner_id=worker.owner_id)


def _behind(worker: Worker) -> Scan:
    """Where this process looks; not the look everywhere that may be due at this very moment."""
    looks = [hooks.WATERMARKS.scan(["work"], now_s=time.monotonic(), owner_id=worker.owner_id) for _ in range(2)]
    return next(look for look in looks if not look.is_whole)


class TestBehindASnapshotThatIsHeld:
    @pytest.mark.parametrize("whose", ["everybody", "a member"])
    def test_a_claim_reads_as_much_after_ten_thousand_as_after_one_thousand(self, whose: str) -> None:
        """A member's jobs, which are their group's too, are left in two indexes."""
        club = Group.objects.create(name="club")
        ada = farm.user("ada", groups=[club])
        me = farm.worker(owner=ada if whose == "a member" else None)
        _fill(owner=ada.pk, group=club.pk)
        with _held_snapshot():
            assert len(operations.claim(me, limit=1000)) == 1000
            first = _buffers(me, _behind(me))
            taken = 1000
            while taken < PASS:
                taken += len(operations.claim(me, limit=1000))
            notifier, marked_notifier = _notifier(me, ()), _notifier(me, _behind(me).ranges)
            last, unmarked = _buffers(me, _behind(me)), _buffers(me, _everywhere(me))
        print(f"buffers of a claim: {first}, after {PASS} {last}, without marks {unmarked}")
        print(f"buffers of the bell: {marked_notifier}, without marks {notifier}")
        assert marked_notifier <= MORE_BUFFERS < notifier
        assert last <= first + MORE_BUFFERS
        assert unmarked > last + 10 * MORE_BUFFERS  # or this test says nothing

    @pytest.mark.parametrize("whose", ["everybody", "a member"])
    def test_a_slice_reads_its_part_of_the_pile_and_no_more(self, whose: str) -> None:
        ada = farm.user("ada")
        owner = ada if whose == "a member" else None
        me, head = farm.worker(owner=owner), Head("work", owner.pk if owner else None)
        _fill(owner=ada.pk, group=None)
        with _held_snapshot():
            taken = 0
            while taken < PASS:
                taken += len(operations.claim(me, limit=1000))
            look = _behind(me)
            since = {one.low: one.since for one in look.ranges if one.since != EVER}
            mark = max(since.values())
            half = Slice(mark - timedelta(seconds=PASS / 1000 / 2), mark)
            with_half = replace(look, ranges=tuple(behind(head, since, half)))
            read, more, unmarked = (_buffers(me, one) for one in (look, with_half, _everywhere(me)))
        print(f"buffers of a claim: {read}, with half of the pile {more}, with all of it {unmarked}")
        assert read + MORE_BUFFERS < more < read + unmarked / 2


@pytest.mark.parametrize("looks", ["at once", "in slices"])
class TestNothingIsLeftBehind:
    """While newer jobs flow by, what turns up behind them is found by the next sweep."""

    @pytest.fixture(autouse=True)
    def _looks(self, looks: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """In slices: as where each look everywhere is slow; after each quick pass it is tried at once again."""
        if looks == "in slices":
            monkeypatch.setattr(watermarks, "SLOW_S", -1.0)
            monkeypatch.setattr(watermarks, "SLOW_SCANS", 1)

    def _flow_until_claimed(self, worker: Worker, job_id: int, **of_whom: Any) -> None:
        """One job in, one job out, as long as the other one has not come."""

        def one_more() -> bool:
            farm.submit(1, **of_whom)
            [claimed] = operations.claim(worker)
            return claimed.id == job_id

        farm.until(one_more, what="the job from before")

    def _moved_on(self, worker: Worker, **of_whom: Any) -> None:
        """The marks of this process stand at this moment."""
        farm.submit(3, **of_whom)
        while operations.claim(worker):
            pass

    def test_of_a_transaction_that_took_long_to_commit(self) -> None:
        farm.kind()
        me = farm.worker()
        submitted, go_on = threading.Event(), threading.Event()

        def slowly() -> int:
            with transaction.atomic():
                [job] = farm.submit(1)
                submitted.set()
                assert go_on.wait(30)
            return job.pk

        def meanwhile() -> int:
            assert submitted.wait(30)
            time.sleep(1.1)  # longer than what is always looked at: the margin is a matter of the clock
            self._moved_on(me)
            go_on.set()
            return 0

        late, _ = farm.at_once(slowly, meanwhile)
        self._flow_until_claimed(me, late)

    def test_of_what_another_process_moved_to_the_front(self) -> None:
        farm.kind()
        me = farm.worker()
        [job] = farm.submit(1, run_at=farm.now().replace(year=2100))
        self._moved_on(me)
        Job.objects.filter(pk=job.pk).update(run_at=farm.now().replace(year=2020))
        self._flow_until_claimed(me, job.pk)

    def test_of_a_groups_job_while_a_member_goes_on_with_their_own(self) -> None:
        """Theirs are the group's too, and move its mark as well."""
        farm.kind()
        club = Group.objects.create(name="club")
        ada, bob = (farm.user(name, groups=[club]) for name in ("ada", "bob"))
        me = farm.worker(owner=ada)
        [job] = farm.submit(1, owner=bob, group=club, run_at=farm.now().replace(year=2100))
        self._moved_on(me, owner=ada, group=club)
        Job.objects.filter(pk=job.pk).update(run_at=farm.now().replace(year=2020))
        self._flow_until_claimed(me, job.pk, owner=ada, group=club)

    def test_of_a_claim_that_was_rolled_back(self) -> None:
        farm.kind()
        me, other = farm.worker(), farm.worker("other")
        [job] = farm.submit(1)
        with farm.rolled_back():
            assert [claimed.id for claimed in operations.claim(other)] == [job.pk]
            assert farm.at_once(partial(self._moved_on, me)) == [None]
        self._flow_until_claimed(me, job.pk)

    def test_of_what_this_process_gave_back_and_it_comes_first_again(self) -> None:
        farm.kind()
        me = farm.worker()
        first, *_ = farm.submit(5)
        claimed = operations.claim(me, limit=3)
        operations.release(me, first.pk, claimed[0].lease)
        assert [job.id for job in operations.claim(me)] == [first.pk]

    def test_when_nothing_else_flows_it_is_found_at_once(self) -> None:
        farm.kind()
        me = farm.worker()
        [job] = farm.submit(1, run_at=farm.now().replace(year=2100))
        self._moved_on(me)
        Job.objects.filter(pk=job.pk).update(run_at=farm.now().replace(year=2020))
        assert [claimed.id for claimed in operations.claim(me)] == [job.pk]

    def test_whatever_happens_at_the_same_time(self) -> None:
        """Submits with all priorities and due times for anybody, some of which are taken back; failures, releases."""
        farm.kind(max_attempts=1000, backoff=Backoff(first_s=0.0))
        rngs = [random.Random(n) for n in range(6)]
        club = Group.objects.create(name="club")
        ada, bob = (farm.user(name, groups=[club]) for name in ("ada", "bob"))
        workers = [farm.worker("all"), farm.worker("adas", owner=ada), farm.worker("bobs", owner=bob)]
        is_over, are_in = threading.Event(), threading.Barrier(4)

        def put_in(rng: random.Random) -> None:
            for _ in range(30):
                with farm.rolled_back() if rng.random() < 0.2 else transaction.atomic():
                    whose: dict[str, Any] = {"owner": rng.choice([None, ada, bob]), "group": rng.choice([None, club])}
                    farm.submit(rng.choice([1, 5]), priority=rng.choice([-5, 0, 7]), **whose)
                    farm.submit(1, run_at=farm.now().replace(year=rng.choice([2020, 2024])), **whose)
            are_in.wait(60)

        def take_out(worker: Worker, rng: random.Random) -> None:
            while not is_over.wait(0.002):
                self._deal(worker, operations.claim(worker, limit=rng.choice([1, 7])), rng)

        def close() -> None:
            are_in.wait(60)
            farm.until(lambda: set(Job.objects.values_list("status", flat=True)) == {"success"})
            is_over.set()

        farm.at_once(
            *(partial(put_in, rng) for rng in rngs[:3]),
            *(partial(take_out, worker, rng) for worker, rng in zip(workers, rngs[3:], strict=True)),
            close,
        )

    def _deal(self, worker: Worker, claimed: list[operations.Claimed], rng: random.Random) -> None:
        for job in claimed:
            fate = rng.random()
            if fate < 0.1:
                operations.release(worker, job.id, job.lease)
            elif fate < 0.2:
                farm.fail(worker, job)
            else:
                farm.succeed(worker, job)
