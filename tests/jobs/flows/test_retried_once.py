"""A place of a flow has one job at a time: who is superseded there is not tried again, by nobody and in no way."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connections
from django.test import Client

from accounts import operations as accounts
from jobs import operations
from jobs.domain.bulks import BulkAction
from jobs.domain.filters import Filters
from jobs.errors import AlreadyRetried, JobsError
from jobs.models import Flow, Job, Step, Worker
from jobs.operations import bulk
from jobs.operations.submit import submit_again
from postgres import transactions
from tests import farm
from tests.effort import share

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def worker() -> Worker:
    farm.kind()
    return farm.worker()


def failed_step(worker: Worker, **options: Any) -> tuple[int, int]:
    """A failed job, and the one after it, which was canceled for its sake."""
    first = operations.submit("work", {}, name="first", **options).pk
    second = operations.submit("work", {}, after=[first], **options).pk
    farm.fail(worker, farm.claim_one(worker), retryable=False)
    return first, second


def at_once(*calls: Callable[[], Any]) -> int:
    """Make these calls in a thread each; how many were not refused."""

    def made(call: Callable[[], Any]) -> bool:
        try:
            call()
        except JobsError:
            return False
        finally:
            connections.close_all()
        return True

    with ThreadPoolExecutor(len(calls)) as pool:
        return sum(pool.map(made, calls))


def in_place(job_id: int) -> list[int]:
    """Who has or had the place of this job, the first one first."""
    return [*Step.objects.filter(place_id=job_id).order_by("pk").values_list("pk", flat=True)]


def test_a_failed_job_whose_retry_has_succeeded_is_refused_in_every_way_by_the_number_of_that(worker: Worker) -> None:
    ada = farm.user("ada")
    first, _ = failed_step(worker, owner=ada)
    again = operations.retry(first, by=ada).pk
    farm.succeed(worker, farm.claim_one(worker))
    jobs = Job.objects.count()
    sentence = f"Job {again} retries it already; retry that one, once it has ended."
    page = Client()
    page.force_login(ada)
    assert sentence in page.post(f"/jobs/{first}/retry/", follow=True).content.decode()
    _, token = accounts.create_token(ada, name="t", scopes=["operate"])
    refused = Client().post(f"/api/v1/jobs/{first}/retry", headers={"Authorization": f"Bearer {token}"})
    assert (refused.status_code, refused.json()) == (
        409, {"error": "already_retried", "message": sentence, "job": again},
    )  # fmt: skip
    with pytest.raises(CommandError, match=sentence):
        call_command("jobs", "retry", str(first), stdout=StringIO())
    with pytest.raises(AlreadyRetried, match=sentence):
        operations.flows.retry(Job.objects.get(pk=first).flow_id or 0, by=ada, from_job=first)
    assert operations.flows.retry(Job.objects.get(pk=first).flow_id or 0, by=ada) == []
    assert bulk.create(BulkAction.RETRY, by=ada, filters=Filters(status="failed")).matched == 0
    assert Job.objects.count() == jobs


def test_a_retry_that_nobody_began_is_superseded_by_the_next_one(worker: Worker) -> None:
    first, _ = failed_step(worker)
    unbegun = operations.retry(first, by=None).pk
    operations.cancel(unbegun, by=None)
    again = operations.retry(first, by=None).pk
    farm.succeed(worker, farm.claim_one(worker))
    for superseded in (first, unbegun):
        with pytest.raises(AlreadyRetried, match=f"Job {again} retries it"):
            operations.retry(superseded, by=None)
    assert in_place(first) == [first, unbegun, again]


@pytest.mark.parametrize("turn", range(share(5, of=5)))
def test_of_many_who_retry_jobs_of_one_place_at_once_one_does(worker: Worker, turn: int) -> None:
    first, _ = failed_step(worker)
    unbegun = operations.retry(first, by=None).pk
    operations.cancel(unbegun, by=None)
    flow_id = Job.objects.get(pk=first).flow_id or 0
    calls = [
        lambda: operations.retry(first, by=None),
        lambda: operations.retry(unbegun, by=None),
        lambda: operations.flows.retry(flow_id, by=None, from_job=unbegun),
    ]
    assert at_once(*calls * 2) == 1
    assert len(in_place(first)) == 3


@pytest.mark.parametrize("turn", range(share(5, of=5)))
def test_what_was_canceled_for_its_sake_is_tried_again_once_beside_one_who_tries_that_itself(
    worker: Worker, turn: int
) -> None:
    first, second = failed_step(worker)
    at_once(*[lambda: operations.retry(first, by=None), lambda: operations.retry(second, by=None)] * 3)
    ran = list[int]()
    while jobs := operations.claim(worker, limit=9):
        ran += [Step.objects.get(pk=job.id).place_id for job in jobs]
        for job in jobs:
            farm.succeed(worker, job)
    assert ran in ([first], [first, second]), "once each, and the second not where its own retry was canceled meanwhile"


def test_a_job_whose_flow_becomes_part_of_another_one_meanwhile_is_tried_again_there(worker: Worker) -> None:
    """It was tried again in a flow of its own, with the place that it had in the other."""
    first, second = operations.submit("work", {}, name="a").pk, operations.submit("work", {}, name="b").pk
    for _ in range(2):
        farm.fail(worker, farm.claim_one(worker), retryable=False)
    later, again = farm.meanwhile(
        lambda: operations.submit("work", {}, after=[first, second], when="ended").pk,
        lambda: operations.retry(second, by=None).pk,
    )
    assert {job.flow_id for job in Job.objects.filter(pk__in=[first, second, later, again])} == {Flow.objects.get().pk}


def test_a_job_that_comes_to_a_flow_after_it_was_read_is_tried_again_there(worker: Worker) -> None:
    first = operations.submit("work", {}).pk
    farm.fail(worker, farm.claim_one(worker), retryable=False)
    read = Job.objects.whole().get(pk=first)
    operations.submit("work", {}, after=[first], when="ended")
    assert submit_again(read, by=None).flow_id == Flow.objects.get().pk


def test_a_cancel_of_many_that_is_taken_back_leaves_out_what_was_tried_again_since(worker: Worker) -> None:
    ada = farm.user("ada")
    jobs = [operations.submit("work", {}, owner=ada).pk for _ in range(2)]
    canceling = bulk.begin(bulk.create(BulkAction.CANCEL, by=ada, filters=Filters()).pk, by=ada)
    bulk.step(bulk_id=canceling.pk)
    operations.retry(jobs[0], by=ada)
    undoing = bulk.undo(canceling.pk, by=ada)
    bulk.step(bulk_id=undoing.pk)
    assert sorted(Job.objects.exclude(retry_of=None).values_list("retry_of_id", flat=True)) == jobs


def test_a_retry_of_many_tries_what_was_canceled_for_the_sake_of_one_of_them_once(worker: Worker) -> None:
    ada = farm.user("ada")
    first, second = failed_step(worker, owner=ada)
    retrying = bulk.begin(bulk.create(BulkAction.RETRY, by=ada, filters=Filters()).pk, by=ada)
    bulk.step(bulk_id=retrying.pk)
    retrying.refresh_from_db()
    assert retrying.results == {"retried": 1, "retried before, left out": 1}
    assert [len(in_place(one)) for one in (first, second)] == [2, 2]
    assert len(Job.objects.living()) == 2


def test_a_job_that_somebody_retries_once_a_mutation_has_begun_is_not_retried_by_that_too(worker: Worker) -> None:
    failed = operations.submit("work", {}).pk
    runs: list[Any] = []
    farm.fail(worker, farm.claim_one(worker), retryable=False)

    def mutation() -> None:
        assert Job.objects.filter(pk=failed).exists()  # from here on it has one snapshot
        runs.append(runs or at_once(lambda: operations.retry(failed, by=None, once=True)))
        operations.retry(failed, by=None, once=True)

    with pytest.raises(AlreadyRetried):
        transactions.serializable(mutation)
    assert Job.objects.filter(retry_of=failed).count() == 1
