"""A payload is never changed, and a result is written once, by the end of its job: also for SQL by hand."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from jobs import operations
from jobs.domain.states import ENDED
from jobs.models import Body, Job
from tests import farm
from tests.looped import looped

pytestmark = pytest.mark.django_db
every_end = pytest.mark.parametrize("end", sorted(ENDED))


def _by_hand(sql: str, *parameters: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # what is looked at when a transaction ends
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")


@contextmanager
def _refused(sentence: str) -> Iterator[None]:
    with pytest.raises(IntegrityError, match=sentence), transaction.atomic():
        yield


class TestAPayload:
    @looped("change", ["payload = '1'", "traceparent = 'x'", "job_id = 0"])
    @looped("state", ["pending", "in_progress", *sorted(ENDED)], rolled_back=True)
    def test_is_what_was_submitted_in_every_state(self, state: str, change: str) -> None:
        farm.kind()
        job = farm.ended(state) if state in ENDED else farm.submit(1)[0]
        if state == "in_progress":
            farm.claim_one(farm.worker())
        before = farm.everything(job)
        with _refused(rf"a payload is never changed \(job {job.pk}\)"):
            _by_hand(f"UPDATE jobs_body SET {change} WHERE job_id = %s", job.pk)
        assert farm.everything(job) == before

    def test_may_be_saved_as_it_is(self) -> None:
        farm.kind()
        [job] = farm.submit(1)
        Body.objects.get(job=job).save()
        assert Body.objects.get(job=job).payload == {"n": 0}


class TestAResult:
    @every_end
    @pytest.mark.parametrize("value", ['"mine"', None], ids=["another", "none"])
    def test_of_an_ended_job_cannot_be_changed_by_hand(self, end: str, value: str | None) -> None:
        farm.kind()
        job = farm.ended(end)
        before = farm.everything(job)
        if value is None and end != "success":
            _by_hand("UPDATE jobs_body SET result = NULL WHERE job_id = %s", job.pk)  # it has none: no change
        else:
            with _refused(rf"a result is written once, by the end of its job \(job {job.pk}\)"):
                _by_hand("UPDATE jobs_body SET result = %s::jsonb WHERE job_id = %s", value, job.pk)
        assert farm.everything(job) == before

    def test_cannot_be_written_a_second_time_while_its_job_runs(self) -> None:
        farm.kind()
        [job] = farm.submit(1)
        _by_hand("UPDATE jobs_body SET result = '1' WHERE job_id = %s", job.pk)
        with _refused("a result is written once"):
            _by_hand("UPDATE jobs_body SET result = '2' WHERE job_id = %s", job.pk)

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
        results = dict(Body.objects.values_list("job_id", "result"))
        failed = farm_of["mixed"][0].id
        assert results == {job.pk: None if job.pk == failed else {"job": job.pk} for job in jobs}


def _finished(claimed: operations.Claimed, *, fails: bool) -> operations.Finished:
    outcome: Any = "failed" if fails else "success"
    return operations.Finished(job_id=claimed.id, lease=claimed.lease, outcome=outcome, result={"job": claimed.id})


def _with_its_job(job: Job) -> None:
    _by_hand(
        "WITH body AS (DELETE FROM jobs_body WHERE job_id = %s) DELETE FROM jobs_job WHERE id = %s", job.pk, job.pk
    )


class TestABody:
    @pytest.mark.parametrize("state", ["pending", "in_progress", *sorted(ENDED)])
    def test_is_not_deleted_while_its_job_is_there(self, state: str) -> None:
        farm.kind()
        job = farm.ended(state) if state in ENDED else farm.submit(1)[0]
        if state == "in_progress":
            farm.claim_one(farm.worker())
        before = farm.everything(job)
        with _refused(rf"payload and result go with their job \(job {job.pk}\)"):
            _by_hand("DELETE FROM jobs_body WHERE job_id = %s", job.pk)
        assert farm.everything(job) == before

    @pytest.mark.parametrize("delete", [Job.delete, _with_its_job], ids=["by the ORM", "in one statement"])
    def test_goes_with_its_job(self, delete: Callable[[Job], object]) -> None:
        farm.kind()
        job = farm.ended("success")
        delete(job)
        _by_hand("SELECT 1")
        assert not Body.objects.exists()
