"""A payload is never changed, and an outcome is written once, by the end of its job: also for SQL by hand."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from jobs import operations
from jobs.domain.states import ENDED
from jobs.models import Job, Live, Outcome
from tests import farm
from tests.looped import looped

pytestmark = pytest.mark.django_db


def _by_hand(sql: str, *parameters: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # what is looked at when a transaction ends
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")


@contextmanager
def _refused(sentence: str) -> Iterator[None]:
    with pytest.raises(IntegrityError, match=sentence), transaction.atomic():
        yield


def _in_state(state: str) -> Job:
    farm.kind()
    job = farm.ended(state) if state in ENDED else farm.submit(1)[0]
    if state == "in_progress":
        farm.claim_one(farm.worker())
    return job


class TestAPayload:
    @looped("change", ["payload = '1'", "traceparent = 'x'", "id = 0"])
    @looped("state", ["pending", "in_progress", *sorted(ENDED)], rolled_back=True)
    def test_is_what_was_submitted_in_every_state(self, state: str, change: str) -> None:
        job = _in_state(state)
        before = farm.everything(job)
        with _refused(rf"(a payload|an ended job) is never changed \(job {job.pk}\)"):
            _by_hand(f"UPDATE jobs_job SET {change} WHERE id = %s", job.pk)
        assert farm.everything(job) == before

    def test_may_be_saved_as_it_is(self) -> None:
        job = _in_state("pending")
        Job.objects.get(pk=job.pk).save()
        assert Job.objects.get(pk=job.pk).payload == {"n": 0}


class TestAnOutcome:
    @looped("end", sorted(ENDED), rolled_back=True)
    def test_is_never_changed(self, end: str) -> None:
        job = _in_state(end)
        before = farm.everything(job)
        for change in ("result = '\"mine\"'", "status = 'success', result = NULL", "ended_at = now()"):
            with _refused(rf"an ended job is never changed \(job {job.pk}\)"):
                _by_hand(f"UPDATE jobs_outcome SET {change} WHERE job_id = %s", job.pk)
        assert farm.everything(job) == before

    def test_is_written_once(self) -> None:
        job = _in_state("success")
        with _refused("jobs_outcome_pkey"):
            Outcome.objects.create(job=job, kind="work", queue="work", status="failed")

    @pytest.mark.parametrize("count", [1, 3])
    def test_comes_with_the_statement_that_ends_its_job(self, count: int) -> None:
        """Also beside failures, which another statement settles."""
        farm.kind()
        jobs = farm.submit(2 * count)
        me = farm.worker()
        held = operations.claim(me, limit=2 * count)
        farm_of = {"success": held[:count], "mixed": held[count:]}
        for claimed in farm_of["success"]:
            farm.succeed(me, claimed, {"job": claimed.id})
        mixed = [_finished(claimed, fails=n == 0) for n, claimed in enumerate(farm_of["mixed"])]
        operations.finish(me, mixed)
        results = dict(Outcome.objects.values_list("job_id", "result"))
        failed = farm_of["mixed"][0].id
        assert results == {job.pk: {"job": job.pk} for job in jobs if job.pk != failed}
        assert farm.status(failed) == "pending"

    @looped("end", sorted(ENDED), rolled_back=True)
    def test_is_not_deleted_while_its_record_is_there(self, end: str) -> None:
        job = _in_state(end)
        before = farm.everything(job)
        with _refused(rf"an outcome goes with its job \(job {job.pk}\)"):
            _by_hand("DELETE FROM jobs_outcome WHERE job_id = %s", job.pk)
        assert farm.everything(job) == before

    @pytest.mark.parametrize("delete", [Job.delete, lambda job: _by_hand("DELETE FROM jobs_job WHERE id = %s", job.pk)])
    def test_goes_with_its_record(self, delete: Callable[[Job], object]) -> None:
        delete(_in_state("success"))
        _by_hand("SELECT 1")
        assert not Outcome.objects.exists()


class TestALiveRow:
    @pytest.mark.parametrize("state", ["pending", "in_progress"])
    def test_is_not_deleted_before_its_job_ends(self, state: str) -> None:
        job = _in_state(state)
        before = farm.everything(job)
        for statement in ("DELETE FROM jobs_live WHERE job_id = %s", "DELETE FROM jobs_job WHERE id = %s"):
            with _refused(rf"a job that has not ended is never deleted \(job {job.pk}\)"):
                _by_hand(statement, job.pk)
        assert farm.everything(job) == before

    def test_follows_its_record(self) -> None:
        job = _in_state("pending")
        ada = farm.user()
        Job.objects.filter(pk=job.pk).update(queue="other", priority=7, owner=ada, timeout_s=5)
        live = Live.objects.select_related("lane").get(pk=job.pk)
        assert (live.queue, live.owner_id, live.timeout_s) == ("other", ada.pk, 5)
        assert (live.lane.queue, live.lane.priority) == ("other", 7)


def _finished(claimed: operations.ClaimedJob, *, fails: bool) -> operations.Finished:
    outcome: Any = "failed" if fails else "success"
    return operations.Finished(job_id=claimed.id, lease=claimed.lease, outcome=outcome, result={"job": claimed.id})
