"""Health scores: how each queue, source and worker did on a day, kept by day."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final

from django.db.models.functions import Now

from jobs import operations as jobs
from live import operations as live
from postgres import clock
from scheduling import operations as scheduling
from webhooks.models import HealthScore, Subject
from webhooks.queries import maintenance

KEPT: Final = timedelta(days=400)  # a year, to compare with, and a month


@scheduling.action(timeout=600, idempotent=True)
def score_yesterday() -> int:
    """Score the day (UTC) that is over, and forget what is older than 400 days; how many scores."""
    today = clock.now().astimezone(UTC).date()
    return keep_scores(day=(today - timedelta(days=1)).isoformat())


@scheduling.mutation
def keep_scores(*, day: str) -> int:
    """Score one day, given in ISO 8601; scores of it that are there are replaced. How many."""
    scored = date.fromisoformat(day)
    start = datetime.combine(scored, time.min, UTC)
    span = {"start": start, "stop": start + timedelta(days=1)}
    scores = [_score(scored, Subject.QUEUE, one.key, one) for one in jobs.scores_of_queues(**span)]
    scores += [
        _score(scored, Subject.WORKER, f"{one.name} #{one.key}", one)
        for one in jobs.scores_of_workers(**span)
    ]
    scores += [_score(scored, Subject.SOURCE, row.name, row) for row in maintenance.day_of_sources(**span)]
    maintenance.keep_scores(scores)
    maintenance.forget_scores(before=scored - KEPT)
    live.touch("health-scores")
    return len(scores)


def _score(day: date, subject: Subject, name: str, numbers: Any) -> HealthScore:
    return HealthScore(
        day=day,
        subject=subject,
        name=name,
        ended=numbers.ended,
        succeeded=numbers.succeeded,
        score=numbers.succeeded / numbers.ended if numbers.ended else None,
        latency_p50_s=numbers.latency_p50_s,
        latency_p95_s=numbers.latency_p95_s,
        backlog=numbers.backlog,
        computed_at=Now(),
    )
