"""An ended job is never changed again (promise 3), and one that has not run is never deleted (promise 1)."""

import hashlib
import re
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.files import File
from django.core.files.storage import default_storage
from django.db import connection, transaction
from django.db.utils import DatabaseError
from pytest_django import Settings

from jobs import operations
from jobs.domain.states import ENDED, MOVES, Status
from jobs.models import Attempt, Job, Offspring, OutputChunk, ResultFile, Share
from jobs.operations import content, janitor
from scheduling import context
from scheduling.domain.calls import Kind
from scheduling.models import ScheduledFunction
from scheduling.operations import retention
from tests import farm
from tests.looped import looped

pytestmark = pytest.mark.django_db
every_end = pytest.mark.parametrize("end", sorted(ENDED))


def _delete_by_hand(job: Job) -> None:
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM jobs_job WHERE id = %s", [job.pk])


class TestAnEndedJob:
    @every_end
    def test_is_left_alone_by_every_operation(self, end: str) -> None:
        farm.kind()
        job = farm.ended(end)
        before = farm.everything(job)
        farm.worker("next")
        operations.cancel(job.pk, by=None)
        operations.retry(job.pk, by=None)
        operations.sweep()
        farm.retain()
        operations.pause("work")
        operations.resume("work")
        operations.set_ceiling("work", 1)
        operations.claim(farm.worker("another"), limit=10)
        assert farm.everything(job) == before

    @looped("end", sorted(ENDED))
    @looped(
        "change",
        [
            {"status": "pending", "ended_at": None}, {"status": "success", "progress": 0.5},
            {"fence": 99}, {"failures": 2},
            {"ended_at": "2001-01-01T00:00:00Z"}, {"worker_id": 1}, {"worker_name": "me"}, {"kind": "x"},
            {"queue": "x"}, {"priority": 9}, {"run_at": "2001-01-01T00:00:00Z"}, {"unique_key": "x"},
            {"progress": 0.123}, {"detail": "x"}, {"next_seq": 7},
            {"max_attempts": 9},
            {"output_bytes": 7}, {"earlier_output_bytes": 7}, {"requirement_id": 1}, {"token_id": 1},
            {"is_metered": True},
        ],
        rolled_back=True,
    )  # fmt: skip
    def test_cannot_be_changed_by_hand(self, end: str, change: dict[str, Any]) -> None:
        farm.kind()
        job = farm.ended(end)
        before = farm.everything(job)
        sentence = f"an ended job is never changed \\(job {job.pk}\\)"
        with pytest.raises(DatabaseError, match=sentence), transaction.atomic():
            farm.alter(job, **change)
        assert farm.everything(job) == before

    def test_is_guarded_in_every_column_but_those_that_may_change(self) -> None:
        """Also in those of later migrations."""
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_get_functiondef('jobs_keep_record'::regproc)")
            [(function,)] = cursor.fetchall()
        [unguarded, of_content] = re.findall(r"ARRAY\[([^]]*)\]", function)  # which only goes where it is not kept
        assert set(re.findall(r"\w+", of_content)) == {"payload", "inputs"}
        assert set(re.findall(r"\w+", unguarded)) == {"owner_id", "group_id", "retry_of_id", "flow_id"}

    @every_end
    def test_stays_when_its_owner_its_group_and_its_worker_are_deleted(self, end: str) -> None:
        farm.kind()
        club = Group.objects.create(name="club")
        ada = farm.user("ada", groups=[club])
        job = farm.ended(end, owner=ada, group=club)
        history = list(Attempt.objects.values())
        runner = job.worker
        assert runner is not None
        runner.delete()
        ada.delete()
        club.delete()
        job = Job.objects.get(pk=job.pk)
        assert (job.status, job.owner_id, job.group_id, job.worker_name) == (end, None, None, "runner")
        assert list(Attempt.objects.values()) == history

    def test_stays_when_the_user_who_owns_its_worker_is_deleted(self) -> None:
        farm.kind()
        ada = farm.user("ada")
        [job] = farm.submit(1, owner=ada)
        hers = farm.worker("hers", owner=ada)
        farm.fail(hers, farm.claim_one(hers), retryable=False)
        User.objects.get(pk=ada.pk).delete()
        job.refresh_from_db()
        assert (job.status, job.worker_name, job.owner_id) == ("failed", "hers", None)
        assert list(Attempt.objects.values_list("worker_name", "outcome")) == [("hers", "failed")]


class TestALiveJob:
    @pytest.mark.parametrize("state", ["pending", "in_progress"])
    @pytest.mark.parametrize("delete", [Job.delete, _delete_by_hand], ids=["by the ORM", "by hand"])
    def test_cannot_be_deleted(self, state: str, delete: Callable[[Job], object]) -> None:
        farm.kind()
        [job] = farm.submit(1)
        if state == "in_progress":
            farm.claim_one(farm.worker())
        before = farm.everything(job)
        with pytest.raises(DatabaseError, match="a job that has not ended is never deleted"), transaction.atomic():
            delete(job)
        assert farm.everything(job) == before

    def test_of_a_deleted_user_waits_on_and_belongs_to_nobody(self) -> None:
        farm.kind()
        ada = farm.user("ada")
        [job] = farm.submit(1, owner=ada)
        ada.delete()
        assert farm.claim_one(farm.worker()).id == job.pk


class TestTheTableOfMoves:
    """Every operation from every state: what is seen is the table, no move more and none less."""

    def test_is_what_the_operations_do(self) -> None:
        farm.kind("work", max_attempts=2)
        farm.kind("strict", retry_when_lost=False)
        me = farm.worker("me", "work", "strict")
        seen: set[tuple[str | None, str]] = set()
        for kind in ("work", "strict"):
            for reach in _reaching(me, kind).values():
                for act in _acts(me).values():
                    [job] = farm.submit(1, kind)
                    seen.add((None, farm.status(job)))
                    claimed = reach(job)
                    before = farm.status(job)
                    act(job, claimed)
                    if (after := farm.status(job)) != before:
                        seen.add((before, after))
                    _put_away(job)
        assert seen == {(move.source, move.target) for move in MOVES}


Reach = Callable[[Job], operations.ClaimedJob | None]
Act = Callable[[Job, operations.ClaimedJob | None], object]


def _reaching(me: Any, kind: str) -> dict[str, Reach]:
    def claim(job: Job) -> operations.ClaimedJob:
        [claimed] = operations.claim(me, queues=[kind])
        assert claimed.id == job.pk
        return claimed

    def end(how: Callable[[Job, operations.ClaimedJob], object]) -> Reach:
        def reach(job: Job) -> operations.ClaimedJob:
            claimed = claim(job)
            how(job, claimed)
            return claimed

        return reach

    return {
        "pending": lambda _: None,
        "in_progress": claim,
        "success": end(lambda _, c: farm.succeed(me, c)),
        "failed": end(lambda _, c: farm.fail(me, c, retryable=False)),
        "canceled": end(lambda job, _: operations.cancel(job.pk, by=None)),
        "timed out": end(lambda _, c: farm.time_out(c)),
        "waiting again": end(lambda _, c: farm.fail(me, c)),
    }


def _acts(me: Any) -> dict[str, Act]:
    def finish(outcome: Any, *, retryable: bool = True) -> Act:
        def act(_: Job, claimed: operations.ClaimedJob | None) -> object:
            if claimed is None:
                return None
            entry = operations.Finished(job_id=claimed.id, lease=claimed.lease, outcome=outcome, retryable=retryable)
            return operations.finish(me, [entry])

        return act

    def release(_: Job, claimed: operations.ClaimedJob | None) -> object:
        return claimed and _refused_or_done(lambda: operations.release(me, claimed.id, claimed.lease))

    def let_the_lease_run_out(job: Job, _: object) -> object:
        farm.expire_lease(job)
        return operations.sweep()

    def let_the_wait_run_out(job: Job, _: object) -> object:
        farm.alter(Job.objects.living().filter(pk=job.pk), expires_at="2001-01-01T00:00:00Z")
        return operations.sweep()

    return {
        "claim": lambda *_: operations.claim(me, limit=5),
        "success": finish("success"),
        "failure": finish("failed"),
        "final failure": finish("failed", retryable=False),
        "release": release,
        "cancel": lambda job, _: operations.cancel(job.pk, by=None),
        "lease": let_the_lease_run_out,
        "wait": let_the_wait_run_out,
        "retry": lambda job, _: _refused_or_done(lambda: operations.retry(job.pk, by=None)),
        "run now": lambda job, _: _refused_or_done(lambda: operations.run_now(job.pk, by=None)),
        "retain": lambda *_: farm.retain(),
    }


def _refused_or_done(call: Callable[[], object]) -> object:
    from jobs.errors import JobsError

    try:
        return call()
    except JobsError as refusal:
        return refusal


def _put_away(job: Job) -> None:
    """Leave nothing that the next round's worker could take."""
    for pk in Job.objects.living().values_list("pk", flat=True):
        operations.cancel(pk, by=None)
    assert Status(farm.status(job)) in ENDED


class TestRetention:
    @pytest.fixture(autouse=True)
    def _settings(self, settings: Settings, tmp_path: Path) -> None:
        settings.MEDIA_ROOT = tmp_path
        settings.JOBFARM = {**settings.JOBFARM, "RETENTION_DAYS": 30}

    def _full(self) -> Job:
        """An ended job with something in every table, and a file in the storage."""
        ada = User.objects.filter(username="ada").first() or farm.user("ada")
        with context.running(context.Running(id=1, function="f", kind=Kind.MUTATION, attempt=1)):
            given = operations.upload("in.txt", File(BytesIO(b"in")), owner=ada)
            [job] = farm.submit(1, owner=ada, files={"in": given.pk})
        me = farm.worker()
        farm.fail(me, farm.claim_one(me))
        farm.forgive(job)
        claimed = farm.claim_one(me)
        operations.heartbeat(me, job.pk, claimed.lease, detail="doing")
        operations.write_output(me, job.pk, claimed.lease, seq=0, text="out")
        operations.put_file(me, job.pk, claimed.lease, name="a.txt", content=File(BytesIO(b"bytes")))
        operations.checkpoint(me, job.pk, claimed.lease, {"page": 1})
        operations.share(job.pk, by=ada)
        Offspring.objects.create(job=job, function_id=job.pk)
        farm.succeed(me, claimed, "result")
        return job

    def test_forgets_everything_about_what_ended_long_ago_and_nothing_else(self) -> None:
        farm.kind()
        old, young = self._full(), self._full()
        farm.age(old, 30 * 86400 + 60)
        farm.age(young, 30 * 86400 - 60)
        files = {file.job_id: file for file in ResultFile.objects.all()}
        assert files[old.pk].sha256 == hashlib.sha256(b"bytes").hexdigest()
        kept = farm.everything(young)

        assert farm.retain() == 1
        [scheduled] = ScheduledFunction.objects.all()
        assert (scheduled.function, scheduled.args) == (
            "jobs.operations.content.delete_files",
            {"names": [files[old.pk].stored_as]},
        )
        content.delete_files(**scheduled.args)

        assert farm.everything(old) == []
        assert farm.everything(young) == kept
        assert farm.OF_A_JOB.keys() - {table for table, _ in kept} == {"jobs_live", "jobs_uniquekey"}
        stored = [default_storage.exists(files[job.pk].stored_as) for job in (old, young)]
        assert stored == [False, True]

    def test_never_forgets_what_waits_or_runs_however_old(self) -> None:
        farm.kind()
        jobs = farm.submit(2)
        farm.claim_one(farm.worker())
        for job in jobs:
            farm.pass_time(job, 400 * 86400)
        before = [farm.everything(job) for job in jobs]
        assert farm.retain() == 0
        assert [farm.everything(job) for job in jobs] == before

    @pytest.mark.parametrize("end", ["canceled", "timed_out"])
    def test_counts_the_age_of_one_that_never_ran_from_its_end(self, end: str) -> None:
        farm.kind()
        [job] = farm.submit(1)
        farm.pass_time(job, 400 * 86400)
        if end == "canceled":
            operations.cancel(job.pk, by=None)
        else:
            farm.alter(job, expires_at=farm.stored(job).run_at)
            assert operations.sweep().expired == 1
        assert (farm.retain(), farm.status(job)) == (0, end)
        farm.age(job, 31 * 86400)
        assert farm.retain() == 1

    def test_takes_as_many_batches_as_it_needs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(retention._declared, "jobs", (janitor.forget, 3))
        farm.kind()
        for job in farm.submit(7):
            operations.cancel(job.pk, by=None)
            farm.age(job, 31 * 86400)
        assert farm.retain() == 7
        assert not Job.objects.exists()
        assert not ScheduledFunction.objects.exists()

    def test_leaves_the_rest_to_a_next_run_of_itself(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(retention._declared, "jobs", (janitor.forget, 2))
        monkeypatch.setattr(retention, "BATCHES", 2)
        farm.kind()
        for job in farm.submit(5):
            operations.cancel(job.pk, by=None)
            farm.age(job, 31 * 86400)
        assert farm.retain() == 4
        [scheduled] = ScheduledFunction.objects.all()
        assert (scheduled.function, scheduled.args) == ("scheduling.operations.retention.retain", {"names": ["jobs"]})
        assert farm.retain() == 1
        assert ScheduledFunction.objects.count() == 1

    def test_goes_on_when_a_file_is_gone_already(self) -> None:
        farm.kind()
        job = self._full()
        farm.age(job, 31 * 86400)
        default_storage.delete(ResultFile.objects.get(job=job).stored_as)
        assert farm.retain() == 1
        content.delete_files(**ScheduledFunction.objects.get().args)
        assert not OutputChunk.objects.exists()
        assert not Share.objects.exists()

    def test_keeps_a_retry_whose_original_is_forgotten(self) -> None:
        farm.kind()
        old = farm.ended("failed")
        new = operations.retry(old.pk, by=None)
        farm.age(old, 31 * 86400)
        farm.retain()
        assert (farm.status(new), Job.objects.get(pk=new.pk).retry_of_id) == ("pending", old.pk)
