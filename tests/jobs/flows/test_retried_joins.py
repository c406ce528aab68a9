"""What comes after several that did not succeed: it is tried again once, with the last of them that is."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from accounts import operations as accounts
from jobs import operations
from jobs.domain.bulks import BulkAction
from jobs.domain.filters import Filters
from jobs.errors import NotUnique
from jobs.models import Job, Step, Worker
from jobs.operations import bulk
from tests import farm

pytestmark = pytest.mark.django_db(transaction=True)
PARTS = 4


@pytest.fixture
def worker() -> Worker:
    farm.kind()
    return farm.worker()


def failed_fan(worker: Worker, **options: Any) -> list[int]:
    """Parts that all failed, what comes after all of them, and what comes after that: these were canceled."""
    names = [f"part {n}" for n in range(PARTS)]
    new = [farm.new_job(name=name, **options) for name in names]
    new += [farm.new_job(name="join", after=names, **options), farm.new_job(name="end", after=["join"], **options)]
    made = [one for one in operations.submit_many(new) if isinstance(one, int)]
    for job in operations.claim(worker, limit=PARTS):
        farm.fail(worker, job, retryable=False)
    assert farm.statuses(made) == ["failed"] * PARTS + ["canceled"] * 2
    return made


def flow_of(job_id: int) -> int:
    return Job.objects.get(pk=job_id).flow_id or 0


def run(worker: Worker) -> list[int]:
    """Do all that may be done; in which places that was."""
    done = list[int]()
    while jobs := operations.claim(worker, limit=9):
        done += [Step.objects.get(pk=job.id).place_id for job in jobs]
        for job in jobs:
            farm.succeed(worker, job)
    return done


def retried_in_bulk(ada: Any) -> None:
    retrying = bulk.begin(bulk.create(BulkAction.RETRY, by=ada, filters=Filters(status="failed")).pk, by=ada)
    bulk.step(bulk_id=retrying.pk)


def retried_by_the_api(flow_id: int, ada: Any, **headers: str) -> None:
    _, token = accounts.create_token(ada, name="t", scopes=["operate"])
    headers["Authorization"] = f"Bearer {token}"
    sent = Client().post(f"/api/v1/flows/{flow_id}/retry", "", "application/json", headers=headers)
    assert (sent.status_code, len(sent.json()["jobs"])) == (200, PARTS)


@pytest.mark.parametrize("how", ["by the flow", "by the API", "with an idempotency key", "in bulk", "one by one"])
def test_all_parts_that_are_tried_again_bring_what_comes_after_them_once(worker: Worker, how: str) -> None:
    ada = farm.user("ada")
    made = failed_fan(worker, owner=ada)
    match how:
        case "by the flow":
            assert len(operations.flows.retry(flow_of(made[0]), by=ada)) == PARTS
        case "by the API":
            retried_by_the_api(flow_of(made[0]), ada)
        case "with an idempotency key":
            retried_by_the_api(flow_of(made[0]), ada, **{"Idempotency-Key": "again"})
        case "in bulk":
            retried_in_bulk(ada)
        case _:
            for part in reversed(made[:PARTS]):
                operations.retry(part, by=ada)
    assert sorted(run(worker)) == made
    assert Job.objects.count() == 2 * len(made)


def test_of_parts_that_are_not_all_tried_again_the_rest_brings_it(worker: Worker) -> None:
    first, *others, join, end = failed_fan(worker)
    operations.retry(first, by=None)
    assert run(worker) == [first]
    assert {*Step.objects.filter(pk__in=[join, end]).values_list("canceled_for", flat=True)} == {others[-1]}
    assert len(operations.flows.retry(flow_of(first), by=None)) == PARTS - 1
    assert sorted(run(worker)) == [*others, join, end]


@pytest.mark.parametrize("turn", [1, -1])
def test_two_people_who_try_a_part_each_at_the_same_moment_strand_nothing(worker: Worker, turn: int) -> None:
    names = ["left", "right"]
    new = [farm.new_job(name="left"), farm.new_job(name="right"), farm.new_job(name="join", after=names)]
    left, right, join = (one for one in operations.submit_many(new) if isinstance(one, int))
    for job in operations.claim(worker, limit=2):
        farm.fail(worker, job, retryable=False)
    one, other = [left, right][::turn]
    farm.meanwhile(lambda: operations.retry(one, by=None), lambda: operations.retry(other, by=None))
    assert sorted(run(worker)) == [left, right, join]


def test_what_was_canceled_for_one_whose_place_another_has_by_now_is_tried_again_by_itself(worker: Worker) -> None:
    first = operations.submit("work", {}, name="first").pk
    farm.fail(worker, farm.claim_one(worker), retryable=False)
    operations.retry(first, by=None)
    late = operations.submit("work", {}, after=[first]).pk
    assert farm.status(late) == "canceled"
    assert len(operations.flows.retry(flow_of(first), by=None)) == 1
    assert run(worker) == [first, late]


def test_a_part_that_cannot_be_tried_again_keeps_no_other_from_it(worker: Worker) -> None:
    new = [farm.new_job(name="first", unique_key="mine"), farm.new_job(name="second"), farm.new_job(name="third")]
    new.append(farm.new_job(name="join", after=["first", "second", "third"]))
    first, second, third, join = (one for one in operations.submit_many(new) if isinstance(one, int))
    for job in operations.claim(worker, limit=3):
        farm.fail(worker, job, retryable=False)
    operations.submit("work", {}, unique_key="mine", run_at=farm.now() + timedelta(days=1))
    assert len(operations.flows.retry(flow_of(first), by=None)) == 2
    with pytest.raises(NotUnique):
        operations.flows.retry(flow_of(first), by=None)
    assert run(worker) == [second, third]
    assert farm.status(join) == "canceled"
