"""Running scheduled functions: what a worker of a cluster does with what it was handed."""

import json
import logging
import random
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from django.db import connections, transaction

from postgres import transactions
from scheduling import context, guards, registry
from scheduling.domain import arguments
from scheduling.domain.retries import Backoff, delay_before_next_s
from scheduling.domain.states import Kind, State
from scheduling.errors import KillsItsProcess, NotJson, UnknownFunction
from scheduling.models import ScheduledFunction
from scheduling.operations import announcing, endings, timing
from scheduling.operations.scheduling import insert
from scheduling.queries import functions
from scheduling.queries.functions import Ending, Handed, Holder, NewFunction
from scheduling.registry import Call

log = logging.getLogger(__name__)

# Long enough to be worth the way through the queue, short enough that the next batch does not wait for it.
BUDGET_S = 0.1
# A mutation whose process died this often is what kills it: memory, or a fault in a C library.
MOST_DELIVERIES = 50
# The wait after ten collisions in a row (postgres.transactions), 0 to 1 s: a hot spot, and it will cool down.
COLLIDED = Backoff(first_s=0.5, base=1, jitter=1)
_DICE = random.SystemRandom()


def batch(
    handed: Sequence[Handed], *, by: Holder, should_stop: Callable[[], bool], budget_s: float = BUDGET_S
) -> int:
    """Run mutations one after the other, each in a transaction of its own; how many were run.

    After `budget_s` seconds, or when told to stop, what is left is given back for others to run.
    """
    until = time.monotonic() + budget_s
    done: list[int] = []
    for position, one in enumerate(handed):
        if position and (time.monotonic() >= until or should_stop()):
            functions.give_back(handed[position:], boot=by.boot)
            announcing.due([Kind.MUTATION])
            break
        if mutation(one, by=by):
            done.append(one.id)
    if done:
        announcing.changed(done)
    return len(done)


def mutation(handed: Handed, *, by: Holder) -> bool:
    """Run one mutation; False if it was not ours to run any more, or has to wait.

    Its effects and its `success` commit together. Collisions are retried in place; after too many it waits a little
    in the queue, as after an error that is the server's own (its disk is full). Any other error rolls everything back
    and is recorded by a transaction of its own. If the database goes away nothing is recorded: its row is handed out
    again when the lease is over.
    """
    if _is_hopeless(handed, by=by):
        return False
    since = time.monotonic()
    taken: list[Call] = []
    committed: list[bool] = []
    try:
        transactions.serializable(partial(_take_and_run, handed, by, taken, committed))
    except _Moved:
        functions.give_back([handed], boot=by.boot)
    except BaseException as error:
        if committed:
            log.exception("A hook after the commit of %s #%s failed", taken[-1].function, handed.id)
        elif transactions.collided(error) or endings.is_short(error):
            functions.give_back([handed], boot=by.boot, delay_s=COLLIDED.delay_s(1, rng=_DICE))
        elif endings.is_away(error):
            log.warning("The database went away during mutation #%s: %s", handed.id, error)
            connections.close_all()
        else:
            _fail(handed, error, by=by, taken=taken, elapsed_s=time.monotonic() - since)
    if committed:
        announcing.over(handed.id, task_backend=taken[-1].task_backend)
    return bool(committed)


def action(handed: Handed, *, by: Holder, deadline: Callable[[float | None], None] = lambda _: None) -> bool:
    """Run one action; False if it was not ours to start any more.

    Its start is committed before it runs and its end afterwards, again and again until the database takes it.
    `deadline` is told how many seconds it may take, and None when it is over.
    """
    row = functions.start(handed.id, by=by)
    if row is None:
        return False
    announcing.changed([row.pk])
    call = _call_of(row)
    timeout_s = _timeout_s(call)
    deadline(timeout_s)
    try:
        ending = _perform(call, timeout_s=timeout_s)
    finally:
        deadline(None)
    _until_it_holds(lambda: settle(call, ending, by=by))
    return True


def settle(call: Call, ending: Ending, *, by: Holder) -> bool:
    """Write how an action ended and schedule its next try, in one transaction; False if that was not ours to say."""
    with transaction.atomic():
        ended = functions.end_action(call.id, by=by, ending=ending)
        if ended is not None:
            try_again(ended, known=True)
            announcing.over(ended.pk, task_backend=ended.task_backend)
            announcing.changed([ended.pk], crons=[ended.cron_id] if ended.cron_id else [])
    return ended is not None


def try_again(ended: ScheduledFunction, *, known: bool) -> None:
    """Schedule the next try of an action that ended badly, if it was declared to be tried again."""
    if ended.state not in {State.FAILED, State.UNKNOWN} or ended.task_backend is not None:
        return
    try:
        declared = registry.find(ended.function)
    except UnknownFunction:
        return
    delay_s = delay_before_next_s(
        declared.retry, attempt=ended.attempt, known=known, idempotent=declared.idempotent, rng=_DICE
    )
    if delay_s is not None:
        insert([_next_try(ended, delay_s=delay_s)])


class _Moved(Exception):
    pass


def _is_hopeless(handed: Handed, *, by: Holder) -> bool:
    if handed.place is None:  # its row was taken away by hand: there is nothing to run, or to write about it
        functions.unqueue(handed.id)
    elif handed.deliveries > MOST_DELIVERIES:
        _fail(handed, KillsItsProcess(deliveries=handed.deliveries), by=by, taken=[])
    return handed.place is None or handed.deliveries > MOST_DELIVERIES


def _take_and_run(handed: Handed, by: Holder, taken: list[Call], committed: list[bool]) -> None:
    row = functions.take(handed)
    if row is None:
        return
    if row.function is None:
        raise _Moved
    call = Call(
        id=row.id,
        function=row.function,
        kind=Kind.MUTATION,
        args=row.args,
        attempt=row.attempt,
        task_backend=row.task_backend,
        ran_by=by.ran_by,
    )
    taken.append(call)
    transaction.on_commit(lambda: committed.append(True))
    with context.running(_running(call)), guards.mutation(call.function):
        result = _result(call, _run(call))
    if not functions.succeed(handed, by=by, result=result):
        raise _Moved


def _perform(call: Call, *, timeout_s: float | None) -> Ending:
    try:
        with context.running(_running(call)), _watched(call), timing.limit(timeout_s, function=call.function):
            value = _run(call)
    except BaseException as error:  # SystemExit too: it is the function's end, not the worker's
        return endings.failed(error)
    try:
        return Ending(state=State.SUCCESS, result=_result(call, value))
    except NotJson as error:
        # What it did is done, so it is a success; tried again it would be done twice.
        return Ending(state=State.SUCCESS, error=error.message)


def _watched(call: Call) -> AbstractContextManager[None]:
    """Whether an action's own writes are mistakes: not those of a @task, nor where they were declared."""
    if call.task_backend is not None:
        return guards.trusted()
    try:
        own_writes = registry.find(call.function).own_writes
    except UnknownFunction:  # which its run will say
        own_writes = False
    return guards.trusted() if own_writes else guards.action(call.function)


def _run(call: Call) -> Any:
    if call.task_backend is not None:
        assert registry.interfaces.tasks is not None, "django_tasks is not installed"
        return registry.interfaces.tasks.run(call)
    return registry.find(call.function).call(**call.args)


def _result(call: Call, value: Any) -> str | None:
    if value is None:
        return None
    return json.dumps(arguments.json_value(value, name=call.function, what="result"))


def _fail(
    handed: Handed, error: BaseException, *, by: Holder, taken: list[Call], elapsed_s: float | None = None
) -> None:
    """Record a mutation's failure. Whoever has its row locked meanwhile decides instead."""
    ending = endings.failed(error)
    if functions.fail_pending(handed.id, by=by, ending=ending, elapsed_s=elapsed_s):
        announcing.changed([handed.id])
        if taken:
            announcing.over(handed.id, task_backend=taken[-1].task_backend)


def _until_it_holds(write: Callable[[], object]) -> None:
    pauses = Backoff(first_s=0.05, cap_s=1)
    for attempt in range(1, 1_000_000):
        try:
            _mend_connections()
            write()
        except Exception as error:
            if not (endings.is_away(error) or transactions.collided(error)):
                raise
            log.warning("The outcome of an action cannot be written yet: %s", error)
            time.sleep(pauses.delay_s(attempt, rng=_DICE))
        else:
            return


def _mend_connections() -> None:
    """What an action may have left behind: a broken connection, or one inside a transaction nobody ends."""
    for connection in connections.all(initialized_only=True):
        if connection.connection is not None and not connection.in_atomic_block:
            if not connection.autocommit:
                connection.close()
            connection.close_if_unusable_or_obsolete()


def _timeout_s(call: Call) -> float | None:
    if call.task_backend is not None:
        return registry.interfaces.tasks.timeout_s(call) if registry.interfaces.tasks else None
    try:
        return registry.find(call.function).timeout_s
    except UnknownFunction:
        return None


def _running(call: Call) -> context.Running:
    return context.Running(id=call.id, function=call.function, kind=call.kind, attempt=call.attempt)


def _call_of(row: ScheduledFunction) -> Call:
    return Call(
        id=row.pk,
        function=row.function,
        kind=Kind(row.kind),
        args=row.args,
        attempt=row.attempt,
        task_backend=row.task_backend,
        ran_by=row.ran_by or "",
    )


def _next_try(ended: ScheduledFunction, *, delay_s: float) -> NewFunction:
    return NewFunction(
        function=ended.function,
        kind=Kind(ended.kind),
        args=json.dumps(ended.args),
        delay_s=delay_s,
        queue=ended.queue,
        priority=ended.priority,
        parent=ended.parent_id,
        retry_of=ended.pk,
        attempt=ended.attempt + 1,
        cron=ended.cron_id,
        fire_at=ended.fire_at,
    )
