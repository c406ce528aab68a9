"""`expires_at` bounds the first start alone, and is named where it ends a job."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from jobs import operations
from jobs.errors import NotWaiting
from jobs.models import Job
from jobs.protocol import jobs as wire
from jobs.queries import gauges, lists, reads
from tests import farm

pytestmark = pytest.mark.django_db


def _has_expired(job: Job) -> None:
    farm.alter(job, expires_at=Now() - timedelta(seconds=1))


class TestAJobThatBeganInTime:
    @pytest.mark.parametrize("how", ["released", "failed", "lost"])
    @pytest.mark.parametrize("scope", ["everybody", "its owner"])
    def test_goes_on_after_its_expires_at(self, how: str, scope: str) -> None:
        farm.kind()
        ada = farm.user()
        [job] = farm.submit(1, owner=ada)
        me = farm.worker(owner=None if scope == "everybody" else ada)
        taken = farm.claim_one(me)
        operations.heartbeat(me, taken.id, taken.lease)
        _has_expired(job)
        match how:
            case "released":
                operations.release(me, taken.id, taken.lease)
            case "failed":
                assert farm.fail(me, taken) == "pending"
            case _:
                farm.lose(taken)
        farm.make_due(job)
        assert operations.sweep().expired == 0
        assert operations.next_due_s() is None or operations.next_due_s() > 0  # type: ignore[operator]
        assert [reason.code for reason in reads.why_not_running(job.pk)] == ["next"]
        assert gauges.queue_loads(queue="work")[0].load.waiting == 1
        assert operations.run_now(job.pk, by=None).pk == job.pk
        assert farm.succeed(me, farm.claim_one(me)) == "success"

    def test_is_left_to_a_worker_that_has_not_named_it_yet(self) -> None:
        farm.kind()
        [job] = farm.submit(1)
        taken = farm.claim_one(me := farm.worker())
        _has_expired(job)
        assert operations.sweep().expired == 0
        assert farm.succeed(me, taken) == "success"


class TestAJobThatDidNot:
    def test_says_so_in_its_error(self) -> None:
        farm.kind()
        [job] = farm.submit(1)
        me = farm.worker()
        taken = farm.claim_one(me)
        farm.expire_lease(taken, is_confirmed=False)  # no call named it: that was no start
        _has_expired(job)
        assert operations.sweep().expired == 1
        assert farm.status(job) == "timed_out"
        [shown] = wire.in_full([job.pk])
        assert shown.error is not None
        assert shown.expires_at is not None
        assert shown.error == (f"it had not started before it expired ({shown.expires_at:%Y-%m-%d %H:%M:%S} UTC)")
        listed = lists.dressed(Job.objects.all()).get()
        assert vars(listed)["last_error"] == "it had not started before it expired"

    def test_waits_no_more_though_no_janitor_runs(self) -> None:
        farm.kind()
        [job] = farm.submit(1)
        _has_expired(job)
        load = gauges.queue_loads(queue="work")[0]
        assert (load.load.waiting, load.oldest_wait_s) == (0, 0)
        with pytest.raises(NotWaiting):
            operations.run_now(job.pk, by=None)
        with pytest.raises(NotWaiting):
            operations.change_priority(job.pk, 5, by=None)
