"""How queues and workers did in a span of time, for whoever keeps scores."""

from dataclasses import dataclass
from datetime import datetime

from postgres import statements


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """What ended in the span and how; latencies in seconds, None if nothing did; `backlog` is as of now.

    A queue's latency is from when a job might have begun to its end, a worker's is that of its runs. A worker's `key`
    is its id, a queue's its name.
    """

    key: str
    name: str
    ended: int
    succeeded: int
    latency_p50_s: float | None
    latency_p95_s: float | None
    backlog: int


def scores_of_queues(*, start: datetime, stop: datetime) -> list[Score]:
    """One for each queue, by name."""
    rows = statements.load("jobs", "day_of_queues").run({"start": start, "stop": stop})
    return [_score(row, key=row.name) for row in rows]


def scores_of_workers(*, start: datetime, stop: datetime) -> list[Score]:
    """One for each worker that is not revoked or that ended something, by id."""
    rows = statements.load("jobs", "day_of_workers").run({"start": start, "stop": stop})
    return [_score(row, key=str(row.id)) for row in rows]


def _score(row: statements.Row, *, key: str) -> Score:
    numbers = ("ended", "succeeded", "latency_p50_s", "latency_p95_s", "backlog")
    return Score(key=key, name=row.name, **{number: getattr(row, number) for number in numbers})
