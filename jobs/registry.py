"""What apps above register: who meters jobs, which kinds are metered whatever is decided about their jobs, which
crons count jobs too, and what the janitor does for them."""

from collections.abc import Callable, Sequence
from typing import Any

from django.contrib.auth.models import User

from jobs.domain.hooks import Hold, Meter, Used

METERED_KINDS: set[str] = set()
# By name. They fire within a minute after jobs were counted (jobs.operations.rollup).
COUNTING_CRONS: list[str] = []
# What else the janitor does every few seconds, by name.
CHORES: dict[str, Callable[[], None]] = {}
# What else has content of jobs, by name: it deletes that of these jobs.
CONTENT: dict[str, Callable[[Sequence[int]], None]] = {}
# By kind: what refuses a job of a person, by its payload, its queue, who submits it, and with which token.
CHECKS: dict[str, Callable[[Any, str, User, int | None], None]] = {}
_meters: list[Meter] = []


def register_meter(meter: Meter) -> None:
    """Have new jobs and ends of attempts metered by this. Raises ValueError for a second meter."""
    if _meters and _meters[0] is not meter:
        raise ValueError("jobs have one meter, and it is registered already")
    _meters[:] = [meter]


def meter() -> Meter | None:
    """The meter, where an app registered one."""
    return _meters[0] if _meters else None


def hold(job_id: int, *, is_metered: bool) -> Hold | None:
    """Why this job waits, if its meter makes it wait."""
    return _meters[0].hold(job_id) if is_metered and _meters else None


def used(job_ids: Sequence[int]) -> Used | None:
    """What these jobs used together, if they are metered and any of their attempts has ended."""
    return _meters[0].used(job_ids) if _meters else None
