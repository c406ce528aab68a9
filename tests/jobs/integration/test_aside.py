"""Retention, roll-ups and scores: what fails of them is put aside with its reason, and the rest is done."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection

from jobs import operations
from jobs.models import HealthScore, Job
from jobs.operations import janitor, rollup, scores
from scheduling import operations as scheduling
from scheduling.errors import SomeFailed
from scheduling.operations import retention
from tests import farm

pytestmark = pytest.mark.django_db(transaction=True)


def refused(*_: Any, **__: Any) -> Any:
    raise OverflowError("no")


def _noted(done: list[str], part: str, *_: Any) -> int:
    done.append(part)
    return 0


def ended_long_ago(count: int) -> list[Job]:
    farm.kind()
    jobs = farm.submit(count)
    for job in jobs:
        operations.cancel(job.pk, by=None)
        farm.age(job, 400 * 86400)
    return jobs


@contextmanager
def named_by_another_app(jobs: Sequence[Job]) -> Iterator[None]:
    """A table that is not the farm's refers to these in the block, so that they cannot be deleted."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE of_another_app (it bigint REFERENCES jobs_job DEFERRABLE INITIALLY DEFERRED)")
        cursor.execute("INSERT INTO of_another_app SELECT unnest(%s::bigint[])", [[job.pk for job in jobs]])
        try:
            yield
        finally:
            cursor.execute("DROP TABLE of_another_app")


def test_a_job_that_another_table_names_stays_and_the_others_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(retention._declared, "jobs", (janitor.forget, 4))
    jobs = ended_long_ago(9)
    with named_by_another_app([jobs[2], jobs[5]]):
        with pytest.raises(SomeFailed, match=rf"jobs, 1: IntegrityError: .*\({jobs[2].pk}\) is still referenced"):
            farm.retain()
        assert set(Job.objects.values_list("pk", flat=True)) == {jobs[2].pk, jobs[5].pk}


def test_more_jobs_that_stay_than_a_run_has_batches_keep_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(retention._declared, "jobs", (janitor.forget, 4))
    monkeypatch.setattr(retention, "BATCHES", 5)
    jobs = ended_long_ago(9)
    with named_by_another_app(jobs[:7]):
        with pytest.raises(SomeFailed):
            farm.retain()
        while scheduling.run_due():
            pass
        assert set(Job.objects.values_list("pk", flat=True)) == {job.pk for job in jobs[:7]}


def test_one_that_stays_keeps_the_rest_from_no_further_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a million jobs a day are to go: a run is bounded, and the next one begins at once."""
    monkeypatch.setitem(retention._declared, "jobs", (janitor.forget, 2))
    monkeypatch.setattr(retention, "BATCHES", 5)
    jobs = ended_long_ago(12)
    with named_by_another_app(jobs[:1]):
        with pytest.raises(SomeFailed):
            farm.retain()
        assert Job.objects.count() > 2
        while scheduling.run_due():
            pass
        assert Job.objects.get().pk == jobs[0].pk


def test_a_subject_that_cannot_be_measured_keeps_no_other_from_its_score(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scores, "_subjects", {"broken": refused, "queue": scores._subjects["queue"]})
    farm.kind()
    farm.submit(1)
    with pytest.raises(SomeFailed, match="broken: OverflowError: no"):
        scores.score_yesterday()
    assert set(HealthScore.objects.values_list("subject", flat=True)) == {"queue"}


def test_usage_is_folded_where_waiting_jobs_cannot_be_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    folded: list[int] = []
    rollup.recount_usage()
    monkeypatch.setattr(rollup, "_count_waiting", refused)
    monkeypatch.setattr(rollup, "_fold", lambda: folded.append(1))
    monkeypatch.setattr(rollup._Counting, "not_before_s", 0.0)
    with pytest.raises(SomeFailed, match="waiting jobs: OverflowError: no"):
        rollup.measure_usage()
    assert folded == [1]
