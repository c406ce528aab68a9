"""Values that no call writes, put into a row by SQL, stop nobody else: the database refuses them, or the row waits."""

from datetime import timedelta
from importlib import import_module

import pytest
from django.db import IntegrityError, connection, transaction
from django.test import Client

from jobs import operations
from jobs.errors import UnknownKind
from ratelimits import operations as ratelimits
from tests import farm

pytestmark = pytest.mark.django_db
REFUSED = {
    "jobs_live": [
        *[f"{name} = {n}" for name in ("fence", "output_bytes", "earlier_output_bytes") for n in (2**63 - 1, -1)],
        "failures = 32767", "worker_id = -1",
    ],
    "jobs_job": [
        "queue = ''", "flow_id = -1", "timeout_s = 'Infinity'", "timeout_s = 'NaN'", "tags = '{NULL}'",
        *[f"inputs = '{wrong}'" for wrong in ("null", "7", "{}", '["x"]', "[{}]")],
    ],
    "jobs_lane": ["avoid = '{1,NULL}'"],
}  # fmt: skip
STORED = {
    "jobs_live": [
        "fence = 99999999999999999", "failures = 32766", "run_at = 'infinity'", "run_at = '-infinity'",
        "releases = 32767", "expires_at = '-infinity'", "timeout_s = 'NaN'", "progress = 'NaN'",
        "next_seq = 2147483647",
    ],
    "jobs_job": [
        "priority = 32767", "priority = -32768", "max_attempts = 32767", "created_at = 'infinity'", "tags = '{}'",
        "inputs = '[]'", "expires_at = 'infinity'", "owner_id = -1", "requirement_id = -1",
    ],
}  # fmt: skip


def _each(changes: dict[str, list[str]]) -> list[tuple[str, str]]:
    return [(table, change) for table, some in changes.items() for change in some]


@pytest.mark.parametrize("is_running", [False, True])
def test_stop_nobody_else(client: Client, is_running: bool) -> None:
    client.force_login(farm.user("boss", is_superuser=True, is_staff=True))
    farm.kind()
    me, other = farm.worker(), farm.worker("w2")
    for table, change in _each(STORED):
        with farm.rolled_back(), connection.cursor() as cursor:
            first, *others = farm.submit(3)
            claimed = operations.claim(me, limit=2) if is_running else []
            cursor.execute(
                f"UPDATE {table} SET {change} WHERE {'id' if table == 'jobs_job' else 'job_id'} = {first.pk}"
            )
            for address in ("/jobs/", f"/jobs/{first.pk}/"):
                assert client.get(address).status_code == 200, change
            if claimed:
                assert (
                    len(operations.heartbeats(me, [operations.Beat(job_id=j.id, lease=j.lease) for j in claimed])) == 2
                )
                ended = [operations.Finished(job_id=j.id, lease=j.lease, outcome="failed") for j in claimed]
                assert operations.finish(me, ended)[1] == "pending", change
            assert {job.id for job in operations.claim(other, limit=3)} >= {job.pk for job in others[-1:]}, change
            operations.sweep()
            operations.tend_lanes()


def test_are_refused_where_they_would() -> None:
    farm.kind()
    farm.submit(1)
    for table, change in _each(REFUSED):
        with connection.cursor() as cursor, pytest.raises(IntegrityError), transaction.atomic():
            cursor.execute(f"UPDATE {table} SET {change}")
    assert len(operations.claim(farm.worker())) == 1


def test_that_were_there_before_stop_nobody_after_the_migration() -> None:
    migration = import_module("jobs.migrations.0038_rows_that_can_be_read").Migration
    farm.kind()
    for change in REFUSED["jobs_live"]:
        with farm.rolled_back(), connection.cursor() as cursor:
            first, *_ = farm.submit(2)
            cursor.execute("ALTER TABLE jobs_live DROP CONSTRAINT a_job_can_be_claimed_again")
            cursor.execute(f"UPDATE jobs_live SET {change} WHERE job_id = {first.pk}")
            for operation in migration.operations:
                cursor.execute(operation.sql)
            assert len(operations.claim(farm.worker(), limit=2)) == 2, change


@pytest.mark.parametrize("change", ["concurrency = 0", "requires = '[]'", "redact = '('", "queue = 'A B'"])
def test_of_a_kind_are_the_sentence_that_its_submits_get_and_its_jobs_go_on(client: Client, change: str) -> None:
    client.force_login(farm.user("boss", is_superuser=True, is_staff=True))
    farm.kind()
    [job] = farm.submit(1)
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE jobs_kind SET {change}")
    with pytest.raises(UnknownKind, match="The kind work is broken"):
        operations.submit("work", {})
    assert client.get(f"/jobs/{job.pk}/").status_code == 200
    me = farm.worker()
    assert farm.fail(me, farm.claim_one(me)) == "pending"


@pytest.mark.parametrize("count", ["NULL", "'NaN'", "'Infinity'", "-1"])
def test_of_what_a_job_took_of_its_limit_give_nothing_back_when_it_is_canceled(count: str) -> None:
    ratelimits.make("few", ratelimits.TokenBucket(1, timedelta(hours=1), capacity=2))
    farm.kind(limit="few")
    [job] = farm.submit(1)
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE jobs_job SET limit_count = {count}")
    assert operations.cancel(job.pk, by=None).status == "canceled"
    assert ratelimits.get_value("few").value < 2
