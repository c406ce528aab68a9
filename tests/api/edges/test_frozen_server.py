"""A row that stays locked, by whoever: who waits for it is answered, and a web process that is stopped lets it go."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from django.contrib.auth.models import User
from pytest_django import DjangoDbBlocker

from jobs import operations
from jobs.models import Worker
from postgres import connections
from tests import farm
from tests.api.edges import callers
from tests.api.edges.callers import Crew
from tests.jobs.presence.running import frozen
from tests.servers import Server, Serving

pytestmark = pytest.mark.django_db(transaction=True)
LEASE_S = 8.0  # so a call waits for a lock for 1 s, and a lock is kept for 2


@pytest.fixture(scope="module")
def running(serving: Serving, django_db_blocker: DjangoDbBlocker) -> Server:
    """The server of this file's tests, with short leases."""
    with django_db_blocker.unblock():
        return serving.having(JOBFARM_LEASE_S=str(LEASE_S), JOBFARM_HEARTBEAT_S="4")


@pytest.fixture
def other_session(transactional_db: None) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    with psycopg.connect(connections.conninfo()) as session:
        yield session


def test_a_call_that_waits_for_it_over_a_socket_is_refused_for_now_and_the_next_are_done(
    crew: Crew, other_session: psycopg.Connection[tuple[object, ...]]
) -> None:
    farm.submit(2, "chat")
    with crew.socket() as socket:
        first, second = callers.ask(socket, type="claim", limit=2, ref=1)["jobs"]
        other_session.execute("SELECT FROM jobs_live WHERE job_id = %s FOR UPDATE", [first["id"]])

        answers = [
            callers.ask(socket, type="finish", job=job["id"], lease=job["lease"], outcome="success", ref=job["id"])
            for job in (first, second)
        ]
        assert [(answer["ref"], answer.get("status")) for answer in answers] == [
            (first["id"], 503), (second["id"], "success"),
        ]  # fmt: skip

        other_session.rollback()
        again = callers.ask(socket, type="finish", job=first["id"], lease=first["lease"], outcome="success", ref=3)
        assert again["status"] == "success"


def test_a_job_that_a_stopped_process_was_canceling_can_be_renewed_before_its_lease_is_over(
    crew: Crew, server: Server, ada: User, other_session: psycopg.Connection[tuple[object, ...]]
) -> None:
    [job] = farm.submit(1, "chat", owner=ada)
    held = farm.claim_one(Worker.objects.get())
    operations.heartbeat(crew.worker, held.id, held.lease)
    client = callers.client(server, ada)
    other_session.execute("LOCK TABLE django_admin_log IN EXCLUSIVE MODE")
    with ThreadPoolExecutor(1) as threads:
        canceling = threads.submit(client.post, f"/api/v1/jobs/{job.pk}/cancel")
        farm.until(farm.waiting_for_locks, what="the cancel, which has locked the job by then")
        with frozen(server.pid):
            other_session.rollback()
            was = operations.heartbeat(crew.worker, held.id, held.lease)
            assert was == farm.stored(job).lease_expires_at
            now = farm.until(
                lambda: (end := operations.heartbeat(crew.worker, held.id, held.lease)) > was and end,
                what="the row, which the server of the database takes from who stopped",
            )
            assert now
            assert farm.now() < was
        assert canceling.result().status_code in {200, 503}
