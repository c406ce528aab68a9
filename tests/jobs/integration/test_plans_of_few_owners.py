"""A member's worker behind ten thousand jobs of one other person, in a farm whose statistics know of no owner."""

import pytest
from django.db import connection, transaction

from jobs import operations
from jobs.models import Worker
from jobs.queries import moves
from postgres import statements
from tests import farm, rows
from tests.explained import explain

pytestmark = pytest.mark.django_db(transaction=True)
OTHERS = 10_000
MOST_BUFFERS = 60


def _buffers_of_a_claim(worker: Worker) -> int:
    return _buffers(*moves.claim_call(worker, queues=["work"], limit=1, only_if_idle=False))


def _buffers_of_parting(worker: Worker) -> int:
    """Of looking for jobs of its owner where it does not look itself."""
    params: statements.Params = {"owner": worker.owner_id, "limit": 500, "but_for": []}
    return _buffers(statements.load("jobs", "lock_crowded"), params)


def _buffers(statement: statements.Statement, params: statements.Params) -> int:
    with transaction.atomic():
        plan = explain(statement, params)["Plan"]
        transaction.set_rollback(True)
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def _fill(owner_id: int) -> None:
    rows.fill(3_000, owner_id=rows.Sql("200000 + n %% 20"))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE jobs_live")  # which an empty table keeps: twenty people, one lane
        cursor.execute("TRUNCATE jobs_job, jobs_live, jobs_mark CASCADE")
    rows.fill(50_000, status="success", fence=1)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM (ANALYZE) jobs_job, jobs_live, jobs_outcome")  # of an idle hour
    rows.fill(OTHERS, owner_id=owner_id)


@pytest.mark.parametrize("has_one", [False, True])
def test_reads_none_of_them(has_one: bool) -> None:
    farm.kind()
    ada, bob = farm.user("ada"), farm.user("bob")
    hers = farm.worker("hers", owner=ada)
    _fill(bob.pk)
    if has_one:
        operations.submit("work", {}, owner=ada)
    _buffers_of_a_claim(hers)
    assert _buffers_of_a_claim(hers) <= MOST_BUFFERS


@pytest.mark.parametrize("has_one", [False, True])
def test_that_came_after_them_reads_none_of_them(has_one: bool) -> None:
    """They wait in a lane of all owners still: it does not look there, and has its owner's moved to where it does."""
    farm.kind()
    ada, bob = farm.user("ada"), farm.user("bob")
    _fill(bob.pk)
    [mine] = [operations.submit("work", {}, owner=ada).pk] if has_one else [None]
    hers = farm.worker("hers", owner=ada)
    for measure in (_buffers_of_a_claim, _buffers_of_parting):
        measure(hers)
        assert measure(hers) <= MOST_BUFFERS, measure.__name__
    assert [job.id for job in operations.claim(hers)] == [mine] * has_one
    assert _buffers_of_a_claim(hers) <= MOST_BUFFERS
