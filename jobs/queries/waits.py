"""Statements about what suspended jobs wait for beside other jobs. The caller has locked the job's live row."""

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.db.models.functions import Now

from jobs.domain.conflicts import BEHIND
from jobs.domain.waits import Wait
from jobs.models import Edge, Live, Signal, Suspension
from postgres import statements


def forget(job_id: int) -> None:
    """What the job was suspended for before counts no more."""
    Suspension.objects.filter(pk=job_id).delete()


def keep(job_id: int, wait: Wait) -> bool:
    """Write down what it waits for; whether that is a signal which has come already, and is taken."""
    kept = _untaken(job_id, wait.signal).first() if wait.signal else None
    schema = None if wait.schema is None else json.dumps(wait.schema)
    until = None if wait.timeout_s is None or kept else Now() + timedelta(seconds=wait.timeout_s)
    Suspension.objects.create(job_id=job_id, signal=wait.signal or "", schema=schema, until=until, taken=kept)
    if kept is not None:
        Signal.objects.filter(pk=kept.pk).update(taken_at=Now())
    return kept is not None


def store(job_id: int, *, name: str, data: Any, key: str) -> tuple[Signal, bool]:
    """Keep a signal; the one with this key, and whether it is new."""
    return Signal.objects.get_or_create(job_id=job_id, key=key, defaults={"name": name, "data": data})


def take(signal: Signal) -> bool:
    """Let the job have it, if it waits for one of its name; whether it does."""
    waiting = Suspension.objects.filter(pk=signal.job_id, signal=signal.name, taken=None, timed_out=False)
    if taken := waiting.update(taken=signal.pk, until=None):
        Signal.objects.filter(pk=signal.pk).update(taken_at=Now())
    return bool(taken)


def wake(job_ids: Sequence[int]) -> None:
    """Let these jobs, which wait, be due now."""
    Live.objects.filter(pk__in=job_ids, lease_secret=None).update(run_at=Now())


def lock_timed_out(limit: int, but_for: Sequence[int] = ()) -> list[statements.Row]:
    """Lock jobs whose wait has run out, except these ids: rows of `id`, `kind`, `queue` and `waits`."""
    params = {"limit": limit, "but_for": list(but_for), "behind": BEHIND}
    return statements.load("jobs", "lock_timed_out").run(params)


def time_out(job_ids: Sequence[int]) -> None:
    """These wait for nothing more: neither for a signal nor for other jobs."""
    Edge.objects.filter(open_of__in=job_ids).update(open_of=None)
    Suspension.objects.filter(pk__in=job_ids).update(until=None, timed_out=True)


def settle(job_ids: Sequence[int]) -> None:
    """These do not wait any more: their time does not run out."""
    Suspension.objects.filter(pk__in=job_ids).update(until=None)


def of(job_ids: Sequence[int]) -> dict[int, Suspension]:
    """What each of these jobs was suspended for, with what came. Of no jobs nothing is read."""
    return Suspension.objects.select_related("taken").in_bulk(job_ids) if job_ids else {}


def waiting(job_id: int) -> Suspension | None:
    """The signal that a suspended job waits for."""
    return Suspension.objects.filter(pk=job_id, taken=None, timed_out=False).exclude(signal="").first()


def _untaken(job_id: int, name: str | None) -> Any:
    return Signal.objects.filter(job_id=job_id, name=name, taken_at=None).order_by("pk")
