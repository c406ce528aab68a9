"""Pushes of one key beside claims, ends, cancels and one another: the last that was accepted is run."""

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models.functions import Now

from jobs import operations
from jobs.domain.records import BEHIND
from jobs.errors import NotUnique
from jobs.models import Job, Live, UniqueKey, Worker
from postgres import connections
from tests import farm
from tests.effort import share
from tests.jobs.conflicts.sample import is_sound, payload, push, pushed, run_all

pytestmark = pytest.mark.django_db(transaction=True)
ROUNDS = share(24, of=4)


@pytest.fixture(autouse=True)
def _kind() -> None:
    farm.kind()


def _claim(me: Worker, into: list[operations.ClaimedJob]) -> None:
    into.extend(operations.claim(me))


class TestAReplacement:
    def test_beside_a_claim_is_what_it_gets_or_is_refused(self) -> None:
        me = farm.worker()
        for _ in range(ROUNDS):
            job = push(1, "replace")
            claimed: list[operations.ClaimedJob] = []
            answer, _ = farm.at_once(partial(pushed, 2, "replace"), partial(_claim, me, claimed))
            got = claimed or operations.claim(me)
            assert [one.payload["n"] for one in got] == [1 if isinstance(answer, NotUnique) else 2]
            assert payload(job.pk) == got[0].payload["n"]
            farm.succeed(me, got[0])
        assert is_sound()

    def test_that_commits_while_a_claim_is_under_way_is_never_passed_over(self) -> None:
        """A claim whose snapshot is older finds the live row at a place that it does not see: it takes nothing, for it
        would hand out the payload of before."""
        operations.set_ceiling("work", 5, by=None)
        me = farm.worker()
        push(1, "replace")
        may_go, held = Event(), Event()

        def hold_ceiling() -> None:
            with connections.released(), transaction.atomic(), connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_xact_lock(1784635254, hashtext('work') % 64)")
                held.set()
                may_go.wait(timeout=30)

        def claim() -> list[operations.ClaimedJob]:
            with connections.released():
                return operations.claim(me)

        with ThreadPoolExecutor(2) as pool:
            holder = pool.submit(hold_ceiling)
            assert held.wait(timeout=30)
            claiming = pool.submit(claim)
            farm.until(lambda: farm.waiting_for_locks() == 1, what="the claim")
            push(2, "replace")
            may_go.set()
            holder.result(timeout=30)
            claimed = claiming.result(timeout=30)
        got = claimed or operations.claim(me)
        assert [one.payload["n"] for one in got] == [2]

    def test_beside_another_is_one_job_with_what_the_later_says(self) -> None:
        for n in range(ROUNDS):
            answers = farm.at_once(*[partial(pushed, 10 * n + k, "replace") for k in range(4)])
            assert len({*answers}) == 1
            [number] = run_all()
            assert number // 10 == n
        assert is_sound()

    def test_beside_a_cancel_is_canceled_with_it_or_a_job_of_its_own(self) -> None:
        for _ in range(ROUNDS):
            job = push(1, "replace")
            answer, canceled = farm.at_once(partial(pushed, 2, "replace"), partial(operations.cancel, job.pk, by=None))
            assert isinstance(canceled, operations.Cancellation)
            assert canceled.verdict == "canceled_before_start"
            assert payload(job.pk) == (2 if answer == job.pk else 1)
            assert run_all() == ([] if answer == job.pk else [2])
        assert is_sound()

    def test_in_bulks_of_opposite_orders_never_fails(self) -> None:
        def bulk(keys: list[str], n: int) -> list[Any]:
            new = [farm.new_job("work", {"n": n}, unique_key=key, on_conflict="replace") for key in keys]
            return list(operations.submit_many(new))

        keys = [f"{n}" for n in range(8)]
        for n in range(ROUNDS // 4):
            there, back = farm.at_once(partial(bulk, keys, n), partial(bulk, keys[::-1], n))
            assert there == back[::-1]
        assert Job.objects.count() == 8


class TestAFollower:
    @pytest.mark.parametrize("how", ["success", "failed", "canceled", "lost"])
    def test_beside_the_end_of_the_one_before_it_is_never_stranded(self, how: str) -> None:
        me = farm.worker()
        for _ in range(ROUNDS // 2):
            push(1)
            claimed = farm.claim_one(me)
            if how == "lost":
                farm.alter(claimed, max_attempts=1)
                farm.expire_lease(claimed)
            ends: dict[str, Callable[[], Any]] = {
                "success": partial(farm.succeed, me, claimed),
                "failed": partial(farm.fail, me, claimed, retryable=False),
                "canceled": partial(operations.cancel, claimed.id, by=None),
                "lost": operations.sweep,
            }
            answer, *_ = farm.at_once(partial(pushed, 2, "after"), ends[how])
            assert isinstance(answer, int)
            operations.sweep()  # passes by who is locked
            assert run_all() == [2]
        assert is_sound()

    def test_that_is_canceled_beside_the_end_of_the_one_before_it_is_canceled(self) -> None:
        me = farm.worker()
        for _ in range(ROUNDS):
            push(1)
            claimed, second = farm.claim_one(me), push(2)
            farm.at_once(partial(farm.succeed, me, claimed), partial(operations.cancel, second.pk, by=None))
            assert not UniqueKey.objects.exists()
            assert run_all() == []
        assert is_sound()

    def test_that_is_canceled_after_the_end_of_the_one_before_it_began_ends_in_no_deadlock(self) -> None:
        """Whoever has its row may come to the key, for who ends the one before it has no key while it waits."""
        me = farm.worker()
        push(1)
        claimed, second = farm.claim_one(me), push(2)
        succeed = transaction.atomic(farm.succeed)  # a part of it, so that it is not run again
        with ThreadPoolExecutor(1) as pool, transaction.atomic():
            Live.objects.select_for_update().get(pk=second.pk)
            ending = pool.submit(connections.released()(succeed), me, claimed)
            farm.until(lambda: farm.waiting_for_locks() == 1, what="the end that waits for its follower")
            operations.cancel(second.pk, by=None)
        assert ending.result(30) == "success"
        assert not UniqueKey.objects.exists()


def _lose(_: Worker, job: operations.ClaimedJob) -> None:
    farm.expire_lease(job)
    operations.sweep()
    Live.objects.filter(pk=job.id).update(run_at=Now())


def _fail(me: Worker, job: operations.ClaimedJob) -> None:
    farm.fail(me, job)
    farm.forgive(job)


FATES: tuple[Callable[[Worker, operations.ClaimedJob], Any], ...] = (
    farm.succeed,
    _fail,
    partial(farm.fail, retryable=False),
    lambda me, job: operations.release(me, job.id, job.lease),
    lambda _, job: operations.cancel(job.id, by=None),
    _lose,
)


class _Workers:
    """Two workers to whose jobs anything happens, beside what the block does; `ran` are the numbers of the pushes."""

    def __init__(self, seed: int) -> None:
        self.ran: list[int] = []
        self._seed, self._done = seed, Event()
        self._pool = ThreadPoolExecutor(2)

    def __enter__(self) -> list[int]:
        self._at_work = [self._pool.submit(self._work, farm.worker(f"w{n}"), n) for n in range(2)]
        return self.ran

    def __exit__(self, *_: object) -> None:
        self._done.set()
        for one in self._at_work:
            one.result(timeout=60)
        self._pool.shutdown()

    def _work(self, me: Worker, n: int) -> None:
        rng = random.Random(self._seed * 10 + n)
        with connections.released():
            while not self._done.is_set():
                for job in operations.claim(me):
                    self.ran.append(job.payload["n"])
                    rng.choice(FATES)(me, job)


class TestTheLastPush:
    """Against a model of one line: when all is quiet, the newest push of somebody was the last to run."""

    @pytest.mark.parametrize("seed", range(share(6, of=2)))
    def test_is_run_after_it_was_accepted_whatever_happens_meanwhile(self, seed: int) -> None:
        def pushes(first: int) -> None:
            for n in range(25):
                push(first + n, "after", priority=n % 3)

        with _Workers(seed) as ran:
            farm.at_once(partial(pushes, 100), partial(pushes, 200))
        while Job.objects.living().exists():
            operations.sweep()
            for job in Job.objects.waiting().exclude(live__run_at=BEHIND):
                farm.forgive(job)
            ran += run_all()
        assert is_sound()
        assert ran[-1] in {124, 224}
