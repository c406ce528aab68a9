"""Mutations that lose their connection, or seem to: by the network, or by their own doing."""

import os
import select
import socket
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from django.db import OperationalError, connection

from postgres import clock, connections
from scheduling import operations as scheduling
from scheduling.domain.calls import Kind
from scheduling.models import Cluster, Due, ScheduledFunction
from scheduling.operations import clusters, runner
from scheduling.queries.functions import Holder
from tests import farm
from tests.scheduling.integration import sample

pytestmark = pytest.mark.django_db(transaction=True)
BREAKS: list[None] = []  # as many runs as are to be broken off


@scheduling.mutation
def uses_a_closed_cursor() -> None:
    cursor = connection.cursor()
    cursor.close()
    cursor.execute("SELECT 1")


@scheduling.mutation
def raises_what_a_driver_would() -> None:
    raise OperationalError("the other system is away")


@scheduling.mutation
def is_broken_off() -> None:
    if BREAKS:
        BREAKS.pop()
        with socket.socket(fileno=os.dup(connection.connection.pgconn.socket)) as line:
            line.shutdown(socket.SHUT_RDWR)
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


@scheduling.mutation
def is_stopped_for_too_long() -> None:
    """As a process that somebody stopped and continued."""
    if BREAKS:
        BREAKS.pop()
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 1")
        select.select([connection.connection.pgconn.socket], [], [], 60)  # until the server has ended it
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


@scheduling.mutation
def sorts_more_than_may_lie_in_temporary_files() -> None:
    with connection.cursor() as cursor:
        cursor.execute("DO $$ BEGIN RAISE 'temp_file_limit' USING ERRCODE = 'configuration_limit_exceeded'; END $$")


def run_until_over(made: ScheduledFunction) -> ScheduledFunction:
    for _ in range(5):
        Due.objects.update(next_at=clock.now())
        scheduling.run_due()
    return ScheduledFunction.objects.get(pk=made.pk)


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (uses_a_closed_cursor, "InterfaceError: the cursor is closed"),
        (raises_what_a_driver_would, "OperationalError: the other system is away"),
    ],
)
def test_an_error_that_only_looks_like_a_lost_connection_fails_its_mutation(function: object, error: str) -> None:
    row = run_until_over(scheduling.run_after(0, function))  # type: ignore[call-overload]

    assert (row.status, row.error) == ("failed", error)
    assert not Due.objects.exists()


def test_a_mutation_that_exceeds_a_configured_limit_of_the_server_fails() -> None:
    row = run_until_over(scheduling.run_after(0, sorts_more_than_may_lie_in_temporary_files))

    assert (row.status, row.error_class) == ("failed", "django.db.utils.OperationalError")


def test_a_cluster_that_heard_no_answer_to_its_beginning_begins() -> None:
    cluster_id = uuid.uuid4()
    for _ in range(2):
        clusters.begin(cluster_id, role="actions")

    assert Cluster.objects.filter(pk=cluster_id).exists()


def test_an_action_is_started_by_a_process_whose_connection_was_lost_meanwhile() -> None:
    row = scheduling.run_after(0, sample.say, word="x")
    [given] = clusters.dispatch(Kind.ACTION, limit=1)
    with socket.socket(fileno=os.dup(connection.connection.pgconn.socket)) as line:
        line.shutdown(socket.SHUT_RDWR)

    assert runner.action(given, by=Holder(cluster_id=uuid.uuid4(), ran_by="here"))
    assert ScheduledFunction.objects.get(pk=row.pk).status == "success"


@pytest.mark.parametrize("function", [is_broken_off, is_stopped_for_too_long])
def test_a_mutation_that_lost_its_connection_is_run_again(function: Any) -> None:
    BREAKS[:] = [None, None]

    assert run_until_over(scheduling.run_after(0, function)).status == "success"


@pytest.mark.parametrize("function", [is_broken_off, is_stopped_for_too_long])
def test_a_mutation_whose_every_run_ends_its_session_is_failed_with_that_error(function: Any) -> None:
    BREAKS[:] = [None] * 9

    row = run_until_over(scheduling.run_after(0, function))

    assert row.status == "failed"
    assert "server closed the connection" in (row.error or "") or "idle-in-transaction timeout" in (row.error or "")
    assert not Due.objects.exists()


@pytest.mark.parametrize(("is_shut_down", "status"), [(True, "pending"), (False, "failed")])
def test_a_mutation_during_which_the_server_shuts_down_is_run_again_however_often(
    is_shut_down: bool, status: str
) -> None:
    made = scheduling.run_after(0, sample.sleep)
    for _ in range(3):
        Due.objects.update(next_at=clock.now())
        is_over = threading.Event()
        with ThreadPoolExecutor(1) as threads:
            ending = threads.submit(end_sessions, is_over, is_shut_down=is_shut_down)
            with suppress(OperationalError):  # the end of the cluster in this process cannot be written
                scheduling.run_due()
            is_over.set()
        ending.result()

    assert ScheduledFunction.objects.get(pk=made.pk).status == status


def end_sessions(is_over: threading.Event, *, is_shut_down: bool) -> None:
    """End the session that waits, as a server does that shuts down: nobody comes in until `is_over`, or for 5 s."""
    name = connection.settings_dict["NAME"]
    waiting = "FROM pg_stat_activity WHERE datname = %s AND wait_event = 'PgSleep'"
    with psycopg.connect(connections.conninfo(), dbname="postgres", autocommit=True) as session:
        farm.until(lambda: session.execute(f"SELECT {waiting}", [name]).rowcount)
        session.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS {not is_shut_down}')
        try:
            session.execute(f"SELECT pg_terminate_backend(pid) {waiting}", [name])
            is_over.wait(5)
        finally:
            session.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
