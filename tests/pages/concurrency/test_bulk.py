"""A deed on many jobs beside workers that claim and finish them, and beside itself."""

from collections import Counter

import pytest
from django.contrib.auth.models import User

from jobs import operations
from jobs.domain.bulks import BulkAction
from jobs.domain.filters import Filters
from jobs.models import Attempt, Job
from tests import farm

pytestmark = pytest.mark.django_db(transaction=True)


class TestCanceling:
    def test_beside_workers_ends_each_job_once_and_counts_truthfully(self, boss: User) -> None:
        farm.kind()
        farm.submit(400)
        workers = [farm.worker(f"w{n}") for n in range(3)]
        bulk = operations.bulk.create(BulkAction.CANCEL, by=boss, filters=Filters())
        operations.bulk.begin(bulk.pk, by=boss)

        def work(n: int) -> int:
            succeeded = 0
            while claimed := operations.claim(workers[n], limit=5):
                succeeded += sum(farm.succeed(workers[n], each) == "success" for each in claimed)
            return succeeded

        def cancel() -> int:
            operations.bulk.step(bulk_id=bulk.pk)
            return 0

        succeeded = sum(farm.at_once(*[lambda n=n: work(n) for n in range(3)], cancel, cancel))
        bulk.refresh_from_db()
        by_status = Counter(farm.statuses())
        assert bulk.phase == "done"
        assert by_status == Counter(success=succeeded, canceled=bulk.changed)
        assert sum(by_status.values()) == 400
        running = bulk.results.get("canceled while running", 0)
        assert Attempt.objects.filter(outcome="canceled").count() == running
        assert bulk.handled == sum(bulk.results.values())


class TestSteps:
    def test_at_the_same_moment_do_each_job_once(self, boss: User) -> None:
        farm.kind()
        farm.submit(120)
        for job in Job.objects.all():
            operations.cancel(job.pk, by=None)
        bulk = operations.bulk.create(BulkAction.RETRY, by=boss, filters=Filters())
        farm.at_once(*[lambda: operations.bulk.begin(bulk.pk, by=boss)] * 3)
        farm.at_once(*[lambda: operations.bulk.step(bulk_id=bulk.pk)] * 4)
        bulk.refresh_from_db()
        assert (bulk.phase, bulk.changed) == ("done", 120)
        again = Job.objects.filter(retry_of__isnull=False)
        assert (again.count(), again.values("retry_of").distinct().count()) == (120, 120)
