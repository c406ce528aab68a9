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

from benchmarks import recorded  # noqa: E402
from jobs.models import Worker  # noqa: E402
from jobs.queries import moves  # noqa: E402
from tests import rows  # noqa: E402
from tests.explained import explain  # noqa: E402
from tests.rows import Sql  # noqa: E402

# A migrated database to copy where there is one: the migrations take eight seconds.
TEMPLATE = os.environ.get("BENCH_TEMPLATE")


@contextlib.contextmanager
def database() -> Iterator[str]:
    """Its name. Django's default connection leads there."""
    connection.settings_dict["TEST"].update(NAME=f"test_bench_{os.getpid()}", TEMPLATE=TEMPLATE)
    made = setup_databases(verbosity=0, interactive=False)
    recorded.begin()
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
    due = Sql("now() - interval '1 hour' + n * interval '1 us'")
    for begin in range(0, count, 1_000_000):
        rows.fill(
            min(1_000_000, count - begin), status=status, kind="noop", queue=queue, run_at=due, avoid=list(avoid),
            requirement_id=requirement, fence=int(status == "success"),
        )  # fmt: skip


def settle_down() -> None:
    """What autovacuum would have done by now."""
    with connection.cursor() as cursor:
        cursor.execute(
            "VACUUM (ANALYZE) jobs_job, jobs_live, jobs_outcome, jobs_queue, jobs_worker, jobs_lane, jobs_mark,"
            " jobs_edge, jobs_step, jobs_endedstep"
        )


def claim_plan(worker: Worker, queue: str, *, limit: int = 1) -> dict[str, Any]:
    """EXPLAIN (ANALYZE, BUFFERS) of a claim, which is rolled back."""
    statement, given = moves.claim_call(worker, queues=[queue], limit=limit)
    with transaction.atomic():
        plan = explain(statement, given)
        transaction.set_rollback(True)
    return plan


def buffers(plan: dict[str, Any]) -> int:
    """How many pages it looked at."""
    return int(plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"])
