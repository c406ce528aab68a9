"""A ceiling that moves while everything else goes on: nobody waits in a circle, and what runs is always
counted."""

import collections
import itertools
import random
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import httpx
import psycopg
import pytest
from django.contrib.auth.models import Group, User
from django.db import connection, transaction
from django.test import Client

from jobs import operations
from jobs.models import Job, Live, Queue, Worker
from postgres import connections, transactions
from postgres.errors import causes
from tests import farm
from tests.servers import Server, serve

pytestmark = pytest.mark.django_db(transaction=True)

# What one snapshot says of a queue: how often its ceiling moved (the log has a line of each), where it stands, how many
# run, and how many of these do not count against it.
LOOK = """
SELECT (SELECT count(*) FROM django_admin_log WHERE object_id = 'work'), ceiling,
       (SELECT count(*) FROM jobs_live WHERE queue = 'work' AND lease_secret IS NOT NULL),
       (SELECT count(*) FROM jobs_live WHERE queue = 'work' AND lease_secret IS NOT NULL AND counted_in IS NULL)
FROM jobs_queue WHERE name = 'work'
"""

Look = tuple[int, int | None, int, int]


class Collisions:
    """The statements of the farm that PostgreSQL refused because they collided, whoever tried them again."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note those of this thread."""
        with connection.execute_wrapper(self._note):
            yield

    def _note(self, execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        try:
            return execute(sql, *rest)
        except Exception as error:
            if transactions.is_passing(error):
                [why] = [str(cause) for cause in causes(error) if isinstance(cause, psycopg.Error)]
                self.seen.append(f"{sql[:60]}: {why}")
            raise


class Storm:
    """Workers that claim and hand in, people who cancel, a janitor, and a ceiling that moves, until no job is left."""

    def __init__(self, *, seed: int) -> None:
        self.collisions = Collisions()
        self.over = threading.Event()
        self.rng = random.Random(seed)
        self.looks: list[Look] = []

    def rage(self, *parts: Callable[[random.Random], None]) -> None:
        """Run all of them at once, each with dice of its own, under the eyes of a watcher."""
        own = [random.Random(self.rng.random()) for _ in parts]
        watcher = threading.Thread(target=self._watch)
        watcher.start()
        try:
            farm.at_once(*(partial(self._noted, part, rng) for part, rng in zip(parts, own, strict=True)))
        finally:
            self.over.set()
            watcher.join()

    def _noted(self, part: Callable[[random.Random], None], rng: random.Random) -> None:
        with self.collisions.noted():
            part(rng)

    def work(self, worker: Worker, *, limit: int, rng: random.Random) -> None:
        """Claim and hand in, in every way there is, until nothing is left."""
        while _is_any_left():
            mine = operations.claim(worker, limit=rng.randint(1, limit))
            rng.shuffle(mine)
            half = mine[: len(mine) * 3 // 4]
            operations.finish(worker, [_ended(job, rng) for job in half])
            for job in mine[len(half) :]:
                self._end_one(worker, job, rng)

    def _end_one(self, worker: Worker, job: operations.ClaimedJob, rng: random.Random) -> None:
        match rng.randrange(4):
            case 0:
                operations.finish_and_claim(worker, [_ended(job, rng)], limit=0)
            case 1:
                operations.cancel(job.id, by=None)
            case 2:
                farm.expire_lease(job)
            case _:
                operations.finish(worker, [_ended(job, rng)])

    def sweep(self, _rng: random.Random) -> None:
        """Be the janitor."""
        while _is_any_left():
            operations.sweep()

    def cancel(self, rng: random.Random) -> None:
        """Cancel one job in ten, whatever it does."""
        ids = list(Job.objects.values_list("pk", flat=True))
        for job_id in rng.sample(ids, len(ids) // 10):
            operations.cancel(job_id, by=None)

    def move(self, ceilings: Sequence[int | None], _rng: random.Random) -> None:
        """Move the ceiling on and on."""
        turn = 0
        while _is_any_left():
            operations.set_ceiling("work", ceilings[turn % len(ceilings)], by=self.boss)
            turn += 1
        operations.set_ceiling("work", 3, by=self.boss)

    boss: User

    def _watch(self) -> None:
        with connections.released():
            while not self.over.is_set():
                with connection.cursor() as cursor:
                    cursor.execute(LOOK)
                    self.looks.append(cursor.fetchone())


def _ended(job: operations.ClaimedJob, rng: random.Random) -> operations.Finished:
    outcome = rng.choice(["success", "success", "failed"])
    return operations.Finished(job_id=job.id, lease=job.lease, outcome=outcome, retryable=False)  # type: ignore[arg-type]


def _is_any_left() -> bool:
    return Job.objects.living().exists()


def _was_never_exceeded(looks: Sequence[Look]) -> None:
    """While a ceiling stays where it is, more run than before only as long as they are no more than it allows."""
    for (moves, ceiling, before, *_), (moves_then, _, after, *_) in itertools.pairwise(looks):
        if moves == moves_then and ceiling is not None and after > before:
            assert after <= ceiling


class TestUnderLoad:
    @pytest.mark.parametrize("ceilings", [[90, 20, 60, 5], [40, None, 10, 80, None, 5]], ids=["moved", "taken away"])
    def test_a_moving_ceiling_collides_with_nobody_and_what_runs_is_counted(self, ceilings: list[int | None]) -> None:
        club = Group.objects.create(name="club")
        ada = farm.user("ada", groups=[club])
        farm.kind(retry_when_lost=False)
        for _ in range(6):
            farm.submit(50)
            farm.submit(20, owner=ada)
            farm.submit(20, owner=ada, group=club)
        storm = Storm(seed=len(ceilings))
        storm.boss = farm.user("boss", is_superuser=True, is_staff=True)
        workers = [farm.worker(f"w{n}") for n in range(5)] + [farm.worker("hers", owner=ada)]
        limits = [1, 40, 40, 20, 1, 40]

        storm.rage(
            *(partial(_work, storm, worker, limit) for worker, limit in zip(workers, limits, strict=True)),
            storm.cancel,
            storm.sweep,
            partial(storm.move, ceilings),
        )

        assert storm.collisions.seen == []
        assert Queue.objects.get(pk="work").ceiling == 3
        bounded = [look for look in storm.looks if look[1] is not None]
        assert bounded
        assert [look for look in bounded if look[3]] == []
        _was_never_exceeded(storm.looks)


def _work(storm: Storm, worker: Worker, limit: int, rng: random.Random) -> None:
    storm.work(worker, limit=limit, rng=rng)


class TestTheOrderOfLocks:
    @pytest.mark.parametrize("outcome", ["success", "failed"])
    def test_is_the_same_for_who_ends_a_batch_and_who_sets_a_first_ceiling(self, outcome: str) -> None:
        """A row in the middle is held by a third: both come to it, and neither may have locked what the other wants."""
        farm.kind()
        farm.submit(5)
        me = farm.worker()
        mine = operations.claim(me, limit=5)
        collisions, third_has_it = Collisions(), threading.Event()

        def third() -> None:
            with transaction.atomic():
                Live.objects.select_for_update().get(pk=mine[2].id)
                third_has_it.set()
                farm.until(lambda: farm.waiting_for_locks() == 2, what="two who wait")

        def end() -> None:
            third_has_it.wait(timeout=30)
            with collisions.noted():
                operations.finish(me, [_with_outcome(job, outcome) for job in mine[::-1]])

        def move() -> None:
            third_has_it.wait(timeout=30)
            farm.until(lambda: farm.waiting_for_locks() == 1, what="the one who ends them")
            with collisions.noted():
                operations.set_ceiling("work", 2)

        farm.at_once(third, end, move)
        assert collisions.seen == []
        assert not Job.objects.running().exists()
        farm.submit(3)
        assert len(operations.claim(me, limit=3)) == 2

    def test_lets_who_holds_a_row_claim_while_the_ceiling_waits_for_it(self) -> None:
        """He waits for the ceiling, and the ceiling for his row: the first try fails, and the second sets it."""
        farm.kind()
        farm.submit(3)
        me = farm.worker()
        one, other = operations.claim(me, limit=2)
        collisions, has_it = Collisions(), threading.Event()

        def finish_and_claim() -> int:
            with transaction.atomic():
                operations.finish(me, [_with_outcome(one, "success")])
                has_it.set()
                farm.until(lambda: farm.waiting_for_locks() == 1, what="the ceiling")
                return len(operations.claim(me, limit=1))

        def move() -> int:
            has_it.wait(timeout=30)
            with collisions.noted():
                operations.set_ceiling("work", 2)
            return 0

        claimed, _ = farm.at_once(finish_and_claim, move)
        assert (claimed, bool(collisions.seen)) == (1, True)
        counted = Job.objects.counted_in("work")
        assert (counted.count(), farm.status(other)) == (2, "in_progress")


class TestAFirstCeiling:
    def test_counts_the_job_of_a_claim_that_is_under_way(self) -> None:
        farm.kind()
        farm.submit(3)
        me, other = farm.worker("me"), farm.worker("other")
        is_under_way = threading.Event()

        def claim() -> list[operations.ClaimedJob]:
            with transaction.atomic():
                mine = operations.claim(me, limit=2)
                is_under_way.set()
                farm.until(lambda: farm.waiting_for_locks() == 1, what="the ceiling")
            return mine

        def move() -> list[operations.ClaimedJob]:
            is_under_way.wait(timeout=30)
            operations.set_ceiling("work", 2)
            return operations.claim(other)

        mine, others = farm.at_once(claim, move)
        assert (len(mine), others) == (2, [])
        counted = Job.objects.counted_in("work").values_list("pk", flat=True)
        assert sorted(counted) == sorted(job.id for job in mine)

    def test_lets_the_others_go_on_when_a_claim_does_not_end(self) -> None:
        farm.kind()
        farm.submit(3)
        me, other = farm.worker("me"), farm.worker("other")
        is_under_way, collisions = threading.Event(), Collisions()

        def claim() -> list[operations.ClaimedJob]:
            with transaction.atomic():
                mine = operations.claim(me)
                is_under_way.set()
                farm.until(lambda: collisions.seen, what="a ceiling that gave up for now")
                [others] = farm.at_once(partial(operations.claim, other))
            return [*mine, *others]

        def move() -> list[operations.ClaimedJob]:
            is_under_way.wait(timeout=30)
            with collisions.noted():
                operations.set_ceiling("work", 1)
            return []

        running, _ = farm.at_once(claim, move)
        assert len(running) == 2
        assert Job.objects.counted_in("work").count() == 2
        assert operations.claim(other) == []

    def test_has_room_again_when_a_mutation_that_began_before_it_has_ended_the_job(self) -> None:
        farm.kind()
        [job] = farm.submit(1)
        me = farm.worker()
        farm.claim_one(me)
        tries: list[int] = []

        def mutation() -> None:
            assert Queue.objects.filter(name="work", ceiling=None).exists() or tries
            tries.append(1)
            if len(tries) == 1:
                [_] = farm.at_once(partial(operations.set_ceiling, "work", 1))
            operations.cancel(job.pk, by=None)

        transactions.serializable(mutation)
        farm.submit(2)
        assert len(operations.claim(me, limit=2)) == 1

    def test_has_no_room_for_a_mutation_which_cannot_see_who_runs_since_it_began(self) -> None:
        farm.kind()
        farm.submit(1)
        operations.set_ceiling("work", 1)
        me, other = farm.worker("me"), farm.worker("other")

        def another() -> list[operations.ClaimedJob]:
            farm.submit(1, priority=9)
            return operations.claim(other)

        def mutation() -> list[operations.ClaimedJob]:
            if not Live.objects.exclude(lease_secret=None).exists():
                assert len(farm.at_once(another)[0]) == 1
            return operations.claim(me)

        assert transactions.serializable(mutation) == []


def _with_outcome(job: operations.ClaimedJob, outcome: Any) -> operations.Finished:
    return operations.Finished(job_id=job.id, lease=job.lease, outcome=outcome, retryable=False)


MOVES = 40


class TestOverHttp:
    def test_no_call_is_refused_while_the_ceiling_moves(self) -> None:
        farm.kind()
        farm.submit(50)
        is_over, is_broken = threading.Event(), threading.Event()
        boss = User.objects.create_superuser("boss")
        keys = [operations.create_worker(f"w{n}", queues=["work"])[1] for n in range(5)]
        with serve() as server:
            answers = farm.at_once(
                *(partial(_work_by_http, server, key, is_over, is_broken) for key in keys),
                partial(_move_by_pages, server, boss, is_over),
            )
            log = server.log
        statuses = collections.Counter(status for mine in answers for status in mine)
        assert set(statuses) <= {200, 302}
        assert statuses[302] == MOVES
        assert "Traceback" not in log
        assert set(farm.statuses()) == {"success"}


def _work_by_http(server: Server, key: str, is_over: threading.Event, is_broken: threading.Event) -> list[int]:
    """Claim and hand in by turns, each batch the other way round and with the next one, until no more come."""
    statuses: list[int] = []
    with httpx.Client(base_url=f"{server.url}/api/v1/worker", headers={"Authorization": f"Bearer {key}"}) as http:
        while not is_broken.is_set() and (not is_over.is_set() or _is_any_left()):
            answer = http.post("/claim", json={"limit": 50, "wait": 0.5})
            statuses.append(answer.status_code)
            while mine := answer.json().get("jobs"):
                ended = [{"id": job["id"], "lease": job["lease"], "outcome": "success"} for job in mine]
                answer = http.post("/finish", json={"finished": ended[::-1], "claim_next": 50})
                statuses.append(answer.status_code)
            if answer.status_code != 200:  # what it holds stays as it is: the others need not wait for that
                is_broken.set()
    return statuses


def _move_by_pages(server: Server, boss: User, is_over: threading.Event) -> list[int]:
    """Move the ceiling by the form of the queue's page, each time with new jobs to be done under it."""
    try:
        client = Client()
        client.force_login(boss)
        statuses: list[int] = []
        with httpx.Client(base_url=server.url, cookies={name: m.value for name, m in client.cookies.items()}) as http:
            token = _csrf_token(http.get("/queues/work/").text)
            for ceiling in itertools.islice(itertools.cycle(["100", "40", "90", "", "80", "50"]), MOVES):
                farm.submit(40)
                form = {"ceiling": ceiling, "csrfmiddlewaretoken": token}
                statuses.append(http.post("/queues/work/ceiling/", data=form).status_code)
        return statuses
    finally:
        is_over.set()


def _csrf_token(page: str) -> str:
    found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
    assert found is not None
    return found[1]
