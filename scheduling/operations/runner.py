"""Running scheduled functions: what a worker of a cluster does with what is dispatched to it."""

import json
import logging
import random
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

import psycopg
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, InterfaceError, OperationalError, connections, transaction
from django.utils.module_loading import import_string

from core.backoff import Backoff
from observing import numbers as counts
from postgres import clock, transactions
from scheduling import context, guards, registry
from scheduling.domain import calls
from scheduling.domain.calls import Kind, Status, delay_before_next_s
from scheduling.errors import ActionTimedOut, KeepsColliding, KillsItsProcess, RowMoved, UnknownFunction
from scheduling.models import Due, ScheduledFunction
from scheduling.operations import endings, notifications
from scheduling.operations.endings import time_limit
from scheduling.operations.functions import POLL_S, insert, like, run_after
from scheduling.queries import functions, pages
from scheduling.queries.functions import Dispatch, Ending, Holder
from scheduling.registry import Call

log = logging.getLogger(__name__)
T = TypeVar("T")
Deadline = Callable[[float | None], AbstractContextManager[object]]

LONGEST_STATEMENT = 500  # characters; parameters are no part of it

# The wait after ten collisions in a row (postgres.transactions): a hot spot, and it will cool down. What collides again
# and again is not run more than once a minute.
COLLIDED = Backoff(first_s=0.5, base=2, cap_s=60, jitter=1)
RUNS_IN_PLACE = transactions.ATTEMPTS
SHORT = Backoff(first_s=0.5, base=1, jitter=1)  # the wait for a server that is short of something
DIED_S = 1.0  # the wait after a death, doubled by each, up to a minute
ASIDE_S = 10.0  # between two looks at what code of another version has scheduled
PATIENCE_S = 3600.0  # for so long after its time it waits for a cluster of that version
UNNOTED = timedelta(minutes=5)  # then it is an error in the log, which the doctor names: an upgrade takes less
_AGAIN_S = 5.0  # an action that catches ActionTimedOut gets another
_RNG = random.SystemRandom()


def mutations(dispatches: Iterable[Dispatch], *, by: Holder) -> int:
    """Run mutations one after the other, each in a transaction of its own; how many were run."""
    done = [one.id for one in dispatches if mutation(one, by=by)]
    if done:
        notifications.changed(done)
    return len(done)


def mutation(dispatch: Dispatch, *, by: Holder) -> bool:
    """Run one mutation; False if it was not ours to run any more, or has to wait.

    Its effects and its `success` commit together. Collisions are retried in place; after ten it waits a little in the
    queue, longer each time, and after SCHEDULING["MOST_COLLISIONS"] it is failed. It also waits after an error that is
    the server's own (its disk is full), and for an hour where this code has no such function, or one of other
    parameters: a cluster of another version may have it. Any other error rolls everything back and is recorded by a
    transaction of its own. If its connection is lost nothing is recorded, since it may have committed: its row is in
    the queue if not. In the function itself that is counted as a death of its process is, unless the server shut down.
    """
    if _is_gone(dispatch):
        return False
    run = _Run(dispatch=dispatch, by=by, since=time.monotonic())
    try:
        transactions.serializable(partial(_take_and_run, run))
    except _NotOurs:
        return False
    except BaseException as error:
        _roll_back(run, error)
    if run.is_committed:
        notifications.over(dispatch.id, task_backend=run.task_backend)
    run.count()
    return run.is_committed


def process_died(
    function_id: int, *, by: Holder, error: BaseException | None = None, ran_s: float | None = None
) -> bool:
    """The process that ran this mutation died, or its session, by this error, which began so long ago; or that of an
    action before its start, as by its module's import. After SCHEDULING["MOST_DEATHS"], of which a restart of the
    server is a quarter, it is failed; until then it waits before its next run, unless it was the session alone. False
    if its session still holds it: call this again later. Nothing is counted of an action that was started."""
    deaths = functions.count_death(function_id, delay_s=DIED_S, ran_s=ran_s)
    if deaths is None:
        return not Due.objects.filter(pk=function_id).exists()
    if deaths >= settings.SCHEDULING["MOST_DEATHS"]:
        ending = endings.failed(error or KillsItsProcess(deaths=deaths))
        if endings.write_failure(function_id, ending, by=by, elapsed_s=None):
            row = functions.find(function_id)
            notifications.over(function_id, task_backend=row.task_backend if row else None, raised=ending.raised)
    notifications.due(Kind)
    notifications.changed([function_id])
    return True


def action(dispatch: Dispatch, *, by: Holder, deadline: Deadline = nullcontext) -> bool:
    """Run one action; False if it was not ours to start any more.

    Its start is committed before it runs and its end afterwards, again and again until the database takes it. What is
    for a cluster of another version waits as a mutation does.
    Within `deadline`, of the seconds it may take, it runs; before its start its module is imported within another.
    """

    def look() -> bool:
        with deadline(registry.ACTION_TIMEOUT_S):
            return _put_aside(dispatch)

    if _is_gone(dispatch) or _answer(look, look):
        return False
    start = partial(functions.start, dispatch.id, by=by)
    # It may be committed: then nobody else runs it, nor ends it while this process lives.
    row = _answer(start, partial(start, is_again=True))
    if row is None:
        return False
    notifications.changed([row.pk])
    call, since = _call_of(row, kind=Kind.ACTION, ran_by=by.ran_by), time.monotonic()
    timeout_s = _timeout_s(call)
    with deadline(timeout_s):
        ending = _perform(call, timeout_s=timeout_s)
    counts.ran(outcome=ending.status.value, seconds=time.monotonic() - since)
    try:
        _until_it_holds(lambda: settle(call, ending))
    except Exception as error:  # the server refuses its result, such as one that is too long
        bare = replace(ending, result=None, error=ending.error or endings.reason_of(error))
        _until_it_holds(lambda: settle(call, bare))
    return True


def settle(call: Call, ending: Ending) -> bool:
    """Write how an action ended and schedule its next try, in one transaction; False if it was canceled or given up."""
    with transaction.atomic():
        ended = functions.end_action(call.id, ending=ending)
        if ended is not None:
            try_again(ended, known=True)
            notifications.ended(ended, raised=ending.raised)
    return ended is not None


def try_again(ended: ScheduledFunction, *, known: bool) -> None:
    """Schedule the next try of an action that ended badly, if it was declared to be retried. One that cannot be is a
    line in the log."""
    if ended.status not in {Status.FAILED, Status.UNKNOWN} or ended.task_backend is not None:
        return
    try:
        with transaction.atomic():  # a savepoint: of many that are given up, one may not be what can be read
            _try_again(ended, known=known)
    except (OperationalError, InterfaceError):
        raise
    except Exception:
        log.exception("Function #%s cannot be tried again", ended.pk)


def _try_again(ended: ScheduledFunction, *, known: bool) -> None:
    try:
        declared = registry.find(ended.function)
    except UnknownFunction:
        return
    delay_s = delay_before_next_s(
        declared.retry, attempt=ended.attempt, known=known, idempotent=declared.idempotent, rng=_RNG
    )
    if delay_s is not None:
        # It fires what the first one fired.
        of_cron: dict[str, Any] = {"cron": ended.cron_id, "fire_at": ended.fire_at, "parent": ended.parent_id}
        insert([like(ended, delay_s=delay_s, retry_of=ended.pk, attempt=ended.attempt + 1, **of_cron)])


def _answer(ask: Callable[[], T], again: Callable[[], T]) -> T:
    """What the database answers; asked `again` where it, or the connection, was away."""
    try:
        return ask()
    except (OperationalError, InterfaceError) as error:
        if not endings.is_away(error):
            raise
    return _until_it_holds(again)


class _NotOurs(Exception):
    """Done, canceled, or run by another process. Raised: a rollback leaves nothing for others to collide with."""


@dataclass(slots=True, kw_only=True)
class _Run:
    """A mutation's run, and what was seen of it in all its attempts."""

    dispatch: Dispatch
    by: Holder
    since: float
    attempts: int = 0
    statement: str | None = None  # that raised last, in the last attempt
    task_backend: str | None = None
    function: str | None = None
    is_committed: bool = False
    has_failed: bool = False
    session: psycopg.Connection[Any] | None = None  # in which the function itself runs, or ended by an error

    def note(self, execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: Any) -> Any:
        try:
            return execute(sql, params, many, context)
        except Exception:
            self.statement = " ".join(str(sql).split())[:LONGEST_STATEMENT]
            raise

    def commit(self) -> None:
        self.is_committed = True

    def count(self) -> None:
        """It is over. Every try but the last one collided."""
        outcome = "success" if self.is_committed else "failed" if self.has_failed else "again"
        collisions, seconds = max(self.attempts - 1, 0), time.monotonic() - self.since
        counts.ran(outcome=outcome, seconds=seconds, collisions=collisions)


def _is_gone(dispatch: Dispatch) -> bool:
    """Whether its row was taken away by hand: there is nothing to run, or to write about it."""
    if dispatch.row_pointer is None:
        functions.unqueue(dispatch.id)
    return dispatch.row_pointer is None


def _take_and_run(run: _Run) -> None:
    run.statement, run.session, run.attempts = None, None, run.attempts + 1
    with connections[DEFAULT_DB_ALIAS].execute_wrapper(run.note):
        row = functions.take(run.dispatch)
        if row is None:
            raise _NotOurs
        if row.function is None:
            raise RowMoved
        call = _call_of(row, kind=Kind.MUTATION, ran_by=run.by.ran_by)
        run.task_backend, run.function = call.task_backend, call.function
        transaction.on_commit(run.commit)
        with context.running(call), guards.mutation(call.function):
            run.session = connections[DEFAULT_DB_ALIAS].connection
            result = _result(call, _run(call))
        run.session = None
        if not functions.succeed(run.dispatch, by=run.by, result=result):
            raise RowMoved


def _roll_back(run: _Run, error: BaseException) -> None:
    """Decide what becomes of a mutation whose run ended with this error."""
    if run.is_committed:
        log.error("A hook after the commit of %s #%s failed", run.function, run.dispatch.id, exc_info=error)
    elif isinstance(error, RowMoved):
        _collide(run, "its own row of scheduling_scheduledfunction, which it changed")
    elif transactions.collided(error):
        _collide(run, run.statement or "COMMIT")
    elif endings.is_short(error):
        _postpone(run, delay_s=SHORT.delay_s(1, rng=_RNG))
    elif endings.is_away(error) and (run.session is None or run.session.closed):
        log.warning("The database went away during mutation #%s: %s", run.dispatch.id, error)
        connections.close_all()
        # It may itself end the server's process each time, by the memory that it takes.
        if run.session is not None and not endings.is_shutdown(error):
            _until_it_holds(
                lambda: process_died(run.dispatch.id, by=run.by, error=error, ran_s=time.monotonic() - run.since)
            )
    elif not ((run.task_backend or isinstance(error, TypeError | UnknownFunction)) and _put_aside(run.dispatch)):
        _fail(run, error)


def _put_aside(dispatch: Dispatch) -> bool:
    """Leave it to a cluster of another version, if here is no function of that name that takes such arguments; False if
    there is, or no such cluster has come within an hour. True too if another has it, or has put it aside, meanwhile."""
    row: Any = pages.function(dispatch.id)  # with its `stored_args`
    if row is None or registry.takes(row.function, row.stored_args, task_backend=row.task_backend):
        return False
    level = logging.ERROR if clock.now() - row.run_at > UNNOTED else logging.WARNING
    log.log(level, "%s #%s is not of this version: it waits for a cluster that has it", row.function, dispatch.id)
    if functions.postpone(dispatch, delay_s=ASIDE_S, patience_s=PATIENCE_S):
        notifications.changed([dispatch.id])
        return True
    queued = pages.queued(dispatch.id)
    return queued is None or clock.now() - queued.run_at < timedelta(seconds=PATIENCE_S)


def _collide(run: _Run, statement: str) -> None:
    collisions = run.dispatch.collisions + run.attempts
    if collisions >= settings.SCHEDULING["MOST_COLLISIONS"]:
        _fail(run, KeepsColliding(collisions=collisions, statement=statement))
        return
    waits = 1 + run.dispatch.collisions // RUNS_IN_PLACE
    delay_s = COLLIDED.delay_s(waits, rng=_RNG)
    _postpone(run, delay_s=delay_s, collisions=run.attempts, colliding_statement=statement)


def _postpone(run: _Run, *, delay_s: float, **noted: Any) -> None:
    with transaction.atomic():
        if functions.postpone(run.dispatch, delay_s=delay_s, **noted):
            notifications.changed([run.dispatch.id])
            if delay_s < POLL_S:
                notifications.due([Kind.MUTATION])


def _perform(call: Call, *, timeout_s: float | None) -> Ending:
    try:
        error = partial(ActionTimedOut, function=call.function, timeout_s=timeout_s)
        with context.running(call), _watched(call), time_limit(timeout_s, error, again_s=_AGAIN_S):
            value = _run(call)
    except BaseException as error:  # SystemExit too: it is the function's end, not the worker's
        return endings.failed(error)
    try:
        return Ending(status=Status.SUCCESS, result=_result(call, value))
    except Exception as error:
        # What it did is done, so it is a success; retried it would be done twice.
        return Ending(status=Status.SUCCESS, error=endings.reason_of(error))


def _watched(call: Call) -> AbstractContextManager[object]:
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
    declared = registry.find(call.function)
    if declared.kind is call.kind:
        return declared.call(**call.args)
    if call.kind is Kind.ACTION:  # as another version declared it, or fired its cron without knowing it
        return import_string(declared.name)(**call.args)  # so it is a transaction of its own
    run_after(0, declared.name, **call.args)
    return None


def _result(call: Call, value: Any) -> str | None:
    if value is None:
        return None
    return json.dumps(calls.json_value(value, name=call.function, part="result"))


def _fail(run: _Run, error: BaseException) -> None:
    """Record a mutation's failure. Whoever has its row locked meanwhile decides instead."""
    run.has_failed = True
    ending, elapsed_s = endings.failed(error), time.monotonic() - run.since
    if endings.write_failure(run.dispatch.id, ending, by=run.by, elapsed_s=elapsed_s):
        notifications.changed([run.dispatch.id])
        notifications.over(run.dispatch.id, task_backend=run.task_backend, raised=error)


def _until_it_holds(write: Callable[[], T]) -> T:
    pauses = Backoff(first_s=0.05, cap_s=1)
    attempt = 0
    while True:
        attempt += 1
        try:
            _mend_connections()
            return write()
        except Exception as error:
            if not (endings.is_away(error) or endings.is_refused_for_now(error) or transactions.is_passing(error)):
                raise
            log.warning("What became of a function cannot be written yet: %s", error)
            time.sleep(pauses.delay_s(attempt, rng=_RNG))  # nothing says when the database is back


def _mend_connections() -> None:
    """What an action may have left behind: a broken connection, or one inside a transaction nobody ends."""
    for connection in connections.all(initialized_only=True):
        if connection.connection is not None and not connection.in_atomic_block:
            if not connection.autocommit:
                connection.close()
            connection.close_if_unusable_or_obsolete()


def _timeout_s(call: Call) -> float | None:
    try:
        if call.task_backend is not None:
            return registry.interfaces.tasks.timeout_s(call) if registry.interfaces.tasks else None
        return registry.find(call.function).timeout_s
    except Exception:  # its function, or its backend, is gone: which its run will say
        return None


def _call_of(row: Any, *, kind: Kind, ran_by: str) -> Call:
    return Call(
        id=row.id, function=row.function, kind=kind, stored_args=row.args, attempt=row.attempt,
        task_backend=row.task_backend, ran_by=ran_by,
    )  # fmt: skip
