"""Calls whose statements collide with others': done again until they come through, and 503 when they never do.

PostgreSQL finds collisions where it finds them; here a trigger does, for as many statements as a test wants.
"""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from websockets.sync.client import ClientConnection

from jobs import operations
from jobs.domain.bulks import BulkAction
from jobs.domain.filters import Filters
from jobs.models import Attempt, Job, Queue
from tests import farm
from tests.api.edges import callers
from tests.api.edges.callers import Crew, ask
from tests.servers import Server

pytestmark = pytest.mark.django_db(transaction=True)

FOR_EVER = 10**9


@contextmanager
def colliding(table: str = "jobs_live", *, times: int = 2, sqlstate: str = "40P01") -> Iterator[None]:
    """The first statements that write this table collide. When they are to stop with that, they all must have done."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE SEQUENCE test_collisions")  # what it counts is not rolled back
        cursor.execute(f"""
            CREATE FUNCTION test_collide() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                IF nextval('test_collisions') <= {times} THEN
                    RAISE EXCEPTION 'a collision' USING ERRCODE = '{sqlstate}';
                END IF;
                RETURN NULL;
            END $$
        """)
        cursor.execute(f"""
            CREATE TRIGGER test_collide AFTER INSERT OR UPDATE OR DELETE ON {table} FOR EACH STATEMENT
            EXECUTE FUNCTION test_collide()
        """)
    try:
        yield
        assert _statements() > min(times, 1), "nothing collided"
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP FUNCTION test_collide() CASCADE")
            cursor.execute("DROP SEQUENCE test_collisions")


def _statements() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT last_value FROM test_collisions")
        [count] = cursor.fetchone()
        return int(count)


@pytest.fixture
def socket(crew: Crew) -> Iterator[ClientConnection]:
    with crew.socket() as open_socket:
        yield open_socket


@pytest.fixture
def boss(server: Server) -> Client:
    """A browser of whoever runs the farm."""
    client = Client(raise_request_exception=False)
    client.force_login(User.objects.create_superuser("boss"))
    return client


Verb = Callable[[Crew, dict[str, Any]], Any]
VERBS: dict[str, tuple[Verb, str]] = {
    "a success": (lambda crew, job: _finish(crew, job, outcome="success"), "success"),
    "a failure": (lambda crew, job: _finish(crew, job, outcome="failed", retryable=False), "failed"),
    "a batch": (lambda crew, job: crew.post("finish", finished=[_ending(job)]), "success"),
    "a release": (lambda crew, job: crew.post(f"jobs/{job['id']}/release", lease=job["lease"]), "pending"),
}


def _ending(job: dict[str, Any]) -> dict[str, Any]:
    return {"id": job["id"], "lease": job["lease"], "outcome": "success"}


def _finish(crew: Crew, job: dict[str, Any], **how: Any) -> Any:
    return crew.post(f"jobs/{job['id']}/finish", lease=job["lease"], **how)


class TestAWorkersCall:
    @pytest.mark.parametrize("sqlstate", ["40P01", "40001", "55P03"])
    def test_gets_a_job_all_the_same(self, crew: Crew, sqlstate: str) -> None:
        job = operations.submit("chat", {})
        with colliding(sqlstate=sqlstate):
            claimed = crew.claim_one()
        assert (claimed["id"], claimed["attempt"]) == (job.pk, 1)

    @pytest.mark.parametrize("verb", VERBS)
    def test_ends_a_job_all_the_same(self, crew: Crew, verb: str) -> None:
        call, status = VERBS[verb]
        operations.submit("chat", {})
        claimed = crew.claim_one()
        with colliding():
            answer = call(crew, claimed)
        assert answer.status_code == 200, answer.text
        assert farm.status(claimed["id"]) == status
        assert Attempt.objects.filter(job_id=claimed["id"]).count() == (status != "success")

    @pytest.mark.parametrize("verb", VERBS)
    def test_that_never_comes_through_is_503_and_changes_nothing(self, crew: Crew, verb: str) -> None:
        call, status = VERBS[verb]
        operations.submit("chat", {})
        claimed = crew.claim_one()
        before = farm.everything(claimed["id"])
        with colliding(times=FOR_EVER):
            answer = call(crew, claimed)
        assert (answer.status_code, answer.json()["error"]) == (503, "unavailable")
        assert answer.headers["Retry-After"] == "1"
        assert farm.everything(claimed["id"]) == before
        assert call(crew, claimed).status_code == 200
        assert farm.status(claimed["id"]) == status

    def test_takes_the_next_with_its_finish_once(self, crew: Crew) -> None:
        operations.submit("chat", {"n": 1})
        second = operations.submit("chat", {"n": 2})
        claimed = crew.claim_one()
        with colliding():
            answer = _finish(crew, claimed, outcome="success", claim_next=1).json()
        assert [(job["id"], job["attempt"]) for job in answer["jobs"]] == [(second.pk, 1)]

    def test_over_a_socket_is_done_all_the_same_or_told_503(self, socket: ClientConnection) -> None:
        operations.submit("chat", {})
        with colliding():
            [job] = ask(socket, type="claim", ref=1)["jobs"]
        about = {"job": job["id"], "lease": job["lease"], "outcome": "success"}
        with colliding(times=FOR_EVER):
            refused = ask(socket, type="finish", ref=2, **about)
        assert (refused["type"], refused["status"], refused["error"]) == ("error", 503, "unavailable")
        with colliding():
            assert ask(socket, type="finish", ref=3, **about)["status"] == "success"


class TestAPersonsCall:
    def test_cancels_and_submits_all_the_same(self, server: Server, ada: User) -> None:
        job = operations.submit("chat", {}, owner=ada)
        http = callers.client(server, ada)
        with colliding():
            canceled = http.post(f"/api/v1/jobs/{job.pk}/cancel")
        assert (canceled.status_code, canceled.json()["verdict"]) == (200, "canceled_before_start")
        with colliding():
            submitted = http.post("/api/v1/jobs/bulk", json={"jobs": [{"kind": "chat", "payload": 1}] * 3})
        assert submitted.status_code in {200, 201}
        with colliding():
            again = http.post(f"/api/v1/jobs/{job.pk}/retry")
        assert again.status_code == 201
        assert Job.objects.count() == 5

    @pytest.mark.parametrize("path", ["", "/bulk"])
    def test_that_may_be_repeated_submits_once_all_the_same(self, server: Server, ada: User, path: str) -> None:
        http = callers.client(server, ada)
        new = {"kind": "chat", "payload": 1}
        for _ in range(2):
            with colliding() if not Job.objects.exists() else contextlib.nullcontext():
                answer = http.post(
                    f"/api/v1/jobs{path}", json={"jobs": [new]} if path else new, headers={"Idempotency-Key": "once"}
                )
            assert answer.status_code == 201, answer.text
        assert Job.objects.count() == 1

    def test_lets_a_job_run_now_all_the_same(self, server: Server, ada: User) -> None:
        job = operations.submit("chat", {}, owner=ada, run_at=farm.now() + timedelta(hours=1))
        with colliding():
            answer = callers.client(server, ada).post(f"/api/v1/jobs/{job.pk}/run_now")
        assert answer.status_code == 200, answer.text
        assert farm.stored(job).run_at <= farm.now()

    def test_on_a_page_is_done_all_the_same(self, boss: Client) -> None:
        with colliding("jobs_queue"):
            boss.post("/queues/chat/ceiling/", {"ceiling": "3"})
        assert Queue.objects.get(pk="chat").ceiling == 3

    def test_on_a_page_that_never_comes_through_is_told_so(self, boss: Client) -> None:
        with colliding("jobs_queue", times=FOR_EVER):
            answer = boss.post("/queues/chat/ceiling/", {"ceiling": "3"})
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
        assert "Someone else was changing the same data" in answer.text
        assert Queue.objects.get(pk="chat").ceiling is None


class TestCodeOfTheSite:
    def test_hands_in_and_gives_back_what_was_never_confirmed_all_the_same(self, crew: Crew) -> None:
        jobs = [operations.submit("chat", {}) for _ in range(2)]
        done, unheard = operations.claim(crew.worker, limit=2)
        with colliding():
            assert farm.succeed(crew.worker, done) == "success"
        with colliding():
            operations.withdraw(crew.worker, [(unheard.id, unheard.lease)])
        assert [farm.status(job) for job in jobs] == ["success", "pending"]


class TestNobodysCall:
    def test_the_janitors_round_goes_through(self, crew: Crew) -> None:
        operations.submit("chat", {})
        claimed = crew.claim_one()
        farm.expire_lease(Job.objects.get(pk=claimed["id"]))
        with colliding():
            swept = operations.sweep()
        assert swept.taken_back == 1
        assert Attempt.objects.filter(job_id=claimed["id"]).count() == 1

    def test_a_step_of_a_bulk_action_goes_through(self, server: Server) -> None:
        boss = User.objects.create_superuser("boss")
        jobs = [operations.submit("chat", {}) for _ in range(3)]
        bulk = operations.bulk.create(BulkAction.CANCEL, by=boss, filters=Filters())
        operations.bulk.begin(bulk.pk, by=boss)
        with colliding():
            operations.bulk.step(bulk_id=bulk.pk)
        bulk.refresh_from_db()
        assert bulk.changed == len(jobs)
        assert {farm.status(job) for job in jobs} == {"canceled"}
