"""Why a job is not running: facts in, sentences out."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from jobs.domain.states import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What one look at the database says about a job. `ahead` was counted up to `ahead_limit`; times in seconds.

    `limit` is what its kind's limit is called; it waits for that for `limit_in_s` more, until `limit_until`.
    """

    status: Status
    queue: str
    run_at: datetime
    due_in_s: float
    shy_until: datetime | None
    paused: bool
    ceiling: int | None
    running: tuple[int, ...]
    workers: int
    shy_workers: int
    ahead: int
    ahead_limit: int
    limit: str | None = None
    limit_until: datetime | None = None
    limit_in_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One answer: a code for machines, a sentence for people, and the numbers in it."""

    code: str
    sentence: str
    numbers: dict[str, Any] = field(default_factory=dict)


def explain(facts: Facts) -> list[Reason]:
    """Every reason why this job is not running, the one that matters most first. Never empty."""
    if facts.status is not Status.PENDING:
        return [
            Reason(code="not_waiting", sentence=f"It does not wait: it is {facts.status.replace('_', ' ')}.")
        ]
    found = [*_limit(facts), *_due(facts), *_queue(facts), *_workers(facts), *_ahead(facts)]
    return found or [Reason(code="next", sentence="It is next: the first free worker takes it.")]


def _limit(facts: Facts) -> list[Reason]:
    if facts.limit_until is None or facts.limit_in_s <= 0:
        return []
    until = facts.limit_until.astimezone(UTC)
    sentence = (
        f"It waits for its limit {facts.limit} until {until:%Y-%m-%d %H:%M:%S} UTC: "
        f"in {duration(facts.limit_in_s)}."
    )
    numbers = {"limit": facts.limit, "until": facts.limit_until, "seconds": facts.limit_in_s}
    return [Reason(code="waiting_for_limit", sentence=sentence, numbers=numbers)]


def _due(facts: Facts) -> list[Reason]:
    waits_no_longer = facts.limit_in_s >= facts.due_in_s  # than for its limit, which says so itself
    if facts.due_in_s <= 0 or waits_no_longer:
        return []
    sentence = f"It is not due yet: it may start in {duration(facts.due_in_s)}."
    return [
        Reason(code="not_due", sentence=sentence, numbers={"run_at": facts.run_at, "seconds": facts.due_in_s})
    ]


def _queue(facts: Facts) -> list[Reason]:
    if facts.paused:
        return [Reason(code="queue_paused", sentence=f"The queue {facts.queue} is paused.")]
    if facts.ceiling is not None and len(facts.running) >= facts.ceiling:
        # By whom is among the numbers alone: the edges show it to operators, the jobs may be other people's.
        sentence = f"The queue {facts.queue} is full: {facts.ceiling} of its jobs may run at a time."
        numbers = {"ceiling": facts.ceiling, "running": list(facts.running)}
        return [Reason(code="queue_full", sentence=sentence, numbers=numbers)]
    return []


def _workers(facts: Facts) -> list[Reason]:
    if not facts.workers:
        return [
            Reason(code="no_worker", sentence=f"No live worker serves the queue {facts.queue} for this job.")
        ]
    if facts.shy_workers < facts.workers:
        return []
    numbers = {"workers": facts.workers, "until": facts.shy_until}
    sentence = "Every live worker that could take it has failed it already; soon one of them may try again."
    return [Reason(code="all_failed_it", sentence=sentence, numbers=numbers)]


def _ahead(facts: Facts) -> list[Reason]:
    if not facts.ahead or facts.due_in_s > 0:
        return []
    many = f"{facts.ahead:,}" if facts.ahead < facts.ahead_limit else f"{facts.ahead_limit:,} or more"
    noun = "job is" if facts.ahead == 1 else "jobs are"
    return [Reason(code="ahead", sentence=f"{many} {noun} ahead of it.", numbers={"jobs": facts.ahead})]


def duration(seconds: float) -> str:
    """`seconds` as people say it: "40 s", "3 min", "2 h 5 min", "3 days"."""
    whole = max(1, round(seconds))
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min"
    if whole < 2 * 86400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86400} days"
