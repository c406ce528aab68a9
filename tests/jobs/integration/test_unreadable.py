"""A job whose payload or result somebody wrote by hand so that Python cannot read it is its own fault alone."""

import pytest
from django.db import connection

from jobs import operations
from jobs.models import Attempt, Live, Outcome
from tests import farm

pytestmark = pytest.mark.django_db
LONG = "1" * 5000


def _poison(job_id: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE jobs_job DISABLE TRIGGER USER")
        cursor.execute("UPDATE jobs_job SET payload = %s WHERE id = %s", [LONG, job_id])
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("ALTER TABLE jobs_job ENABLE TRIGGER USER")


def test_fails_at_its_claim_with_the_reason_and_those_behind_it_are_claimed() -> None:
    farm.kind()
    poisoned, *others = farm.submit(3)
    _poison(poisoned.pk)
    claimed = operations.claim(farm.worker(), limit=3)
    assert [job.id for job in claimed] == [job.pk for job in others]
    assert farm.status(poisoned) == "failed"
    assert "Its payload cannot be read: Exceeds the limit (4300 digits)" in Attempt.objects.get(job=poisoned).error


def test_with_a_timeout_that_no_clock_has_is_claimed_with_those_behind_it() -> None:
    farm.kind()
    for seconds in ("Infinity", "NaN", "-1e300"):
        jobs = farm.submit(2)
        with connection.cursor() as cursor:
            cursor.execute("UPDATE jobs_live SET timeout_s = %s WHERE job_id = %s", [seconds, jobs[0].pk])
        assert [job.id for job in operations.claim(farm.worker(), limit=3)] == [job.pk for job in jobs], seconds
        assert Live.objects.get(pk=jobs[0].pk).deadline_at is None, seconds


@pytest.mark.parametrize("is_overdue", [False, True])
def test_whose_record_is_gone_fails_and_those_behind_it_go_on(is_overdue: bool) -> None:
    farm.kind()
    me = farm.worker()
    gone, *others = farm.submit(3)
    if is_overdue:
        for claimed in operations.claim(me, limit=3):
            farm.expire_lease(claimed)
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE jobs_job DISABLE TRIGGER USER")
        cursor.execute("DELETE FROM jobs_job WHERE id = %s", [gone.pk])
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("ALTER TABLE jobs_job ENABLE TRIGGER USER")
    if is_overdue:
        assert operations.sweep().taken_back == 3
    else:
        assert [job.id for job in operations.claim(me, limit=3)] == [job.pk for job in others]
        assert "Its record is gone" in Attempt.objects.get(job=gone.pk).error
    assert Outcome.objects.get().job_id == gone.pk
    assert set(Live.objects.values_list("pk", flat=True)) == {job.pk for job in others}


def test_keeps_no_other_from_being_resynced(caplog: pytest.LogCaptureFixture) -> None:
    farm.kind()
    jobs = farm.submit(3)
    _poison(jobs[1].pk)
    assert operations.resync([job.pk for job in jobs]) == [job.pk for job in jobs]
    assert f"the job {jobs[1].pk} cannot be read" in caplog.text
