"""What a worker did: lately, in the last week, and by day; and what all of them ran of late, as lanes.

Each statement reads a bounded number of rows.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain
from typing import Any, Final, NamedTuple

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import Count, Q
from django.db.models.functions import Coalesce

from jobs.domain import labels
from jobs.domain.kinds import queue_of_model
from jobs.domain.states import AttemptOutcome
from jobs.domain.timelines import Lane, Run, lane
from jobs.domain.workers import StuckSlot
from jobs.models import Attempt, HealthScore, Job, Worker
from jobs.models.workers import was_seen_lately
from postgres import clock, statements

MOST_READ: Final = 10_000  # of the newest ended jobs of the farm
MOST_FAILED: Final = 2_000  # of a worker's newest failed attempts: four pages each, since the kind is their job's
MOST_RATED: Final = 5_000  # for the numbers of jobs an hour, which the list of workers reads again and again
LISTED: Final = 100
DAYS: Final = 30
_NO_ATTEMPTS: Final = (AttemptOutcome.RELEASED, AttemptOutcome.UNCONFIRMED, AttemptOutcome.SUSPENDED)
_NO_FAILURES: Final = (*_NO_ATTEMPTS, AttemptOutcome.CANCELED)
MOST_DRAWN: Final = 700  # attempts that run, that succeeded, and that ended otherwise: a page draws 2,100 bars
MOST_ENDED: Final = 20_000  # jobs among which those that succeeded are: a bulk may have canceled the rest
MOST_LANES: Final = 40
MOST_WORKERS: Final = 200  # that were seen lately, and may have failed alone
MOST_FAILED_EACH: Final = 100  # of each worker


@dataclass(frozen=True, slots=True, kw_only=True)
class Lately:
    """What a worker did since a moment; its last jobs, LISTED at most, the newest first."""

    since: datetime
    succeeded: int
    failed: int
    jobs: tuple[Job, ...]

    @property
    def ended(self) -> int:
        return self.succeeded + self.failed


class Offering(NamedTuple):
    """How many jobs a worker runs at a time and how full its cache of prompts is, if it says that; and whether it has
    a model in memory."""

    slots: int | None
    cache_used: float | None
    is_loaded: bool


class OfferedModel(NamedTuple):
    """Since when a worker announces the model; and by id the workers that do and are not away. Who is away ended, was
    not seen lately, or waits for its model server."""

    since: datetime
    workers: dict[int, Offering]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """How many jobs an hour a worker ended lately, and of those that were not canceled which share failed, and their
    mean run."""

    per_hour: float = 0.0
    failed: float | None = None
    run_s: float | None = None


def lately(worker_id: int) -> Lately:
    """What this worker did within a day, as far as that lies among the MOST_READ newest ended jobs of the farm."""
    params = {"workers": [worker_id], "seconds": 86400.0, "most": MOST_READ, "listed": LISTED}
    [row] = statements.load("jobs", "worker_lately").run(params)
    newest = Attempt.objects.filter(worker_id=worker_id, ended_at__gte=row.since).order_by("-ended_at")[:MOST_READ]
    failed = newest.aggregate(failed=Count("pk", filter=~Q(outcome__in=_NO_FAILURES)))
    by_id = Job.objects.in_bulk(row.jobs)
    jobs = tuple(by_id[job_id] for job_id in row.jobs if job_id in by_id)
    return Lately(since=row.since, succeeded=row.succeeded, jobs=jobs, **failed)


def offered_models(user: User, *, away_s: float, models: Collection[str] | None = None) -> dict[str, OfferedModel]:
    """The models that a worker announces which may take this person's jobs, in the order of their names; of these
    `models` alone where some are named. A drained worker offers nothing, nor does one whose key lacks the model's
    queue, or that is away for `away_s`."""
    params = {"user": user.pk, "away_s": away_s, "alive_s": settings.JOBFARM["WORKER_ALIVE_S"]}
    params["models"] = None if models is None else [*models]
    offered: dict[str, OfferedModel] = {}
    for row in statements.load("jobs", "offered_models").run(params):
        for model in row.models if models is None else {*row.models}.intersection(models):
            if queue_of_model(model) in row.queues:
                since, others = offered.get(model, OfferedModel(row.reported_at, {}))
                offering = Offering(row.concurrency, row.cache_used, model in row.loaded)
                there = {} if row.is_away else {row.id: offering}
                offered[model] = OfferedModel(min(since, row.reported_at), others | there)
    return dict(sorted(offered.items()))


def held_by(worker_ids: Iterable[int]) -> dict[int, int]:
    """How many jobs each of these workers has to do."""
    return {row.id: row.jobs for row in statements.load("jobs", "held_by").run({"workers": [*worker_ids]})}


def workers_of(job_ids: Iterable[int]) -> dict[int, int]:
    """By job the worker that has it, or had it last; of one that waits for its first the one that it prefers."""
    had = Coalesce("live__worker_id", "outcome__worker_id")
    rows = Job.objects.filter(pk__in=job_ids).values_list("pk", had, f"requirement__prefers__{labels.WORKER}")
    named = {pk: str(worker or preferred or "") for pk, worker, preferred in rows}
    return {pk: int(worker) for pk, worker in named.items() if worker.isdecimal()}


def model_of_queues() -> dict[str, str]:
    """By their queues the models that workers announce which were seen lately."""
    announced = Worker.objects.filter(was_seen_lately(), revoked_at=None).values_list("facts__models", flat=True)
    return {queue_of_model(model): model for models in announced for model in models or ()}


def failures(worker_id: int) -> list[statements.Row]:
    """By kind the failed attempts of a week: rows of `kind day week last_at`."""
    return statements.load("jobs", "worker_failures").run({"worker": worker_id, "most": MOST_FAILED})


def stuck_slots(workers: Sequence[Worker]) -> dict[int, tuple[StuckSlot, ...]]:
    """What each of these workers says of slots whose handlers run on, as far as it held these jobs, and since when."""
    named = {worker.pk: worker.facts.stuck for worker in workers if hasattr(worker, "facts")}
    if not any(named.values()):
        return {}
    attempts = Attempt.objects.filter(worker_id__in=named, job_id__in={*chain(*named.values())})
    rows = attempts.exclude(outcome__in=_NO_ATTEMPTS).values_list("worker_id", "job_id", "outcome", "ended_at")
    ended = {
        row[:2]: StuckSlot(job=row[1], outcome=AttemptOutcome(row[2]), since=row[3]) for row in rows
    }  # the last one of each
    return {pk: tuple(ended[pk, job] for job in jobs if (pk, job) in ended) for pk, jobs in named.items()}


def rates(worker_ids: Sequence[int]) -> dict[int, Rates]:
    """How each of these workers did lately; those that ended nothing are left out."""
    params = {"workers": list(worker_ids), "seconds": 3600.0, "most": MOST_RATED, "listed": 0}
    return {row.worker_id: _rates(row) for row in statements.load("jobs", "worker_lately").run(params) if row.ended}


def days(worker: Worker) -> list[HealthScore | None]:
    """How each of the last DAYS whole days went (UTC), the oldest first; None for one that was not scored."""
    today = clock.now().date()
    wanted = [today - timedelta(days=ago) for ago in range(DAYS, 0, -1)]
    kept = HealthScore.objects.filter(day__in=wanted, subject="worker", name=f"{worker.name} #{worker.pk}")
    by_day = {score.day: score for score in kept}
    return [by_day.get(day) for day in wanted]


def _rates(row: statements.Row) -> Rates:
    judged = row.ended - row.canceled
    failed = (judged - row.succeeded) / judged if judged else None
    return Rates(per_hour=row.per_hour, failed=failed, run_s=row.run_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The lanes from `since` until `until`. `left_out`: workers beyond MOST_LANES; `is_all`: no attempt is left out."""

    since: datetime
    until: datetime
    lanes: tuple[Lane, ...]
    left_out: int
    is_all: bool


def timeline_bounds(*, minutes: int) -> dict[str, float]:
    return {
        "seconds": minutes * 60.0, "most": MOST_DRAWN, "most_ended": MOST_ENDED, "most_workers": MOST_WORKERS,
        "most_failed": MOST_FAILED_EACH,
    }  # fmt: skip


def timeline(minutes: int) -> Timeline:
    """The attempts of so many minutes; of the workers those that ran most."""
    until = clock.now()
    since = until - timedelta(minutes=minutes)
    rows = statements.load("jobs", "timeline").run(timeline_bounds(minutes=minutes))
    runs: dict[int, list[Run]] = {}
    for row in rows:
        runs.setdefault(row.worker_id, []).append(_run(row))
    names = {row.worker_id: row.worker_name or "" for row in sorted(rows, key=lambda row: row.claimed_at)}
    drawn = [
        lane(worker, name, runs[worker], begin_s=since.timestamp(), end_s=until.timestamp())
        for worker, name in sorted(names.items(), key=lambda one: (one[1], one[0]))
    ]
    busiest = sorted(drawn, key=lambda one: -len(one.bars))[:MOST_LANES]
    shown = tuple(one for one in drawn if one in busiest)
    is_all = all(row.complete for row in rows)
    return Timeline(since=since, until=until, lanes=shown, left_out=len(drawn) - len(shown), is_all=is_all)


def _run(row: Any) -> Run:
    return Run(
        job_id=row.job_id, kind=row.kind, outcome=row.outcome, began_s=row.claimed_at.timestamp(),
        ended_s=None if row.ended_at is None else row.ended_at.timestamp(),
    )  # fmt: skip
