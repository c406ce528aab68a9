"""Scheduling functions: rows in the caller's transaction (DESIGN promise 9)."""

import json
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, ParamSpec, overload

from django.db import transaction

from postgres import clock
from scheduling import context, guards, registry
from scheduling.domain import arguments, moments, queueing
from scheduling.domain.arguments import Json
from scheduling.domain.states import ENDED, Kind, Status
from scheduling.errors import NotEnded, NotFound
from scheduling.models import ScheduledFunction
from scheduling.operations import announcing
from scheduling.queries import functions
from scheduling.queries.functions import NewFunction

P = ParamSpec("P")

# Clusters look by themselves this often, so what is due later than that needs no message.
POLL_S = 2.0


# Note [Which arguments a type checker compares]
# Without `queue` and `priority` the arguments are compared with the function's own. No other keyword may stand beside
# those of a ParamSpec (PEP 612), so with one of the two, or with a function that is named by a text, they are any JSON.
# In each case they are compared with the function's signature when the call is made.
@overload
def run_after(
    delay: timedelta | float,
    function: Callable[..., Any],
    /,
    *,
    queue: str,
    priority: int | None = None,
    **args: Json,
) -> ScheduledFunction: ...


@overload
def run_after(
    delay: timedelta | float,
    function: Callable[..., Any],
    /,
    *,
    queue: None = None,
    priority: int,
    **args: Json,
) -> ScheduledFunction: ...


@overload
def run_after(
    delay: timedelta | float,
    function: str,
    /,
    *,
    queue: str | None = None,
    priority: int | None = None,
    **args: Json,
) -> ScheduledFunction: ...


@overload
def run_after(
    delay: timedelta | float, function: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs
) -> ScheduledFunction: ...


def run_after(  # type: ignore[misc]  # it takes what any of these names; positional arguments fit none
    delay: timedelta | float,
    function: Callable[..., Any] | str,
    /,
    *,
    queue: str | None = None,
    priority: int | None = None,
    **args: Json,
) -> ScheduledFunction:
    """Schedule a registered function to run `delay` (a timedelta or seconds) from now, and return its row.

    It exists if and only if the caller's transaction commits; with a delay of 0 it runs right after that. `queue` and
    `priority` (-100 to 100, higher goes first) are those of its declaration unless others are named. Raises BadMoment
    (not finite, negative, more than five years), BadQueue, UnknownFunction, BadArguments, NotJson.
    `args` are the function's own arguments, by name, as JSON.
    """
    length = moments.delay(delay)
    [row] = insert([new(function, args, delay_s=length.total_seconds(), queue=queue, priority=priority)])
    return row


@overload
def run_at(
    moment: datetime,
    function: Callable[..., Any],
    /,
    *,
    queue: str,
    priority: int | None = None,
    **args: Json,
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
def run_at(
    moment: datetime, function: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs
) -> ScheduledFunction: ...


def run_at(  # type: ignore[misc]  # it takes what any of these names; positional arguments fit none
    moment: datetime,
    function: Callable[..., Any] | str,
    /,
    *,
    queue: str | None = None,
    priority: int | None = None,
    **args: Json,
) -> ScheduledFunction:
    """Schedule a registered function for an aware moment. One that has passed is kept, and runs at once: of several
    the oldest first. Otherwise as `run_after`."""
    checked = moments.moment(moment, now=clock.now())
    [row] = insert([new(function, args, run_at=checked, queue=queue, priority=priority)])
    return row


def run_again(function_id: int) -> ScheduledFunction:
    """Schedule an ended function once more, now, as a new row; what happened stays as it is.

    Raises NotFound, NotEnded.
    """
    old = functions.find(function_id)
    if old is None:
        raise NotFound(resource="scheduled function")
    if old.status not in ENDED:
        raise NotEnded
    again = NewFunction(
        function=old.function,
        kind=Kind(old.kind),
        args=json.dumps(old.args),
        queue=old.queue,
        priority=old.priority,
        task_backend=old.task_backend,
        run_again_of=old.pk,
    )
    [row] = insert([again])
    return row


def new(
    function: Callable[..., Any] | str,
    args: dict[str, Any],
    *,
    delay_s: float = 0.0,
    run_at: datetime | None = None,
    queue: str | None = None,
    priority: int | None = None,
) -> NewFunction:
    """A row for a registered function, all of it checked. Raises UnknownFunction, BadArguments, NotJson, BadQueue."""
    registered = registry.find(function)
    checked = arguments.checked(args, signature=registered.signature, name=registered.name)
    return NewFunction(
        function=registered.name,
        kind=registered.kind,
        args=json.dumps(checked),
        delay_s=delay_s,
        run_at=run_at,
        queue=registered.queue if queue is None else queueing.queue(queue),
        priority=registered.priority if priority is None else queueing.priority(priority),
    )


def insert(rows: Sequence[NewFunction]) -> list[ScheduledFunction]:
    """Insert rows with what runs here as their parent, and let clusters and pages know after the commit.

    Rows that an action schedules after it was canceled are canceled too. A firing that exists is left out.
    """
    with guards.trusted(), _parents_transaction():
        inserted = functions.schedule([_with_parent(row) for row in rows])
        context.note(row.pk for row in inserted)
        soon = {Kind(row.kind) for row in inserted if _is_soon(row)}
        if soon:
            announcing.due(soon)
        announcing.changed([row.pk for row in inserted])
    return inserted


def _parents_transaction() -> Any:
    running = context.current()
    by_action = running is not None and running.kind is Kind.ACTION
    return transaction.atomic(savepoint=False) if by_action else nullcontext()


def _with_parent(row: NewFunction) -> NewFunction:
    running = context.current()
    if running is None:
        return row
    row = replace(row, parent=running.id if row.parent is None else row.parent)
    if running.kind is Kind.ACTION and functions.parent_status(running.id) is Status.CANCELED:
        return replace(row, status=Status.CANCELED)
    return row


def _is_soon(row: ScheduledFunction) -> bool:
    return row.status == Status.PENDING and (row.run_at - row.created_at).total_seconds() < POLL_S
