"""What counts regularly fails soon where somebody keeps its row locked, and does the rest of its round all the same."""

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from django.db import OperationalError, connection

from jobs import operations as jobs
from metering import operations as metering
from postgres import connections
from scheduling.errors import SomeFailed
from tests import farm

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize(
    ("table", "count"),
    [
        ("jobs_rollupwatermark", jobs.roll_up), ("metering_watermark", metering.roll_up),
        ("jobs_usage", jobs.measure_usage), ("jobs_usage", jobs.recount_usage),
    ],
)  # fmt: skip
def test_a_locked_row_is_waited_for_two_seconds(
    monkeypatch: pytest.MonkeyPatch, table: str, count: Callable[[], Any]
) -> None:
    monkeypatch.setitem(connection.settings_dict, "LOCK_S", 1)  # one attempt is enough here
    farm.kind()
    farm.submit(1)
    jobs.recount_usage()
    count()
    farm.submit(1)
    with psycopg.connect(connections.conninfo()) as somebody, connection.cursor() as cursor:
        somebody.execute(f"SELECT FROM {table} FOR UPDATE")
        cursor.execute("SET statement_timeout = '20s'")
        with pytest.raises((OperationalError, SomeFailed), match="lock timeout"):
            count()
        cursor.execute("RESET statement_timeout")
        somebody.rollback()
    count()
