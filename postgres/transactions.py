"""Transactions that are retried when PostgreSQL says that they collided: serializable ones, and plain ones."""

import functools
import math
import random
import threading
import time
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, ParamSpec, TypeVar

import psycopg
from django.db import DEFAULT_DB_ALIAS, connections, transaction
from psycopg.pq import TransactionStatus

from postgres.errors import NestedTransaction, causes

T = TypeVar("T")
P = ParamSpec("P")

# serialization_failure and deadlock_detected: PostgreSQL's manual (13.5) says to run the whole transaction again.
RETRIED = frozenset({"40001", "40P01"})
# lock_not_available: a lock that was waited for no longer than the transaction may. What a plain transaction may try
# again, and no collision to whoever asks `collided`: a function of somebody else may raise it on purpose (NOWAIT).
_NOT_AVAILABLE = "55P03"
# With the delays below that is 0.75 s in the mean: what is not through by then is a hot spot, not bad luck.
ATTEMPTS = 10
FIRST_DELAY_S = 0.004  # about the length of a short transaction
LONGEST_DELAY_S = 0.5
# The system's generator and not a seeded one: forked processes would share the seed, and collide again in step.
_RNG = random.SystemRandom()


def serializable(
    function: Callable[[], T], *, attempts: int = ATTEMPTS, rng: random.Random = _RNG, using: str = "default"
) -> T:
    """Run `function` in a SERIALIZABLE transaction of its own and return what it returns, after the commit.

    When PostgreSQL reports a collision (SQLSTATE 40001 or 40P01, also at the commit, also if `function` raised another
    error from it), everything is rolled back and `function` runs again after a random pause, `attempts` times at most;
    then the last error is raised. So `function` must do nothing that a rollback does not undo. on_commit hooks run
    once, for the attempt that committed; an error raised by such a hook is raised as it is, and nothing runs again.

    Raises NestedTransaction inside a transaction, ValueError if `attempts` is less than 1.
    """
    if attempts < 1:
        raise ValueError(f"attempts must be at least 1, not {attempts}")
    connection = connections[using]
    if connection.in_atomic_block or not connection.get_autocommit():
        raise NestedTransaction(using=using)
    return _again(lambda committed: _attempt(function, committed, using), collided, attempts=attempts, rng=rng)


def retried(function: Callable[P, T]) -> Callable[P, T]:
    """The decorator for what changes something in one plain transaction (READ COMMITTED) on the default database.

    Called, `function` is a transaction of its own, and is run again from its beginning after a collision or a lock that
    was waited for too long: `ATTEMPTS` times at most, with random pauses; then that error is raised (`is_passing` says
    so). As with `serializable` it must do nothing that a rollback does not undo, and its on_commit hooks run once.
    Called inside a transaction it is a part of that, with a savepoint around it, and whoever opened that one runs it
    again.
    """

    @functools.wraps(function)
    def in_a_transaction(*args: P.args, **kwargs: P.kwargs) -> T:
        def attempt(committed: list[bool]) -> T:
            with transaction.atomic():
                transaction.on_commit(lambda: committed.append(True))
                return function(*args, **kwargs)

        if connections["default"].in_atomic_block:
            return attempt([])
        return _again(attempt, is_passing, attempts=ATTEMPTS, rng=_RNG)

    return in_a_transaction


def alone(statement: Callable[[], T]) -> T:
    """Run what is one statement. Outside of a transaction, where it is one by itself, it is run again after a collision
    or a lock that was waited for too long, as by `retried`, without the round trips of a BEGIN and a COMMIT; inside of
    one it is just run."""
    if connections["default"].in_atomic_block:
        return statement()
    return _again(lambda _: statement(), is_passing, attempts=ATTEMPTS, rng=_RNG)


@contextmanager
def waiting_at_most(ms: int = 2000, *, by: str = "lock_timeout") -> Iterator[None]:
    """In the block, which is part of a transaction, nobody waits longer for a lock: its error `is_passing`. `by`
    "statement_timeout": for a statement."""
    with connections["default"].cursor() as cursor:
        cursor.execute("SELECT current_setting(%s), set_config(%s, %s, true)", [by, by, f"{ms}ms"])
        before, _ = cursor.fetchone()
        yield  # a rollback takes the setting along
        cursor.execute("SELECT set_config(%s, %s, true)", [by, before])


def is_serializable() -> bool:
    """Whether this thread is in a serializable transaction on the default database: what it reads is as old as that."""
    wrapper = connections["default"]
    raw = wrapper.connection
    level = None if raw is None else raw.isolation_level
    return wrapper.in_atomic_block and level == psycopg.IsolationLevel.SERIALIZABLE


def is_passing(error: BaseException) -> bool:
    """Whether what stood in the way is over by itself: a collision, or a lock that somebody held for too long. What
    was to be changed is not changed, and may be retried."""
    lacked = any(isinstance(cause, psycopg.Error) and cause.sqlstate == _NOT_AVAILABLE for cause in causes(error))
    return lacked or collided(error)


def collided(error: BaseException) -> bool:
    """Whether `error`, or an error it was raised from, says that the transaction collided and may be tried again."""
    return any(isinstance(cause, psycopg.Error) and cause.sqlstate in RETRIED for cause in causes(error))


def deadlocked(error: BaseException) -> bool:
    """Whether `error`, or an error it was raised from, says that PostgreSQL ended the transaction since it and others
    waited for each other's locks."""
    return any(isinstance(cause, psycopg.errors.DeadlockDetected) for cause in causes(error))


def _again(
    attempt: Callable[[list[bool]], T], may_be_tried_again: Callable[[BaseException], bool], *, attempts: int,
    rng: random.Random,
) -> T:  # fmt: skip
    """Call `attempt` until it comes through. It puts something into its list once it has committed."""
    for number in range(1, attempts):
        committed: list[bool] = []
        since = time.monotonic()
        try:
            return attempt(committed)
        except Exception as error:
            # Who has the lock keeps it, and others need the thread (postgres.configuration.bounded).
            has_waited = time.monotonic() >= since + connections["default"].settings_dict.get("LOCK_S", math.inf)
            if committed or not may_be_tried_again(error) or (has_waited and not collided(error)):
                raise
        time.sleep(rng.uniform(0, min(LONGEST_DELAY_S, FIRST_DELAY_S * 2 ** (number - 1))))
    return attempt([])


def _attempt(function: Callable[[], T], committed: list[bool], using: str) -> T:
    """Run it once. `committed` is filled by the first of the hooks, so it is true for all errors of the later ones."""
    with ExitStack() as afterwards, transaction.atomic(using=using):
        transaction.on_commit(lambda: committed.append(True), using=using)
        as_before = _isolate(connections[using].connection)
        afterwards.callback(as_before)
        transaction.on_commit(as_before, using=using)  # the hooks may open transactions of their own
        return function()


def _isolate(raw: psycopg.Connection[Any]) -> Callable[[], None]:
    """Make the transaction that is to begin SERIALIZABLE; called, what it returns makes those after it as before.

    Inside of Django's block, before its first statement: on its way into one Django replaces a connection that was
    lost, and the new one knows of no level. The driver says it in its BEGIN: a SET TRANSACTION of our own would be one
    more round trip, of five that a short mutation takes.
    """
    before, raw.isolation_level = raw.isolation_level, psycopg.IsolationLevel.SERIALIZABLE

    def as_before() -> None:
        if raw.pgconn.transaction_status == TransactionStatus.IDLE:  # else it is broken, and the pool drops it
            raw.isolation_level = before

    return as_before


# Note [How the words of one transaction go out together]
# Every `add` is an on_commit hook of its own, so Django itself forgets those whose savepoint was rolled back.
# The hook that runs first delivers for all that are still there, and the others find nothing left to do.
# Which ones are still there is in a weak dictionary: nobody but Django's list of hooks holds them. Should something
# else hold one (a debugger, a traceback), a word too many is delivered, never one too few.
class _Words:
    __slots__ = ("__weakref__", "are_delivered", "words")

    def __init__(self, words: Iterable[Any]) -> None:
        self.words = tuple(words)
        self.are_delivered = False


class Gathered(threading.local):  # as Django's connections are one for each thread
    """Words (or what is written as one) that transactions leave for `deliver`: those of one together, each once and
    sorted, after its commit; outside of a transaction at once. A rollback, also one to a savepoint, takes its words
    along. What `deliver` raises is logged."""

    def __init__(self, deliver: Callable[[list[Any]], None]) -> None:
        self._deliver = deliver
        self._uncommitted: defaultdict[str, Any] = defaultdict(weakref.WeakValueDictionary)

    def add(self, words: Iterable[Any], *, using: str = DEFAULT_DB_ALIAS) -> None:
        """Leave these, if there are any, for the end of this database's transaction."""
        added = _Words(words)
        if added.words:
            self._uncommitted[using][id(added)] = added
            transaction.on_commit(lambda: self._after_commit(added, using), using=using, robust=True)

    def _after_commit(self, first: _Words, using: str) -> None:
        if first.are_delivered:
            return
        together: list[_Words] = [*self._uncommitted.pop(using).values()]
        for added in together:
            added.are_delivered = True
        self._deliver(sorted(dict.fromkeys(word for added in together for word in added.words), key=str))
