"""A bulk retry takes each failed job once, however often it is begun."""

from io import BytesIO
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.files import File
from pytest_django import Settings

from jobs import operations
from jobs.domain.bulks import BulkAction
from jobs.domain.filters import Filters
from jobs.models import Bulk, Job, Worker
from jobs.operations import bulk
from tests import farm
from tests.pages.integration.test_bulk import _do, _to_the_end, worker

pytestmark = pytest.mark.django_db
__all__ = ["worker"]


class TestRetryingTwice:
    @pytest.fixture
    def failed(self, worker: Worker) -> list[int]:
        """Three jobs that failed."""
        jobs = farm.submit(3, max_attempts=1)
        for _ in jobs:
            farm.fail(worker, farm.claim_one(worker), "boom")
        return [job.pk for job in jobs]

    def test_leaves_out_what_was_retried_and_says_how_many(self, boss: User, failed: list[int]) -> None:
        operations.retry(failed[0], by=None)
        created = operations.bulk.create(BulkAction.RETRY, by=boss, filters=Filters(status="failed"))
        assert (created.matched, created.results) == (2, {"retried before, left out": 1})
        done = _to_the_end(operations.bulk.begin(created.pk, by=boss))
        assert done.results == {"retried before, left out": 1, "retried": 2}
        again = operations.bulk.create(BulkAction.RETRY, by=boss, filters=Filters(status="failed"))
        assert (again.matched, again.results) == (0, {"retried before, left out": 3})
        retried = Job.objects.exclude(retry_of=None).order_by("retry_of")
        assert list(retried.values_list("retry_of", flat=True)) == failed

    def test_says_of_any_number_that_are_refused_each_for_a_file_of_its_own_so_many(
        self, boss: User, worker: Worker, monkeypatch: pytest.MonkeyPatch, settings: Settings, tmp_path: Path
    ) -> None:
        """A line for each of a million jobs would be written anew with each batch."""
        settings.MEDIA_ROOT = tmp_path
        monkeypatch.setattr(bulk, "MOST_RESULTS", 3)
        for number in range(6):
            kept = operations.upload("a.txt", File(BytesIO(b"%d" % number)), owner=boss)
            operations.cancel(operations.submit("work", {}, owner=boss, files={"a": kept.pk}).pk, by=boss)
            operations.delete_upload(kept.pk, by=boss)
        done = _do(BulkAction.RETRY, boss)
        assert (done.results.pop("refused for other reasons"), sorted(done.results.values())) == (3, [1, 1, 1])

    def test_of_two_that_were_counted_before_either_began_the_second_does_nothing(
        self, boss: User, failed: list[int]
    ) -> None:
        one, two = (
            operations.bulk.create(BulkAction.RETRY, by=boss, filters=Filters(status="failed")).pk for _ in range(2)
        )
        for bulk_id in (one, two):
            _to_the_end(operations.bulk.begin(bulk_id, by=boss))
        assert Job.objects.exclude(retry_of=None).count() == 3
        assert Bulk.objects.get(pk=two).changed == 0

    def test_is_done_where_the_first_retries_were_canceled_before_they_began(
        self, boss: User, failed: list[int]
    ) -> None:
        done = _do(BulkAction.RETRY, boss, status="failed")
        _to_the_end(operations.bulk.undo(done.pk, by=boss))
        assert _do(BulkAction.RETRY, boss, status="failed").changed == 3
