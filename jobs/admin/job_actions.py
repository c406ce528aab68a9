"""What the administration does with jobs: to which it applies, and what came of it, in words."""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from django.db.models import QuerySet
from django.http import HttpRequest

from core import people
from jobs import operations
from jobs.domain.states import ENDED, LIVE, Status
from jobs.errors import JobsError
from jobs.models import Job
from jobs.queries import lists
from ratelimits.errors import RateLimitsError

_ALREADY: Final = "retried already"
AT_ONCE: Final = 1000  # jobs that one action touches; the message says when more match

Action = Callable[[HttpRequest, int], str]


def _came_to(act: Callable[[], object], done: str) -> str:
    try:
        act()
    except (JobsError, RateLimitsError) as refusal:
        return refusal.message
    return done


def cancel(request: HttpRequest, job_id: int) -> str:
    try:
        return operations.cancel(job_id, by=people.person(request)).verdict.value.replace("_", " ")
    except JobsError as refusal:
        return refusal.message


def retry(request: HttpRequest, job_id: int) -> str:
    """Retry it unless another job does; what it came to."""
    return _came_to(lambda: operations.retry(job_id, by=people.person(request), once=True), "retried")


def run_now(request: HttpRequest, job_id: int) -> str:
    return _came_to(lambda: operations.run_now(job_id, by=people.person(request)), "due now")


def fitting(job: Job, *, now: datetime) -> set[str]:
    if job.status in ENDED:
        return {"retry"}
    is_later = job.status == Status.PENDING and job.run_at > now
    return {"cancel", "run-now"} if is_later else {"cancel"}


# In which states each of them changes anything.
FITS: Final[dict[Action, frozenset[Status]]] = {cancel: LIVE, retry: ENDED, run_now: frozenset({Status.PENDING})}


def preview(chosen: Sequence[tuple[int, str]], *, fits: frozenset[Status]) -> list[str]:
    """What the action applies to: how many jobs, by their status at this moment."""
    counts = Counter(status for _, status in chosen[:AT_ONCE])
    lines = [
        f"{count:,} {status.replace('_', ' ')}{'' if status in fits else ', which stays as it is'}"
        for status, count in sorted(counts.items())
    ]
    if len(chosen) > AT_ONCE:
        lines.append(f"and more, which are not changed: {AT_ONCE} at a time")
    return lines


def chosen(jobs: QuerySet[Job], action: Action) -> list[tuple[int, str]]:
    """The jobs that were chosen and one more than the action touches, each with its status; of who is not to be
    retried again, that."""
    rows = jobs.order_by("pk").annotate(tried=lists.retried())[: AT_ONCE + 1]
    return [(job.pk, _ALREADY if action is retry and job.tried else job.status) for job in rows]


def counted(results: Counter[str]) -> str:
    """What a number of these came to, the most frequent first."""
    return "; ".join(f"{count:,} {result}" for result, count in results.most_common()) or "Nothing was selected."
