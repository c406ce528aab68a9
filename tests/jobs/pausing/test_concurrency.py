"""Pauses, resumptions, submits, claims and failures of one owner's at the same moment, in sessions of their own."""

import random
import threading
from functools import partial

import pytest
from django.db import transaction
from django.db.models.functions import Now

from jobs import operations
from jobs.models import Job, Live, Mark, PausedOwner, Worker
from jobs.operations import lanes
from jobs.queries import lanes as queries
from postgres import transactions
from tests import farm

pytestmark = pytest.mark.django_db(transaction=True)


class Storm:
    """One owner is paused and resumed while jobs of theirs and of others come and are run."""

    def __init__(self) -> None:
        farm.kind(max_attempts=1000)
        self.ada, self.bo = farm.user("ada"), farm.user("bo")
        self.workers = [farm.worker(f"w{n}") for n in range(2)]
        self.over = threading.Event()

    def change(self) -> int:
        """Pause and resume, again and again; paused in the end."""
        for _ in range(25):
            operations.pause_owner(self.ada)
            operations.resume_owner(self.ada)
        operations.pause_owner(self.ada)
        self.over.set()
        return 0

    def put_in(self, seed: int) -> int:
        """Submit until it is over; how many jobs."""
        rng, made = random.Random(seed), 0
        while not self.over.is_set() and made < 2000:
            count = rng.choice([1, 1, 3, 60])
            farm.submit(count, owner=rng.choice([self.ada, self.ada, self.bo]), priority=rng.choice([0, 3]))
            made += count
        return made

    def work(self, worker: Worker) -> int:
        """Claim until it is over; two of three succeed, the others are given back."""
        done = 0
        while not self.over.is_set():
            for one in operations.claim(worker, limit=5):
                done += 1
                if done % 3:
                    farm.succeed(worker, one)
                else:
                    operations.release(worker, one.id, one.lease)
        return 0

    def tend(self) -> int:
        while not self.over.is_set():
            operations.tend_lanes()
        return 0

    def owners_of_claimable(self) -> set[int | None]:
        ids = [one.id for worker in self.workers for one in operations.claim(worker, limit=5000)]
        return set(Job.objects.filter(pk__in=ids).values_list("owner_id", flat=True))

    def finish(self) -> None:
        """Run all that can be claimed, what was given back so often that it waits a while among it."""
        Live.objects.filter(lease_secret=None, run_at__gt=Now()).update(run_at=Now())
        while claimed := operations.claim(self.workers[0], limit=1000):
            for one in claimed:
                farm.succeed(self.workers[0], one)


def test_whatever_happens_at_once_a_paused_owners_jobs_wait_in_the_end_and_none_is_lost() -> None:
    storm = Storm()
    puts = [partial(storm.put_in, seed) for seed in (1, 2)]
    works = [partial(storm.work, worker) for worker in storm.workers]
    made = farm.at_once(storm.change, storm.tend, *puts, *works)
    operations.tend_lanes()  # what was under way at the last pause
    assert storm.owners_of_claimable() <= {storm.bo.pk}
    waiting = Live.objects.filter(owner=storm.ada, lease_secret=None)
    assert waiting.exists()
    assert set(waiting.values_list("lane__held_for", flat=True)) == {storm.ada.pk}
    assert operations.broken_jobs(most=10) == []
    operations.resume_owner(storm.ada)
    operations.tend_lanes()
    storm.finish()
    assert Job.objects.count() == sum(made)
    assert not Live.objects.filter(lease_secret=None).exists()
    operations.tend_lanes()
    assert not Mark.objects.exists()


@pytest.mark.parametrize("isolation", ["read committed", "serializable"])
def test_a_submit_that_commits_after_the_pause_waits_once_the_janitor_has_come_by(isolation: str) -> None:
    farm.kind()
    ada, worker = farm.user("ada"), farm.worker()
    submitted, paused = threading.Event(), threading.Event()

    def put_in() -> None:
        farm.submit(1, owner=ada)
        submitted.set()
        assert paused.wait(30)

    def submit() -> None:
        if isolation == "serializable":
            transactions.serializable(put_in)
        else:
            with transaction.atomic():
                put_in()

    def pause() -> None:
        assert submitted.wait(30)
        operations.pause_owner(ada)
        paused.set()

    farm.at_once(submit, pause)
    operations.tend_lanes()
    assert operations.claim(worker, limit=5) == []
    operations.resume_owner(ada)
    assert len(operations.claim(worker, limit=5)) == 1


def test_a_submit_that_commits_after_the_resumption_is_found_once_the_janitor_has_come_by() -> None:
    farm.kind()
    ada, worker = farm.user("ada"), farm.worker()
    operations.pause_owner(ada)
    submitted, resumed = threading.Event(), threading.Event()

    def submit() -> None:
        with transaction.atomic():
            farm.submit(1, owner=ada)
            submitted.set()
            assert resumed.wait(30)

    def resume() -> None:
        assert submitted.wait(30)
        operations.resume_owner(ada)
        operations.tend_lanes()  # it does not see the job yet
        resumed.set()

    farm.at_once(submit, resume)
    operations.tend_lanes()
    assert len(operations.claim(worker, limit=5)) == 1


def test_a_resumption_waits_for_what_still_moves_out_of_the_way_of_claims_and_finds_it() -> None:
    """The first pause of a schedule was over its commit, and moved; a resumption did not see where to, and nobody got
    the job until the janitor came by."""
    farm.kind()
    ada, worker = farm.user("ada"), farm.worker()
    farm.submit(1, owner=ada)
    queries.set_owner_paused(ada, paused=True, by=None)
    moved, resumed = threading.Event(), threading.Event()

    def move() -> None:
        with transaction.atomic():
            lanes.part_paused()
            moved.set()
            farm.until(lambda: farm.waiting_for_locks() or resumed.is_set())

    def resume() -> None:
        assert moved.wait(30)
        operations.resume_owner(ada)
        resumed.set()

    farm.at_once(move, resume)
    assert len(operations.claim(worker, limit=5)) == 1


def test_what_would_move_out_of_the_way_stays_when_a_resumption_is_under_way() -> None:
    farm.kind()
    ada, worker = farm.user("ada"), farm.worker()
    farm.submit(1, owner=ada)
    queries.set_owner_paused(ada, paused=True, by=None)
    resuming, was_tried = threading.Event(), threading.Event()

    def resume() -> None:
        with transaction.atomic():
            operations.resume_owner(ada)
            resuming.set()
            assert was_tried.wait(30)

    def move() -> None:
        assert resuming.wait(30)
        assert lanes.part_paused()
        was_tried.set()

    farm.at_once(resume, move)
    assert len(operations.claim(worker, limit=5)) == 1


def test_a_claim_that_is_under_way_takes_what_it_has_and_the_rest_waits() -> None:
    farm.kind()
    ada, worker = farm.user("ada"), farm.worker()
    farm.submit(4, owner=ada)
    taken, paused = threading.Event(), threading.Event()

    def claim() -> int:
        with transaction.atomic():
            claimed = operations.claim(worker, limit=2)
            taken.set()
            assert paused.wait(30)
        return len(claimed)

    def pause() -> int:
        assert taken.wait(30)
        operations.pause_owner(ada)  # it waits for nobody
        paused.set()
        return 0

    assert farm.at_once(claim, pause) == [2, 0]
    assert operations.claim(worker, limit=5) == []
    assert Job.objects.running().count() == 2
    assert PausedOwner.objects.count() == 1
