"""Undoing a bulk: what happened to its jobs since decides, and the claim number tells where nothing else does."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db.models import F

from jobs import operations
from jobs.domain.bulks import BulkAction
from jobs.models import Bulk, Job, Worker
from tests import farm
from tests.pages.integration.test_bulk import _do, _to_the_end, worker

pytestmark = pytest.mark.django_db
__all__ = ["worker"]


def _stored(column: str) -> dict[int, Any]:
    return {job.pk: getattr(job, column) for job in Job.objects.all()}


class TestUndoing:
    @pytest.mark.parametrize(
        ("action", "value", "column"),
        [
            (BulkAction.PRIORITY, "-5", "priority"),
            (BulkAction.QUEUE, "other", "queue"),
            (BulkAction.RUN_NOW, "", "run_at"),
        ],
    )
    def test_leaves_alone_what_a_worker_had_and_gave_back_meanwhile(
        self, boss: User, worker: Worker, action: BulkAction, value: str, column: str
    ) -> None:
        """It waits as before and is as the deed left it, but it was claimed since: the claim number alone tells."""
        farm.submit(2, run_at=farm.now() + timedelta(hours=5) if action is BulkAction.RUN_NOW else None)
        before = _stored(column)
        made = _do(action, boss, value=value)
        claimed = farm.claim_one(worker)
        operations.release(worker, claimed.id, claimed.lease)
        left = _stored(column)
        assert left[claimed.id] != before[claimed.id]
        undone = _to_the_end(operations.bulk.undo(made.pk, by=boss))
        assert undone.results == {"put back": 1, "did not wait any more, or were changed since": 1}
        assert _stored(column) == before | {claimed.id: left[claimed.id]}

    def test_counts_what_has_ended_meanwhile_as_waiting_no_more(self, boss: User, worker: Worker) -> None:
        """Canceled while it waited: its claim number and its priority are as the deed left them."""
        canceled, _ = farm.submit(2)
        made = _do(BulkAction.PRIORITY, boss, value="-5")
        operations.cancel(canceled.pk, by=None)
        undone = _to_the_end(operations.bulk.undo(made.pk, by=boss))
        assert undone.results == {"put back": 1, "did not wait any more, or were changed since": 1}

    @pytest.mark.parametrize("action", [BulkAction.CANCEL, BulkAction.PRIORITY])
    def test_is_of_ones_own_jobs_alone_for_who_runs_the_farm_no_more(
        self, boss: User, worker: Worker, action: BulkAction
    ) -> None:
        """Where it began as an operator's, it would go on as one's: on jobs of everybody, by a member."""
        farm.submit(2)
        farm.submit(1, owner=boss)
        made = _do(action, boss, value="-5" if action is BulkAction.PRIORITY else "")
        User.objects.filter(pk=boss.pk).update(is_staff=False, is_superuser=False)
        undone = _to_the_end(operations.bulk.undo(made.pk, by=User.objects.get(pk=boss.pk)))
        assert undone.results.pop("are gone, or not yours to change") == 2
        assert (undone.changed, sum(undone.results.values())) == (1, 1)

    def test_is_not_broken_off_since_what_it_undoes_is_old(self, boss: User, worker: Worker) -> None:
        farm.submit(1)
        made = _do(BulkAction.CANCEL, boss)
        undoing = operations.bulk.undo(made.pk, by=boss)
        Bulk.objects.filter(pk=made.pk).update(ended_at=F("ended_at") - timedelta(days=9))
        farm.retain("bulk actions")
        assert _to_the_end(undoing).changed == 1
        farm.retain("bulk actions")
        assert not Bulk.objects.exists()

    def test_leaves_alone_a_new_one_that_a_worker_had_and_gave_back(self, boss: User, worker: Worker) -> None:
        """It waits, but a worker has run a part of it."""
        for _ in farm.submit(2):
            farm.fail(worker, farm.claim_one(worker), retryable=False)
        made = _do(BulkAction.RETRY, boss, status="failed")
        had = farm.claim_one(worker)
        operations.release(worker, had.id, had.lease)
        undone = _to_the_end(operations.bulk.undo(made.pk, by=boss))
        assert undone.results == {"canceled before start": 1, "had been taken by a worker": 1}
        assert farm.status(had) == "pending"
