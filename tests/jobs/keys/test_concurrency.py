"""Concurrency keys while all claim, finish, fail and lose at once: never more than may run, and nobody is forgotten."""

import contextlib
import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from django.db import connection, transaction

from jobs import operations
from jobs.errors import KeyIsFull
from jobs.models import ConcurrencyKey, Job, Outcome, Worker
from jobs.operations import keys, new_jobs
from postgres import connections, transactions
from tests import farm

pytestmark = pytest.mark.django_db(transaction=True)
WORKERS, KEYS, EACH, MOST = 8, 5, 24, 2
# Of each key, how many run at a moment: one statement, so one snapshot.
_RUNNING = "SELECT key_id, count(*) FROM jobs_live WHERE lease_secret IS NOT NULL GROUP BY key_id"


def watch(done: threading.Event, most: Counter[int]) -> None:
    with connections.released(), connection.cursor() as cursor:
        while not done.is_set():
            cursor.execute(_RUNNING)
            for key, jobs in cursor.fetchall():
                most[key] = max(most[key], jobs)


def _work(worker: Worker, changed: threading.Event) -> int:
    rng, ended = random.Random(worker.pk), 0
    while Job.objects.living().exists():
        claimed = operations.claim(worker, limit=rng.choice([1, 2, 6]))
        for one in claimed:
            match rng.randrange(6):
                case 0:
                    farm.fail(worker, one, retryable=False)
                case 1:
                    operations.cancel(one.id, by=None)
                case 2:
                    operations.release(worker, one.id, one.lease)
                    ended -= 1
                case _:
                    farm.succeed(worker, one)
            ended += 1
            changed.set()
        if not claimed:
            changed.wait(0.05)  # what another one holds at this moment is free in the next
            changed.clear()
    return ended


@pytest.mark.parametrize("fair", ["off", "key"])
def test_never_more_than_may_run_and_all_are_run(fair: str) -> None:
    farm.kind(concurrency=MOST, concurrency_key="{account}")
    operations.set_fair("work", fair)
    rng = random.Random(3)
    new = [farm.new_job(payload={"account": n % KEYS}, priority=rng.choice([0, 0, 3])) for n in range(KEYS * EACH)]
    operations.submit_many(new)
    workers = [farm.worker(f"w{n}") for n in range(WORKERS)]
    done, most, changed = threading.Event(), Counter[int](), threading.Event()
    watcher = threading.Thread(target=watch, args=(done, most))
    watcher.start()
    try:
        ended = farm.at_once(*(connections.released()(partial(_work, worker, changed)) for worker in workers))
    finally:
        done.set()
        watcher.join()
    assert sum(ended) == Outcome.objects.count() == KEYS * EACH
    assert set(most.values()) == {MOST}


def test_claims_at_the_same_moment_take_no_more_of_a_key_than_one_claim_would() -> None:
    farm.kind(concurrency=MOST, concurrency_key="{account}")
    workers = [farm.worker(f"w{n}") for n in range(WORKERS)]
    for _ in range(10):
        operations.submit_many([farm.new_job(payload={"account": 1}) for _ in range(6)])
        taken = farm.at_once(*(connections.released()(partial(operations.claim, w, limit=3)) for w in workers))
        assert 1 <= sum(map(len, taken)) <= MOST
        for worker, claimed in zip(workers, taken, strict=True):
            for one in claimed:
                farm.succeed(worker, one)


def test_a_claim_that_saw_room_counts_again_once_it_is_alone_with_the_key() -> None:
    farm.kind(concurrency=1, concurrency_key="{account}")
    operations.submit_many([farm.new_job(payload={"account": 1}) for _ in range(2)])
    one, other = farm.worker("one"), farm.worker("other")
    with ThreadPoolExecutor(1) as pool, transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("LOCK TABLE jobs_concurrencykey IN ACCESS EXCLUSIVE MODE")  # it stops where it reads the bound
        claiming = pool.submit(connections.released()(operations.claim), other)
        farm.until(lambda: farm.waiting_for_locks() == 1, what="the claim that reads the bound")
        assert len(operations.claim(one)) == 1
    assert claiming.result(30) == []


@pytest.mark.parametrize("how", ["cancel_running", "cancel_oldest_waiting", "refuse"])
def test_submits_at_the_same_moment_leave_no_more_than_may_live(how: str) -> None:
    farm.kind(concurrency=1, concurrency_key="{account}", on_overflow=how)

    def submit() -> int:
        try:
            return len(operations.submit_many([farm.new_job(payload={"account": 1})]))
        except KeyIsFull:
            return 0

    made = farm.at_once(*(connections.released()(submit) for _ in range(WORKERS)))
    assert Job.objects.living().count() == 1
    assert sum(made) == (1 if how == "refuse" else WORKERS)


def test_a_key_whose_jobs_wait_in_several_fair_queues_has_one_room_in_a_claim_of_all() -> None:
    farm.kind(concurrency=1, concurrency_key="{account}")
    for queue in ("left", "right"):
        farm.kind(queue)
        operations.set_fair(queue, "owner")
    operations.submit_many([farm.new_job(payload={"account": 1}, queue=queue) for queue in ("left", "right", "work")])
    worker = farm.worker("all", "left", "right", "work")
    assert len(operations.claim(worker, limit=9)) == 1


def test_what_begins_while_a_submit_makes_room_is_not_canceled_where_only_what_waits_is() -> None:
    farm.kind(concurrency=1, concurrency_key="{account}", on_overflow="cancel_oldest_waiting")
    worker = farm.worker()
    operations.submit_many([farm.new_job(payload={"account": 1})])
    claimed = threading.Event()

    def claim() -> int:
        with transaction.atomic():
            one = farm.claim_one(worker)
            claimed.set()
            farm.until(farm.waiting_for_locks, what="the submit that would cancel it")
        return one.id

    def submit() -> int:
        assert claimed.wait(30)
        [made] = operations.submit_many([farm.new_job(payload={"account": 1})])
        return int(str(made))

    first, second = farm.at_once(claim, submit)
    assert farm.statuses([first, second]) == ["in_progress", "pending"]


@pytest.mark.parametrize("how", ["cancel_oldest_waiting", "refuse"])
def test_a_mutation_that_began_before_another_submit_of_the_key_counts_it(how: str) -> None:
    farm.kind(concurrency=1, concurrency_key="{account}", on_overflow=how)
    [known] = operations.submit_many([farm.new_job(payload={"account": 1})])
    operations.cancel(int(str(known)), by=None)
    began, submitted = threading.Event(), threading.Event()

    def submit() -> None:
        assert began.wait(30)
        operations.submit_many([farm.new_job(payload={"account": 1})])
        submitted.set()

    def mutation() -> None:
        Job.objects.count()
        began.set()
        assert submitted.wait(30)
        with contextlib.suppress(KeyIsFull):
            operations.submit_many([farm.new_job(payload={"account": 1})])

    farm.at_once(submit, lambda: transactions.serializable(mutation))
    assert Job.objects.living().count() == 1


def submit_three() -> None:
    operations.submit_many([farm.new_job(payload={"account": 1}) for _ in range(3)])


def test_a_key_that_is_made_while_its_queue_gets_a_bound_has_that() -> None:
    farm.kind(concurrency_key="{account}")
    farm.meanwhile(submit_three, lambda: operations.bound_keys("work", 1))
    assert len(operations.claim(farm.worker(), limit=9)) == 1


def test_a_key_that_is_made_while_its_kind_gets_another_bound_has_that() -> None:
    farm.kind(concurrency=3, concurrency_key="{account}")
    farm.meanwhile(submit_three, lambda: farm.kind(concurrency=1, concurrency_key="{account}"))
    assert len(operations.claim(farm.worker(), limit=9)) == 1


def test_a_submit_that_read_its_kind_before_that_got_another_bound_leaves_the_key_with_it() -> None:
    farm.kind(concurrency=3, concurrency_key="{account}")
    records = new_jobs.recorded([farm.new_job(payload={"account": 1})], {})
    keys.interned(records)
    farm.kind(concurrency=1, concurrency_key="{account}")
    keys.interned(records)
    assert [*ConcurrencyKey.objects.values_list("bound", flat=True)] == [1]


def test_a_key_that_jobs_bring_along_while_their_queue_gets_a_bound_has_that() -> None:
    farm.kind(concurrency_key="{account}")
    worker = farm.worker("w1", "work", "other")
    submit_three()
    farm.meanwhile(lambda: Job.objects.update(queue="other"), lambda: operations.bound_keys("other", 1))
    assert len(operations.claim(worker, limit=9)) == 1
