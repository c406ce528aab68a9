"""Declare functions, schedule them and cancel them: rows in the caller's transaction."""

import functools
import json
import math
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, ParamSpec, TypeVar, overload

from django.db import connection, transaction
from django.db.models.functions import Now

from core.refusal import CancelVerdict, existing
from postgres import clock, transactions
from scheduling import context, guards, registry
from scheduling.domain import calls
from scheduling.domain.calls import DEFAULT_QUEUE, ENDED, Json, Kind, Retry, Status, cancel_verdict
from scheduling.errors import BadArguments, NotAFunction, NotEnded, NotFound
from scheduling.models import Cron, ScheduledFunction
from scheduling.operations import notifications
from scheduling.queries import functions, pages
from scheduling.queries.functions import NewFunction

P = ParamSpec("P")
R = TypeVar("R")

LONGEST_TIMEOUT_S = 7 * 24 * 3600.0  # an action that runs for more than a week is a service, not a function
# Clusters look by themselves this often, so what is due later than that needs no message.
POLL_S = 4.0
# Whoever hands a row out has it locked for a few milliseconds; a mutation that runs has it locked until it ends.
TRIES = 40
PAUSE_S = 0.005


@overload
def mutation(function: Callable[P, R], /) -> Callable[P, R]: ...


@overload
def mutation(*, queue: str = DEFAULT_QUEUE, priority: int = 0) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


def mutation(function: Any = None, /, *, queue: str = DEFAULT_QUEUE, priority: int = 0) -> Any:
    """Declare a function that touches nothing but the database: `@mutation` or `@mutation(queue=, priority=)`.

    Scheduled, it runs in one serializable transaction together with its `success`: its effects happen exactly once.
    Called, it is a serializable transaction of its own, or a part of the one it is called in; an
    action writes to the database by calling mutations. It may run several times until it commits, so it must do
    nothing that a rollback does not undo; what leaves the transaction is refused where SCHEDULING_GUARDS is on.
    Parameters are keyword-only and JSON, and so is the result. Raises NotAFunction, BadQueue.
    """
    if function is None:
        return functools.partial(_mutation, queue=calls.queue(queue), priority=calls.priority(priority))
    return _mutation(function, queue=queue, priority=priority)


def _mutation(function: Callable[P, R], *, queue: str, priority: int) -> Callable[P, R]:
    declared = registry.register(function, kind=Kind.MUTATION, queue=queue, priority=priority)

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        def guarded() -> R:  # and not the hooks after its commit, nor what opens its connection
            with guards.mutation(declared.name):
                return function(*args, **kwargs)

        with guards.trusted():
            return guarded() if connection.in_atomic_block else transactions.serializable(guarded)

    return called


def action(
    *, timeout: timedelta | float = registry.ACTION_TIMEOUT_S, retry: Retry | None = None, idempotent: bool = False,
    own_writes: bool = False, queue: str = DEFAULT_QUEUE, priority: int = 0,
) -> Callable[[Callable[P, R]], Callable[P, R]]:  # fmt: skip
    """Declare a function that touches the world outside. It is started at most once.

    `timeout` (seconds or a timedelta) raises ActionTimedOut in it. With `retry` a failed one is scheduled again;
    `idempotent=True` says that this is right also when nobody knows whether the last try did its work.
    `own_writes=True` is for cleaning up: it writes by itself, in short transactions that each may be the last, and
    where a serializable one would collide with all that goes on meanwhile. Parameters are keyword-only and JSON.
    Called, it is the plain function. `queue` and `priority` hold where `run_after` names no others. Raises
    NotAFunction, BadQueue.
    """
    place: Any = {"queue": calls.queue(queue), "priority": calls.priority(priority)}
    marks: Any = {"idempotent": idempotent, "own_writes": own_writes}
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)
    if not (math.isfinite(seconds) and 0 < seconds <= LONGEST_TIMEOUT_S):
        raise NotAFunction(function="action", why=f"its timeout must be above 0 and at most a week, not {seconds} s")

    def declare(function: Callable[P, R]) -> Callable[P, R]:
        registry.register(function, kind=Kind.ACTION, timeout_s=seconds, retry=retry, **marks, **place)
        return function

    return declare


# Note [Which arguments a type checker compares]
# Without `queue` and `priority` the arguments are compared with the function's own. No other keyword may stand beside
# those of a ParamSpec (PEP 612), so with one of the two, or with a function that is named by a text, they are any JSON.
# In each case they are compared with the function's signature when the call is made.
@overload
def run_after(
    delay: timedelta | float, function: Callable[..., Any], /, *, queue: str, priority: int | None = None, **args: Json
) -> ScheduledFunction: ...


@overload
def run_after(
    delay: timedelta | float, function: Callable[..., Any], /, *, queue: None = None, priority: int, **args: Json
) -> ScheduledFunction: ...


@overload
def run_after(
    delay: timedelta | float, function: str, /, *, queue: str | None = None, priority: int | None = None, **args: Json
) -> ScheduledFunction: ...


@overload
def run_after(
    delay: timedelta | float, function: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs
) -> ScheduledFunction: ...


def run_after(  # type: ignore[misc]  # it takes what any of these names; positional arguments fit none
    delay: timedelta | float, function: Callable[..., Any] | str, /, *, queue: str | None = None,
    priority: int | None = None, **args: Json,
) -> ScheduledFunction:  # fmt: skip
    """Schedule a registered function to run `delay` (a timedelta or seconds) from now, and return its row.

    It exists if and only if the caller's transaction commits; with a delay of 0 it runs right after that. `queue` and
    `priority` (-100 to 100, higher goes first) are those of its declaration unless others are named. Raises BadMoment
    (not finite, negative, more than five years), BadQueue, UnknownFunction, BadArguments, NotJson.
    `args` are the function's own arguments, by name, as JSON.
    """
    length = calls.delay(delay)
    [row] = insert([new(function, args, delay_s=length.total_seconds(), queue=queue, priority=priority)])
    return row


@overload
def run_at(
    moment: datetime, function: Callable[..., Any], /, *, queue: str, priority: int | None = None, **args: Json
) -> ScheduledFunction: ...


@overload
def run_at(
    moment: datetime, function: Callable[..., Any], /, *, queue: None = None, priority: int, **args: Json
) -> ScheduledFunction: ...


@overload
def run_at(
    moment: datetime, function: str, /, *, queue: str | None = None, priority: int | None = None, **args: Json
) -> ScheduledFunction: ...


@overload
def run_at(moment: datetime, function: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> ScheduledFunction: ...


def run_at(  # type: ignore[misc]  # it takes what any of these names; positional arguments fit none
    moment: datetime, function: Callable[..., Any] | str, /, *, queue: str | None = None,
    priority: int | None = None, **args: Json,
) -> ScheduledFunction:  # fmt: skip
    """Schedule a registered function for an aware moment. One that has passed is kept, and runs at once: of several
    the oldest first. Otherwise as `run_after`."""
    checked = calls.moment(moment, now=clock.now())
    [row] = insert([new(function, args, run_at=checked, queue=queue, priority=priority)])
    return row


def run_again(function_id: int) -> ScheduledFunction:
    """Retry an ended function, now, as a new row; what happened stays as it is. Raises NotFound, NotEnded, and
    BadArguments for those that cannot be read any more."""
    old = existing(pages.function(function_id), NotFound(resource="scheduled function"))
    if old.status not in ENDED:
        raise NotEnded
    [row] = insert([like(old, task_backend=old.task_backend, run_again_of=old.pk)])
    return row


def like(old: ScheduledFunction, **changes: Any) -> NewFunction:
    args = json.dumps(arguments(old))
    return NewFunction(
        function=old.function, kind=Kind(old.kind), args=args, queue=old.queue, priority=old.priority, **changes
    )


def arguments(row: ScheduledFunction | Cron) -> Any:
    try:
        return row.args
    except ValueError:
        raise BadArguments(function=row.function, why="its arguments cannot be read any more") from None


def new(
    function: Callable[..., Any] | str, args: dict[str, Any], *, delay_s: float = 0.0, run_at: datetime | None = None,
    queue: str | None = None, priority: int | None = None,
) -> NewFunction:  # fmt: skip
    """A row for a registered function, all of it checked. Raises UnknownFunction, BadArguments, NotJson, BadQueue."""
    registered = registry.find(function)
    checked = calls.checked(args, signature=registered.signature, name=registered.name)
    return NewFunction(
        function=registered.name, kind=registered.kind, args=json.dumps(checked), delay_s=delay_s, run_at=run_at,
        queue=registered.queue if queue is None else calls.queue(queue),
        priority=registered.priority if priority is None else calls.priority(priority),
    )  # fmt: skip


def insert(rows: Sequence[NewFunction]) -> list[ScheduledFunction]:
    """Insert rows with what runs here as their parent, and let clusters and pages know after the commit. Rows that an
    action schedules after it was canceled are canceled too. A firing that exists is left out."""
    running = context.current()
    by_action = running is not None and running.kind is Kind.ACTION
    with guards.trusted(), transaction.atomic(savepoint=False) if by_action else nullcontext():
        if running is not None:
            of_canceled = by_action and functions.parent_status(running.id) is Status.CANCELED
            changes: dict[str, Any] = {"status": Status.CANCELED} if of_canceled else {}
            rows = [replace(row, parent=running.id if row.parent is None else row.parent, **changes) for row in rows]
        inserted = functions.schedule(rows)
        context.note(row.pk for row in inserted)
        pending = [row for row in inserted if row.status == Status.PENDING]
        if soon := {Kind(row.kind) for row in pending if (row.run_at - row.created_at).total_seconds() < POLL_S}:
            notifications.due(soon)
        notifications.changed([row.pk for row in inserted])
    return inserted


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
    rows = ScheduledFunction.objects.defer("args", "result")  # which may be what cannot be read
    row = rows.filter(pk=pk).first()
    while row is not None and cancel_verdict(Status(row.status), attempt=row.attempt) is CancelVerdict.TOO_LATE:
        if (following := functions.retry_of(row.pk)) is None:
            return Cancellation(verdict=CancelVerdict.TOO_LATE, status=Status(row.status))
        row = rows.filter(pk=following).first()
    if row is None:
        raise NotFound(resource="scheduled function")
    status = Status(row.status)
    if status is Status.PENDING and not functions.unqueue(row.pk):
        return None
    if not rows.filter(pk=row.pk, status=status).update(status=Status.CANCELED, ended_at=Now()):
        return None
    notifications.changed([row.pk])
    notifications.over(row.pk, task_backend=row.task_backend)
    return Cancellation(verdict=cancel_verdict(status, attempt=row.attempt), status=Status.CANCELED)
