"""What a worker may not take costs its claims nothing, and jobs without requirements none of this."""

from typing import Any

import pytest
from django.db import connection, transaction

from jobs import operations
from jobs.models import Requirement, Worker
from jobs.queries import moves
from tests import farm, rows
from tests.explained import explain
from tests.jobs.labels.sample import labelled
from tests.rows import Sql

pytestmark = [pytest.mark.usefixtures("no_dead_rows"), pytest.mark.django_db]
AT_THE_HEAD = 5_000
MORE_BUFFERS = 25  # a level of the index for each descent; a page of jobs for each would be hundreds


def _fill(queue: str, count: int, *, requirement: int | None = None, **fields: Any) -> None:
    rows.fill(count, queue=queue, requirement_id=requirement, created_at=Sql("now()"), **fields)


def _analyze() -> None:
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE jobs_job, jobs_live, jobs_worker, jobs_requirement, jobs_queue")


def _claim(worker: Worker, queue: str) -> dict[str, Any]:
    statement, params = moves.claim_call(worker, queues=[queue], limit=1)
    with transaction.atomic():
        plan: dict[str, Any] = explain(statement, params)["Plan"]
        transaction.set_rollback(True)
    return plan


def _buffers(plan: dict[str, Any]) -> int:
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def _nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(node for child in plan.get("Plans", []) for node in _nodes(child))]


@pytest.mark.parametrize("is_members", [False, True])
def test_jobs_that_it_may_not_take_at_the_head_cost_a_claim_nothing(is_members: bool) -> None:
    owner = farm.user() if is_members else None
    worker = labelled("small", "plain", "required", owner=owner, vram="12")
    mine = None if owner is None else owner.pk
    pk = Requirement.objects.create(text="x", requires={"vram": ">=16"}, prefers={}).pk
    _fill("required", AT_THE_HEAD, priority=50, requirement=pk, owner_id=mine)
    for queue in ("plain", "required"):
        _fill(queue, 200, owner_id=mine)
    _analyze()
    _claim(worker, "required")  # the session's first call of a function reads the catalog
    plain, required = _claim(worker, "plain"), _claim(worker, "required")
    assert [plan["Actual Rows"] for plan in (plain, required)] == [1, 1]
    assert _buffers(required) <= _buffers(plain) + MORE_BUFFERS
    assert not [node for node in _nodes(required) if node.get("Actual Rows", 0) >= AT_THE_HEAD]
    assert not [
        n
        for n in _nodes(required)
        if n["Node Type"] == "Seq Scan" and n.get("Relation Name") in {"jobs_job", "jobs_live"}
    ]


def test_a_claim_without_requirements_in_sight_reads_nothing_of_them() -> None:
    worker = labelled("w", "plain", vram="12")
    _fill("plain", 200)
    _analyze()
    read = [node for node in _nodes(_claim(worker, "plain")) if node.get("Actual Loops")]
    assert not [node for node in read if node.get("Relation Name") == "jobs_requirement"]
    by_worker = [node for node in read if node.get("Relation Name") == "jobs_worker"]
    assert len(by_worker) == 1  # whether it is drained, and not what it satisfies


def test_a_submit_without_requirements_is_one_statement(django_assert_num_queries: Any) -> None:
    farm.kind()
    operations.submit("work", {})
    with django_assert_num_queries(2):  # the kind, and the job
        operations.submit("work", {})
