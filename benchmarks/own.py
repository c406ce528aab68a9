"""A database of our own for a benchmark of jobfarm alone: made like a test's, dropped at the end.

Import this before anything of Django's: it sets Django up.
"""

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "jobfarm.settings")
django.setup()

from django.db import connection, transaction  # noqa: E402 (Django has to be set up first)
from django.test import Client  # noqa: E402
from django.test.utils import setup_databases, teardown_databases  # noqa: E402

from jobs.models import Worker  # noqa: E402
from jobs.queries import moves  # noqa: E402

# A migrated database to copy where there is one: the migrations take eight seconds.
TEMPLATE = os.environ.get("BENCH_TEMPLATE")
# What has ended gets no body: no claim reads it.
FILL = """
WITH lane AS MATERIALIZED (
SELECT jobs_enter(%(queue)s, 0::smallint, NULL, NULL, %(requirement)s::integer, %(avoid)s::bigint[],
                  now() - interval '1 hour') AS id
WHERE %(status)s = 'pending'
), job AS (
INSERT INTO jobs_job (kind, queue, status, priority, created_at, run_at, ended_at, max_attempts, failures,
                      retry_on_timeout, requirement_id, lane_id, fence, next_seq)
SELECT 'noop', %(queue)s, %(status)s, 0, now() - interval '2 hours', now() - interval '1 hour' + n * interval '1 us',
       CASE WHEN %(status)s = 'success' THEN now() END, 3, 0, false, %(requirement)s::integer,
       (SELECT id FROM lane),
       CASE WHEN %(status)s = 'success' THEN 1 ELSE 0 END, 0
FROM generate_series(1, %(count)s) AS n
RETURNING id)
INSERT INTO jobs_body (job_id, payload) SELECT id, '{}' FROM job WHERE %(status)s = 'pending'
"""


@contextlib.contextmanager
def database() -> Iterator[str]:
    """Its name. Django's default connection leads there."""
    connection.settings_dict["TEST"].update(NAME=f"test_bench_{os.getpid()}", TEMPLATE=TEMPLATE)
    made = setup_databases(verbosity=0, interactive=False)
    try:
        yield str(connection.settings_dict["NAME"])
    finally:
        teardown_databases(made, verbosity=0)


def logged_in(person: Any) -> str:
    """A session of this person: the value of its cookie."""
    browser = Client()
    browser.force_login(person)
    return str(browser.cookies["sessionid"].value)


def fill(
    queue: str, count: int, *, status: str = "pending", avoid: Sequence[int] = (), requirement: int | None = None
) -> None:
    """So many jobs, due for an hour, a microsecond apart; a million at a time. `avoid`: workers that failed them."""
    given = {"queue": queue, "status": status, "avoid": list(avoid), "requirement": requirement}
    with connection.cursor() as cursor:
        for begin in range(0, count, 1_000_000):
            size = min(1_000_000, count - begin)
            cursor.execute(FILL, {"count": size, **given})


def settle_down() -> None:
    """What autovacuum would have done by now."""
    with connection.cursor() as cursor:
        cursor.execute("VACUUM (ANALYZE) jobs_job, jobs_body, jobs_queue, jobs_worker, jobs_lane, jobs_mark")


def claim_plan(worker: Worker, queue: str, *, limit: int = 1) -> dict[str, Any]:
    """EXPLAIN (ANALYZE, BUFFERS) of a claim, which is rolled back."""
    statement, given = moves.claim_call(worker, queues=[queue], limit=limit)
    with transaction.atomic():
        plan = statement.explain(given)
        transaction.set_rollback(True)
    return plan


def buffers(plan: dict[str, Any]) -> int:
    """How many pages it looked at."""
    return int(plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"])
