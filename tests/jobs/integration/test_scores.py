"""Health scores: how a day went for each queue and worker, and for what other apps have scored."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from jobs import operations
from jobs.models import HealthScore
from jobs.operations import scores
from tests import farm

pytestmark = pytest.mark.django_db
TODAY = datetime.now(UTC).date()


@pytest.fixture
def _subjects_as_before() -> Iterator[None]:
    before = dict(scores._subjects)
    yield
    scores._subjects.clear()
    scores._subjects.update(before)


def _kept(subject: str) -> dict[str, Any]:
    rows = HealthScore.objects.filter(subject=subject)
    return {
        name: tuple(numbers) for name, *numbers in rows.values_list("name", "ended", "succeeded", "score", "backlog")
    }


def test_are_kept_by_day_for_each_queue_and_worker() -> None:
    farm.kind()
    farm.submit(3)
    worker = farm.worker()
    farm.succeed(worker, farm.claim_one(worker))
    farm.fail(worker, farm.claim_one(worker), retryable=False)
    operations.roll_up()
    scores.keep_scores(day=TODAY.isoformat())
    assert _kept("queue")["work"] == (2, 1, 0.5, 1)
    waited = HealthScore.objects.get(subject="queue", name="work")
    assert waited.latency_p95_s is not None
    assert waited.latency_p50_s is not None
    assert 0 < waited.latency_p50_s <= waited.latency_p95_s < 60
    assert _kept("worker") == {f"w1 #{worker.pk}": (2, 1, 0.5, 0)}


def test_of_a_day_are_replaced_and_those_of_long_ago_forgotten() -> None:
    farm.kind()
    for day in (TODAY - timedelta(days=401), TODAY - timedelta(days=399), TODAY):
        HealthScore.objects.create(day=day, subject="queue", name="work", ended=9, succeeded=9, score=1, backlog=9)
    scores.keep_scores(day=TODAY.isoformat())
    farm.retain()
    kept = HealthScore.objects.filter(name="work").order_by("day").values_list("day", "ended")
    assert list(kept) == [(TODAY - timedelta(days=399), 9), (TODAY, 0)]


@pytest.mark.usefixtures("_subjects_as_before")
def test_are_kept_of_what_another_app_has_scored() -> None:
    def measured(*, start: datetime, stop: datetime) -> list[Any]:
        assert (start.date(), stop - start) == (TODAY, timedelta(days=1))
        return [SimpleNamespace(name="the only one", ended=4, succeeded=3, latency_p50_s=1.5, latency_p95_s=2.5,
                                backlog=6)]  # fmt: skip

    operations.score_also("oven", measured)
    scores.keep_scores(day=TODAY.isoformat())
    assert _kept("oven") == {"the only one": (4, 3, 0.75, 6)}
