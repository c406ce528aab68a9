"""Health scores: how each queue and worker, and what other apps add, did on a day, kept by day.

The names of the functions here stand in rows of crons and of functions that wait, so they are not rollup's.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django.db.models.functions import Now

from jobs.models import HealthScore
from jobs.queries import rollups
from live import operations as live
from postgres import clock
from scheduling import operations as scheduling

Measured = Callable[..., Sequence[Any]]
_subjects: dict[str, Measured] = {"queue": rollups.day_of_queues, "worker": rollups.day_of_workers}


def score_also(subject: str, measured: Measured) -> None:
    """Score this too, every day: what an app has beside queues and workers.

    `measured(start=..., stop=...)`, two moments, returns rows of `name` (255 characters at most), `ended`,
    `succeeded`, `latency_p50_s`, `latency_p95_s` (None if nothing ended) and `backlog`. `subject` is 20 characters at
    most; the same one again replaces what was given before.
    """
    _subjects[subject] = measured


@scheduling.action(timeout=600, idempotent=True)
def score_yesterday() -> int:
    """Score the day (UTC) that is over; how many scores. What cannot be
    measured of one subject is in the error that it ends with; the others are scored."""
    today = clock.now().astimezone(UTC).date()
    failures, done = scheduling.Failures(), 0
    for subject in _subjects:
        with failures.aside(subject):
            done += keep_scores(day=(today - timedelta(days=1)).isoformat(), subject=subject)
    failures.raise_any()
    return done


@scheduling.mutation
def keep_scores(*, day: str, subject: str = "") -> int:
    """Score one day, given in ISO 8601, of one subject or of all; scores of it that are there are replaced. How
    many."""
    scored = date.fromisoformat(day)
    start = datetime.combine(scored, time.min, UTC)
    kept = [
        _score(scored, name, row)
        for name in ([subject] if subject else _subjects)
        for row in _subjects[name](start=start, stop=start + timedelta(days=1))
    ]
    rollups.keep_scores(kept)
    live.touch("health-scores")
    return len(kept)


def _score(day: date, subject: str, row: Any) -> HealthScore:
    numbers = ("name", "ended", "succeeded", "latency_p50_s", "latency_p95_s", "backlog")
    return HealthScore(
        day=day,
        subject=subject,
        score=row.succeeded / row.ended if row.ended else None,
        computed_at=Now(),
        **{number: getattr(row, number) for number in numbers},
    )
