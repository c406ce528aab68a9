"""The crons of jobs and of limits: what they do, when a cluster runs them."""

import importlib
import os
from datetime import timedelta
from io import BytesIO
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.files import File
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db.models import F
from django.db.models.functions import Now
from pytest_django import Settings

import jobs.crons
import metering.crons
import ratelimits.crons
from jobs import operations
from jobs.domain.bulks import BulkAction
from jobs.domain.filters import Filters
from jobs.models import Bulk, IdempotencyKey, Job, ResultFile
from jobs.operations import content
from jobs.queries.submits import DELETED_AFTER_S
from postgres import clock
from ratelimits import operations as limits
from ratelimits.models import Bucket
from scheduling import crons as scheduling_crons, operations as scheduling
from scheduling.models import Cron, Due, ScheduledFunction
from scheduling.operations import crons
from tests import farm

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _crons(monkeypatch: pytest.MonkeyPatch, settings: Settings, tmp_path: Path) -> None:
    """The crons of these apps, as a farm has them; in other tests there are none."""
    settings.MEDIA_ROOT = tmp_path
    monkeypatch.setattr(crons, "_declared", {})
    monkeypatch.setattr(crons, "_hastened_until", {})
    for module in (scheduling_crons, jobs.crons, metering.crons, ratelimits.crons):
        importlib.reload(module)
    Cron.objects.all().delete()
    scheduling.sync_crons()


def fire(name: str) -> ScheduledFunction:
    """Run one cron, with what it schedules, as clusters would; how the firing ended."""
    row = scheduling.run_now(name)
    while scheduling.run_due():
        pass
    row.refresh_from_db()
    return row


def old_job_with_a_file() -> ResultFile:
    farm.kind()
    [job] = farm.submit(1)
    me = farm.worker()
    claimed = farm.claim_one(me)
    operations.put_file(me, job.pk, claimed.lease, name="a.txt", content=File(BytesIO(b"bytes")))
    farm.succeed(me, claimed, "done")
    farm.age(job, 31 * 86400)
    return ResultFile.objects.get(job=job)


def wait_too_long(job: Job) -> None:
    farm.alter(job, expires_at=job.created_at - timedelta(seconds=1), run_at=job.created_at - timedelta(seconds=2))


class TestTheCrons:
    def test_are_these(self) -> None:
        found = dict(Cron.objects.values_list("name", "schedule"))
        assert found["expire waiting jobs"] == "every 300 s"
        assert found["retention"] == "every 900 s"

    def test_forget_old_jobs_and_their_files(self) -> None:
        file = old_job_with_a_file()
        assert default_storage.exists(file.stored_as)
        fired = fire("retention")
        assert (fired.status, fired.result) == ("success", {"jobs": 1})
        assert not Job.objects.exists()
        assert not default_storage.exists(file.stored_as)

    def test_delete_files_that_no_job_knows_but_none_that_may_be_on_its_way(self) -> None:
        kept = old_job_with_a_file().stored_as
        lost, young = (default_storage.save(f"jobs/{name}.png", ContentFile(b"x")) for name in ("lost", "young"))
        for name in (kept, lost):
            os.utime(default_storage.path(name), (two_hours_ago := farm.now().timestamp() - 7200, two_hours_ago))
        assert (fired := fire("files that no job knows")).result == 1, fired.error
        assert [default_storage.exists(name) for name in (kept, lost, young)] == [True, False, True]

    def test_let_bulk_actions_go_on_whose_steps_failed(self) -> None:
        farm.kind()
        jobs = farm.submit(2)
        boss = User.objects.create_superuser("boss")
        bulk = operations.bulk.create(BulkAction.CANCEL, by=boss, filters=Filters())
        operations.bulk.begin(bulk.pk, by=boss)
        Bulk.objects.update(created_at=F("created_at") - timedelta(minutes=2))
        Due.objects.all().delete()
        ScheduledFunction.objects.update(status="failed", error="x", ended_at=Now())
        assert (fired := fire("mend bulk actions")).result == 1, fired.error
        assert [farm.status(job) for job in jobs] == ["canceled"] * 2

    def test_delete_so_many_files_by_one_function(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(content, "FILES_AT_ONCE", 2)
        farm.kind()
        me = farm.worker()
        for job in farm.submit(3):
            claimed = farm.claim_one(me)
            operations.put_file(me, job.pk, claimed.lease, name="a.txt", content=File(BytesIO(b"bytes")))
            farm.succeed(me, claimed)
            farm.age(job, 31 * 86400)
        farm.retain()
        deletions = ScheduledFunction.objects.filter(function="jobs.operations.content.delete_files")
        assert sorted(len(one.args["names"]) for one in deletions) == [1, 2]

    def test_forget_idempotency_keys_that_are_no_longer_kept(self) -> None:
        ada = farm.user("ada")
        farm.kind()
        for age_s in (0, DELETED_AFTER_S - 60, DELETED_AFTER_S + 1):
            operations.once(
                operations.repeatable(ada, f"{age_s}", None), count=lambda: None, submit=lambda: [farm.submit(1)[0].pk]
            )
            IdempotencyKey.objects.filter(key=f"{age_s}").update(created_at=F("created_at") - timedelta(seconds=age_s))
        fired = fire("retention")
        assert (fired.status, fired.result) == ("success", {"idempotency keys": 1})
        assert IdempotencyKey.objects.count() == 2
        assert Job.objects.count() == 3

    def test_try_again_to_delete_what_the_storage_will_not_give_up(self, tmp_path: Path) -> None:
        file = old_job_with_a_file()
        stubborn = tmp_path / file.stored_as
        stubborn.unlink()
        (stubborn / "within").mkdir(parents=True)  # a folder that is not empty cannot be deleted
        fire("retention")
        tries = ScheduledFunction.objects.filter(function="jobs.operations.content.delete_files")
        assert list(tries.order_by("attempt").values_list("attempt", "status")) == [(1, "failed"), (2, "pending")]
        (stubborn / "within").rmdir()
        content.delete_files(names=[file.stored_as])
        assert not stubborn.exists()

    def test_expire_waiting_jobs(self) -> None:
        farm.kind(expires_s=60)
        late, early = farm.submit(2)
        wait_too_long(late)
        fired = fire("expire waiting jobs")
        assert (fired.status, fired.result) == ("success", 1)
        assert [farm.status(job) for job in (late, early)] == ["timed_out", "pending"]

    def test_count_usage_within_a_minute_after_jobs_were_counted(self) -> None:
        farm.kind()
        farm.submit(1)
        rests_until = clock.now() + timedelta(minutes=15)
        Cron.objects.filter(name="count usage").update(next_at=rests_until)
        farm.until(lambda: fire("count jobs for the charts").result, what="that there is something to count")
        next_at = Cron.objects.get(name="count usage").next_at
        assert next_at is not None
        assert next_at <= clock.now() + timedelta(minutes=1)

    def test_prune_limits(self) -> None:
        quick = limits.TokenBucket(rate=1000, period=timedelta(seconds=1))
        slow = limits.TokenBucket(rate=1, period=timedelta(days=1))
        limits.limit("quick", config=quick)
        limits.limit("slow", config=slow)
        farm.until(lambda: limits.check("quick", count=1000, config=quick).ok, what="the bucket is full")
        fired = fire("retention")
        assert (fired.status, fired.result) == ("success", {"limits that are full": 1})
        assert list(Bucket.objects.values_list("name", flat=True)) == ["slow"]


class TestWithoutACluster:
    def test_a_job_that_waited_too_long_is_never_claimed(self) -> None:
        """Nobody has expired it yet: the claim looks by itself (docs/adr/0016)."""
        farm.kind(expires_s=60)
        ada = farm.user("ada")
        early, late, soon = farm.submit(3, owner=ada)
        wait_too_long(late)
        everybodys, adas = farm.worker("everybody's"), farm.worker("ada's", owner=ada)
        assert [claim.id for claim in operations.claim(everybodys, limit=1)] == [early.pk]
        assert [claim.id for claim in operations.claim(adas, limit=10)] == [soon.pk]
        assert operations.claim(everybodys, limit=10) == []
        assert farm.status(late) == "pending"
        assert operations.sweep().expired == 1
