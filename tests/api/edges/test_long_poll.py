"""`claim` with `wait`: woken when there is work, as many as there are jobs; gone when the client is."""

import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.utils import timezone

from jobs import operations
from jobs.models import Job, Worker
from postgres import connections
from tests import farm
from tests.api.edges import callers
from tests.api.edges.callers import Crew
from tests.servers import Server

pytestmark = pytest.mark.django_db(transaction=True)

WAIT_S = 15  # longer than any of these tests may take: who comes back earlier was woken


@pytest.fixture
def pool() -> Any:
    with ThreadPoolExecutor(32) as threads:
        yield threads


def wait_for_jobs(pool: ThreadPoolExecutor, crew: Crew, **body: Any) -> "Future[list[dict[str, Any]]]":
    """A claim that waits, in a thread of its own."""
    return pool.submit(crew.claim, **{"wait": WAIT_S, **body})


def all_wait(server: Server, count: int) -> None:
    """Return when so many requests are open at the server and none of them is inside of Django.

    A waiting one has had its first answer from Django: then its worker was seen.
    """
    farm.until(lambda: Worker.objects.filter(last_seen_at__isnull=False).count() >= count, what="the first asking")


class TestWaiting:
    def test_ends_at_once_when_there_is_work(self, crew: Crew) -> None:
        job = operations.submit("chat", {})
        assert crew.claim_one(wait=WAIT_S)["id"] == job.pk

    def test_ends_empty_when_the_time_is_over(self, crew: Crew) -> None:
        since = time.monotonic()
        assert crew.claim(wait=0.3) == []
        assert time.monotonic() - since >= 0.3

    def test_ends_when_a_job_is_submitted(self, pool: ThreadPoolExecutor, crew: Crew) -> None:
        waiting = wait_for_jobs(pool, crew)
        all_wait(crew.server, 1)
        job = operations.submit("chat", {})
        [claimed] = waiting.result(WAIT_S)
        assert claimed["id"] == job.pk

    def test_ends_when_a_job_becomes_due(self, pool: ThreadPoolExecutor, crew: Crew) -> None:
        soon = timezone.now() + timedelta(seconds=1)
        job = operations.submit("chat", {}, run_at=soon)
        [claimed] = wait_for_jobs(pool, crew).result(WAIT_S)
        assert claimed["id"] == job.pk
        later = operations.submit("chat", {}, run_at=timezone.now() + timedelta(hours=1))
        assert crew.claim(wait=0.2) == []
        assert farm.status(later) == "pending"

    def test_ends_when_a_job_was_given_back(self, server: Server, pool: ThreadPoolExecutor, crew: Crew) -> None:
        job = operations.submit("chat", {})
        lease = crew.claim_one()["lease"]
        waiting = wait_for_jobs(pool, callers.crew(server))
        all_wait(server, 2)
        crew.post(f"jobs/{job.pk}/release", lease=lease)
        [claimed] = waiting.result(WAIT_S)
        assert (claimed["id"], claimed["attempt"], claimed["fence"]) == (job.pk, 1, 2)

    def test_ends_when_the_queue_is_resumed(self, pool: ThreadPoolExecutor, crew: Crew) -> None:
        operations.pause("chat", by=None)
        job = operations.submit("chat", {})
        waiting = wait_for_jobs(pool, crew)
        all_wait(crew.server, 1)
        operations.resume("chat", by=None)
        [claimed] = waiting.result(WAIT_S)
        assert claimed["id"] == job.pk

    def test_sees_work_to_steal_also_in_a_queue_that_was_made_meanwhile(
        self, server: Server, pool: ThreadPoolExecutor
    ) -> None:
        thief = callers.crew(server, "chat", steals=("*",))
        waiting = wait_for_jobs(pool, thief)
        all_wait(server, 1)
        operations.create_kind(operations.Kind(name="brand-new"))
        job = operations.submit("brand-new", {})
        [claimed] = waiting.result(WAIT_S)
        assert claimed["id"] == job.pk

    def test_of_a_members_worker_ends_only_for_jobs_in_its_scope(
        self, server: Server, pool: ThreadPoolExecutor, ada: User
    ) -> None:
        team = Group.objects.create(name="team")
        ada.groups.add(team)
        waiting = wait_for_jobs(pool, callers.crew(server, owner=ada))
        all_wait(server, 1)
        foreign = operations.submit("chat", {})
        teams = operations.submit("chat", {}, owner=User.objects.create_user("bob"), group=None)
        mine = operations.submit("chat", {}, owner=ada)
        [claimed] = waiting.result(WAIT_S)
        assert claimed["id"] == mine.pk
        assert (farm.status(foreign), farm.status(teams)) == ("pending", "pending")

    def test_is_refused_like_any_claim(self, crew: Crew) -> None:
        assert crew.post("claim", wait=60.5).status_code == 422
        assert crew.post("claim", wait=5, queues=["image"]).status_code == 403
        operations.revoke(crew.worker)
        assert crew.post("claim", wait=5).status_code == 401

    @pytest.mark.parametrize("action", [operations.revoke, operations.rotate_key])
    def test_ends_at_once_when_the_key_opens_nothing_any_more(
        self, pool: ThreadPoolExecutor, server: Server, crew: Crew, action: Callable[[Worker], object]
    ) -> None:
        polling = pool.submit(crew.post, "claim", wait=WAIT_S)
        all_wait(server, 1)
        action(crew.worker)
        refused = polling.result(timeout=WAIT_S / 2)
        assert (refused.status_code, refused.json()["error"]) == (401, "unauthorized")

    def test_of_a_members_worker_ends_when_the_member_is_switched_off(
        self, pool: ThreadPoolExecutor, server: Server, ada: User
    ) -> None:
        polling = pool.submit(callers.crew(server, owner=ada).post, "claim", wait=WAIT_S)
        all_wait(server, 1)
        ada.is_active = False
        ada.save()
        assert polling.result(timeout=WAIT_S / 2).status_code == 401


class TestTurns:
    def test_each_job_wakes_one_of_many_who_wait(self, server: Server, pool: ThreadPoolExecutor) -> None:
        crews = [callers.crew(server) for _ in range(12)]
        waiting = [wait_for_jobs(pool, crew, wait=4) for crew in crews]
        all_wait(server, 12)
        jobs = {operations.submit("chat", number).pk for number in range(5)}
        claimed = [job["id"] for answer in waiting for job in answer.result(20)]
        assert len(claimed) == 5
        assert set(claimed) == jobs

    def test_a_job_that_hides_from_one_worker_goes_on_to_the_next(
        self, server: Server, pool: ThreadPoolExecutor
    ) -> None:
        unlucky, other = callers.crew(server), callers.crew(server)
        other.claim()  # alive, so the job hides from the unlucky one
        operations.create_kind(operations.Kind(name="at-once", queue="chat", backoff=farm_backoff()))
        job = operations.submit("at-once", {})
        lease = unlucky.claim_one()["lease"]
        first = wait_for_jobs(pool, callers.crew(server, "image"))  # waits for something else
        hidden = wait_for_jobs(pool, unlucky, wait=3)
        second = wait_for_jobs(pool, other)
        unlucky.post(f"jobs/{job.pk}/finish", lease=lease, outcome="failed", error="no luck")
        [claimed] = second.result(WAIT_S)
        assert (claimed["id"], claimed["attempt"]) == (job.pk, 2)
        assert hidden.result(WAIT_S) == []
        operations.submit("image", {})
        assert len(first.result(WAIT_S)) == 1


def farm_backoff() -> Any:
    from core.backoff import Backoff

    return Backoff(first_s=0)


class TestClientsThatGo:
    def test_get_no_job(self, server: Server, crew: Crew) -> None:
        gone = _raw_claim(server, crew)
        all_wait(server, 1)
        gone.shutdown(socket.SHUT_WR)
        assert gone.recv(1) == b""  # the server has noticed, and closed its side
        gone.close()
        staying = callers.crew(server)
        job = operations.submit("chat", {})
        assert staying.claim_one(wait=WAIT_S)["id"] == job.pk
        assert Job.objects.get().fence == 1

    def test_in_the_middle_of_a_claim_give_the_job_back(self, server: Server, crew: Crew) -> None:
        job = operations.submit("chat", {})
        locked, release = threading.Event(), threading.Event()

        def hold_the_claim() -> None:
            """Keep Django busy with the claim: it reads a table that is locked."""
            from django.db import connection, transaction

            with connections.released(), transaction.atomic(), connection.cursor() as cursor:
                cursor.execute("LOCK TABLE jobs_queue IN ACCESS EXCLUSIVE MODE")
                locked.set()
                release.wait(20)

        holder = threading.Thread(target=hold_the_claim)
        holder.start()
        assert locked.wait(10)
        gone = _raw_claim(server, crew)
        farm.until(_somebody_waits_for_a_lock, what="the claim")
        gone.close()
        release.set()
        holder.join()
        farm.until(lambda: Job.objects.get(pk=job.pk).fence == 1, what="the claim")
        farm.until(lambda: farm.status(job) == "pending", what="the release")
        job.refresh_from_db()
        assert job.failures == 0


def _raw_claim(server: Server, crew: Crew) -> socket.socket:
    host, port = server.url.removeprefix("http://").split(":")
    raw = socket.create_connection((host, int(port)))
    body = b'{"wait": 30}'
    head = (
        "POST /api/v1/worker/claim HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {crew.key}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    raw.sendall(head.encode() + body)
    return raw


def _somebody_waits_for_a_lock() -> bool:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        return bool(cursor.fetchone()[0])
