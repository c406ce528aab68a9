import functools
import math
from collections.abc import Callable
from datetime import timedelta
from typing import Any, ParamSpec, TypeVar, overload

from django.db import connection

from postgres import transactions
from scheduling import guards, registry
from scheduling.domain import options
from scheduling.domain.options import DEFAULT_QUEUE
from scheduling.domain.retries import Retry
from scheduling.domain.states import Kind
from scheduling.errors import NotAFunction

P = ParamSpec("P")
R = TypeVar("R")

LONGEST_TIMEOUT_S = 7 * 24 * 3600.0  # an action that runs for more than a week is a service, not a function


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
        return functools.partial(_mutation, queue=options.queue(queue), priority=options.priority(priority))
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
    place: Any = {"queue": options.queue(queue), "priority": options.priority(priority)}
    marks: Any = {"idempotent": idempotent, "own_writes": own_writes}
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)
    if not (math.isfinite(seconds) and 0 < seconds <= LONGEST_TIMEOUT_S):
        raise NotAFunction(function="action", why=f"its timeout must be above 0 and at most a week, not {seconds} s")

    def declare(function: Callable[P, R]) -> Callable[P, R]:
        registry.register(function, kind=Kind.ACTION, timeout_s=seconds, retry=retry, **marks, **place)
        return function

    return declare
