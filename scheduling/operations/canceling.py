"""Cancel, and the truth about what it came to."""

import time
from dataclasses import dataclass

from django.db import transaction

from scheduling import guards
from scheduling.domain.states import CancelVerdict, Status, cancel_verdict
from scheduling.errors import NotFound
from scheduling.models import ScheduledFunction
from scheduling.operations import announcing
from scheduling.queries import functions

# Whoever hands a row out has it locked for a few milliseconds; a mutation that runs has it locked until it ends.
TRIES = 40
PAUSE_S = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancellation:
    """What a cancel came to; `status` is that of the function now."""

    verdict: CancelVerdict
    status: Status


def cancel(function: ScheduledFunction | int) -> Cancellation:
    """Cancel a scheduled function, given as its row or id.

    What has not started never will. A running action goes on, its outcome is ignored, and what it schedules from now
    on is canceled too. A running mutation is left to finish: `too_late`, with the status pending. A failed try whose
    next one waits: that one is canceled. In the caller's transaction, if there is one. Raises NotFound.
    """
    pk = function if isinstance(function, int) else function.pk
    for _ in range(TRIES):
        with guards.trusted(), transaction.atomic():
            done = _try(pk)
        if done is not None:
            return done
        time.sleep(PAUSE_S)
    return Cancellation(verdict=CancelVerdict.TOO_LATE, status=Status.PENDING)


def _try(pk: int) -> Cancellation | None:
    """One attempt; None when somebody else is changing the row right now."""
    row = functions.find(pk)
    if row is None:
        raise NotFound(resource="scheduled function")
    status = Status(row.status)
    verdict = cancel_verdict(status, attempt=row.attempt)
    if verdict is CancelVerdict.TOO_LATE:
        following = functions.retry_of(pk)
        return Cancellation(verdict=verdict, status=status) if following is None else _try(following)
    if status is Status.PENDING and not functions.unqueue(pk):
        return None
    if not functions.cancel(pk, status=status):
        return None
    announcing.changed([pk])
    announcing.over(pk, task_backend=row.task_backend)
    return Cancellation(verdict=verdict, status=Status.CANCELED)
