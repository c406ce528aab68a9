"""A bulk action over jobs of which one cannot be read, or changed, does the others, says what failed, and ends."""

import logging

import pytest
from django.contrib.auth.models import User

from jobs import operations
from jobs.domain.bulks import BulkAction, Phase
from jobs.domain.filters import Filters
from jobs.models import Bulk, Job
from jobs.operations import bulk as bulks
from scheduling import operations as scheduling
from scheduling.models import ScheduledFunction
from tests import farm
from tests.jobs.integration.test_unreadable import _poison

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def ada() -> User:
    farm.kind()
    return User.objects.create_user("ada")


def _done(action: BulkAction, by: User) -> Bulk:
    bulk = bulks.create(action, by=by, filters=Filters())
    bulks.begin(bulk.pk, by=by)
    scheduling.run_due()
    bulk.refresh_from_db()
    return bulk


def test_a_retry_leaves_out_the_job_whose_payload_cannot_be_read(ada: User, caplog: pytest.LogCaptureFixture) -> None:
    jobs = [operations.submit("work", {}, owner=ada) for _ in range(3)]
    for job in jobs:
        operations.cancel(job.pk, by=None)
    _poison(jobs[1].pk)
    with caplog.at_level(logging.ERROR):
        bulk = _done(BulkAction.RETRY, ada)
    assert (bulk.phase, bulk.changed, bulk.handled) == (Phase.DONE, 2, 3)
    assert bulk.results == {"retried": 2, "failed, see the log": 1}
    assert set(Job.objects.exclude(retry_of=None).values_list("retry_of", flat=True)) == {jobs[0].pk, jobs[2].pk}
    assert f"{jobs[1].pk} failed, and is left out" in caplog.text


def test_a_filter_that_this_version_does_not_know_is_not_left_out_which_would_mean_more_jobs(ada: User) -> None:
    job = operations.submit("work", {}, owner=ada)
    bulk = bulks.create(BulkAction.CANCEL, by=ada, filters=Filters())
    bulks.begin(bulk.pk, by=ada)
    Bulk.objects.update(filters={"of_a_later_version": "x"})
    scheduling.run_due()
    assert (Job.objects.get().status, ScheduledFunction.objects.earliest("pk").status) == ("pending", "failed")
    Bulk.objects.update(filters={"ids": str(job.pk)})
    bulks.step(bulk_id=bulk.pk)
    assert (Job.objects.get().status, Bulk.objects.get().phase) == ("canceled", Phase.DONE)
