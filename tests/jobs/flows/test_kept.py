"""What a flow counts for, and how long it stays: quotas, retention, and people who are deleted half-way."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from jobs import operations
from jobs.errors import QuotaReached
from jobs.models import Checkpoint, Edge, Flow, FlowTemplate, Job, Signal, Step, Suspension, Worker
from scheduling.operations import retention
from tests import farm
from tests.jobs.flows.test_children import child_of, parent_of

pytestmark = pytest.mark.django_db(transaction=True)
OF_FLOWS = (Job, Flow, Step, Edge, Suspension, Signal, Checkpoint)
LONG_AGO_S = 400 * 86400


@pytest.fixture
def worker() -> Worker:
    farm.kind()
    return farm.worker()


@pytest.fixture
def ada() -> User:
    return farm.user("ada")


def chain(length: int, **options: Any) -> list[Any]:
    """Submit so many jobs one after another."""
    return operations.submit_many(
        [farm.new_job(name=f"{n}", after=[f"{n - 1}"] if n else None, **options) for n in range(length)]
    )


def suspend_for_a_signal(worker: Worker, job: operations.ClaimedJob) -> None:
    wait = operations.Wait(signal="approved")
    operations.finish(worker, [operations.Finished(job_id=job.id, lease=job.lease, outcome="suspended", wait=wait)])


class TestQuotas:
    @pytest.fixture(autouse=True)
    def three(self, settings: Settings) -> None:
        settings.JOBFARM = {**settings.JOBFARM, "WAITING_JOBS_PER_OWNER": 3}

    def test_count_all_that_wait_in_a_flow_and_store_it_whole_or_not_at_all(self, worker: Worker, ada: User) -> None:
        with pytest.raises(QuotaReached, match="3 allowed, 0 used, 4 more"):
            chain(4, owner=ada)
        assert not Flow.objects.exists()
        first, *_ = chain(3, owner=ada)
        with pytest.raises(QuotaReached, match="3 allowed, 3 used, 1 more"):
            operations.submit("work", {}, owner=ada, after=[first])

    def test_count_the_jobs_of_a_template_and_those_that_a_job_submits(self, worker: Worker, ada: User) -> None:
        steps = [{"name": f"{n}", "kind": "work", "payload": n} for n in range(4)]
        FlowTemplate.objects.create(name="four", jobs=steps)
        with pytest.raises(QuotaReached, match="4 more"):
            operations.submit_flow("four", owner=ada, by=ada)
        parent = parent_of(worker, owner=ada)
        for position in range(3):
            child_of(worker, parent, position)
        with pytest.raises(QuotaReached, match="3 used"):
            child_of(worker, parent, 3)

    def test_count_what_a_retry_brings_back_with_it(self, worker: Worker, ada: User) -> None:
        first, *_ = chain(3, owner=ada)
        farm.fail(worker, farm.claim_one(worker), retryable=False)
        alone = operations.submit("work", {}, owner=ada).pk
        with pytest.raises(QuotaReached, match="1 used, 3 more"):
            operations.retry(first, by=ada)
        assert Job.objects.living().count() == 1
        operations.cancel(alone, by=ada)
        operations.retry(first, by=ada)
        assert Job.objects.living().count() == 3


class TestAFlowWhoseOwnerIsDeleted:
    def test_goes_on_by_who_runs_the_farm_and_leaves_no_row_in_the_end(self, worker: Worker, ada: User) -> None:
        parent = parent_of(worker, owner=ada)
        child = child_of(worker, parent, 0)
        later = operations.submit("work", {}, owner=ada, by=ada, after=[parent.id]).pk
        operations.checkpoint(worker, parent.id, parent.lease, "half", children=1)
        suspend_for_a_signal(worker, parent)
        ada.delete()
        farm.succeed(worker, farm.claim_one(worker))
        root, page = farm.user("root", is_staff=True, is_superuser=True), Client()
        page.force_login(root)
        flow = f"/flows/{Job.objects.get(pk=parent.id).flow_id}/"
        assert page.get(flow).status_code == 200
        operations.signal(parent.id, "approved", by=root)
        again = farm.claim_one(worker)
        assert (again.id, again.checkpoint) == (parent.id, "half")
        farm.succeed(worker, again)
        farm.succeed(worker, farm.claim_one(worker))
        assert farm.statuses([parent.id, child, later]) == ["success"] * 3
        farm.age(Job.objects.ended(), LONG_AGO_S)
        assert farm.retain() == 3
        assert [model.objects.count() for model in OF_FLOWS] == [0] * len(OF_FLOWS)
        assert page.get(flow).status_code == 404


class TestRetention:
    def test_keeps_what_ended_beside_a_job_that_is_suspended_and_its_earlier_tries(self, worker: Worker) -> None:
        parent = parent_of(worker)
        child = child_of(worker, parent, 0)
        farm.fail(worker, farm.claim_one(worker), retryable=False)
        again = operations.retry(child, by=None).pk
        farm.succeed(worker, farm.claim_one(worker))
        suspend_for_a_signal(worker, parent)
        farm.age(Job.objects.ended(), LONG_AGO_S)
        assert farm.retain() == 0
        operations.cancel(parent.id, by=None)
        assert farm.retain() == 2, "the parent ended just now"
        assert not Job.objects.filter(pk__in=[child, again]).exists()
        farm.age(Job.objects.ended(), LONG_AGO_S)
        assert farm.retain() == 1
        assert [model.objects.count() for model in OF_FLOWS] == [0] * len(OF_FLOWS)

    def test_keeps_a_signal_for_thirty_days_and_one_that_was_taken_as_long_as_its_job(self, worker: Worker) -> None:
        job = parent_of(worker)
        for name in ("approved", "early", "new"):
            operations.signal(job.id, name, by=None)
        operations.signal_by_key("order-7", "paid", by=None)
        operations.signal_by_key("order-8", "paid", by=None)
        suspend_for_a_signal(worker, job)
        old = Signal.objects.exclude(name="new").exclude(signal_key="order-8")
        old.update(created_at=farm.now() - timedelta(days=31))
        Signal.objects.filter(name="new").update(created_at=farm.now() - timedelta(days=29))
        retention.retain(names=["signals that no job waited for", "signals by a key"])
        left = Signal.objects.order_by("pk").values_list("name", "signal_key")
        assert [*left] == [("approved", ""), ("new", ""), ("paid", "order-8")]
