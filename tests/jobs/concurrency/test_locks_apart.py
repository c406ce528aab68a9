"""Advisory locks of one purpose hold up nothing of another: their first numbers differ."""

import psycopg
import pytest
from django.db import connection

from jobs import operations
from jobs.models import ALL_JOBS
from jobs.queries import keys, usage, waits
from postgres import connections
from tests import farm

pytestmark = pytest.mark.django_db(transaction=True)


def _queue_of_the_lock(number: int) -> str:
    """The name of a queue whose claims take the lock of this number (jobs_open)."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT 'q' || n FROM generate_series(1, 10000) AS n WHERE hashtext('q' || n) %% 64 = %s LIMIT 1", [number]
        )
        return str(cursor.fetchone()[0])


def test_who_counts_what_all_jobs_keep_holds_up_no_claim() -> None:
    """Counting all anew, every night, takes as long as there are jobs."""
    queue = _queue_of_the_lock(ALL_JOBS)
    farm.kind(queue)
    [job] = farm.submit(1, queue)
    me = farm.worker("w1", queue)
    with psycopg.connect(connections.conninfo()) as other, connection.cursor() as cursor:
        other.execute("SELECT pg_advisory_xact_lock(%s, %s)", [usage._LOCKS, ALL_JOBS])
        cursor.execute("SET lock_timeout = '300ms'")
        assert [one.id for one in operations.claim(me)] == [job.pk]
        cursor.execute("RESET lock_timeout")


def test_each_purpose_has_a_number_of_its_own() -> None:
    ours = [usage._LOCKS, waits._LOCKS, keys._CEILING, keys._STEALING]
    of_functions = [1784635252, 1784635254, 1784635255]
    assert len({*ours, *of_functions}) == len(ours) + len(of_functions)
