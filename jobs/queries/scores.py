"""Statements of the health scores."""

from collections.abc import Sequence
from datetime import datetime

from jobs.models import HealthScore
from postgres import statements


def day_of_queues(*, start: datetime, stop: datetime) -> list[statements.Row]:
    """How each queue did; rows of `name ended succeeded latency_p50_s latency_p95_s backlog`."""
    return statements.load("jobs", "day_of_queues").run({"start": start, "stop": stop})


def day_of_workers(*, start: datetime, stop: datetime) -> list[statements.Row]:
    """The same of each worker that is not revoked or that ended something."""
    return statements.load("jobs", "day_of_workers").run({"start": start, "stop": stop})


def keep(scores: Sequence[HealthScore]) -> None:
    """Store scores; those of a day that were kept before are replaced."""
    numbers = ["ended", "succeeded", "score", "latency_p50_s", "latency_p95_s", "backlog", "computed_at"]
    HealthScore.objects.bulk_create(
        scores, update_conflicts=True, unique_fields=["day", "subject", "name"], update_fields=numbers
    )
