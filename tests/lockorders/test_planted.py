"""Circles that are planted are found, though nobody waits for anybody; what is no circle is none."""

import io
import json
from collections.abc import Sequence

import psycopg
import pytest
from django.db import connection, transaction

from postgres import transactions
from postgres.backend import trips
from tests import farm
from tests.lockorders import recording
from tests.lockorders.__main__ import graph
from tests.schedules.orders import circles

pytestmark = pytest.mark.django_db(transaction=True)
QUEUE = "UPDATE jobs_queue SET ceiling = 1"
WORKER = "UPDATE jobs_worker SET name = name"
ADVISORY = "SELECT pg_advisory_xact_lock(7, 1)"
SHARED = "SELECT pg_advisory_xact_lock_shared(7, 1)"
TRIED = "SELECT pg_try_advisory_xact_lock(7, 1)"
PASSED_OVER = "SELECT FROM jobs_worker FOR UPDATE SKIP LOCKED"


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Where the orders of this process are written until the end of the test."""
    monkeypatch.setattr(psycopg.Cursor, "execute", psycopg.Cursor.execute)
    monkeypatch.setattr(trips, "_trip", trips._trip)
    recording.install(recording.Watch(file := io.StringIO()))
    farm.kind()
    farm.worker()
    return file


@transactions.retried
def _do(statements: Sequence[str]) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def _found(written: io.StringIO) -> list[str]:
    return circles(graph(map(json.loads, written.getvalue().splitlines())))


@pytest.mark.parametrize("second", [(WORKER, QUEUE), (WORKER, SHARED), (WORKER, ADVISORY)])
def test_locks_that_two_transactions_take_in_two_orders_are_found(written: io.StringIO, second: Sequence[str]) -> None:
    first = (ADVISORY if second[1] == SHARED else SHARED if second[1] == ADVISORY else QUEUE, WORKER)
    _do(first)
    _do(first)
    assert _found(written) == []
    _do(second)
    assert len(_found(written)) == 1


def test_a_shared_lock_that_is_made_exclusive_is_found(written: io.StringIO) -> None:
    _do((SHARED, QUEUE, ADVISORY))
    assert _found(written) == ["advisory 7 (shared) before jobs_queue (changed) before advisory 7 (shared)"]


@pytest.mark.parametrize("locks", [(SHARED, QUEUE), (TRIED, QUEUE), (PASSED_OVER, QUEUE)])
def test_locks_that_nobody_waits_for_are_no_part_of_a_circle(written: io.StringIO, locks: Sequence[str]) -> None:
    _do(locks)
    _do(locks[::-1])
    assert written.getvalue() != ""
    assert _found(written) == []


def test_what_a_test_composes_itself_is_no_order_of_the_farm(written: io.StringIO) -> None:
    with transaction.atomic():
        _do((QUEUE,))
        _do((WORKER,))
    _do((WORKER, QUEUE))
    assert _found(written) == []
