"""What goes wrong: a run ends by an error or after its time limit, and that is recorded; and of work for many in one
loop what fails is put aside with its reason, and the others are done all the same."""

import logging
import re
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import FrameType

import psycopg
from django.db import InterfaceError, OperationalError, connection, transaction

from core.refusal import Refusal
from observing.logs import in_short, sentence_of
from postgres import probe, transactions
from postgres.errors import causes
from scheduling import registry
from scheduling.domain.calls import Status
from scheduling.errors import OutcomeUnknown, SomeFailed
from scheduling.operations import notifications
from scheduling.queries import functions
from scheduling.queries.functions import Ending, Holder

log = logging.getLogger(__name__)
_MOST_ASIDE = 100  # in one run that is bounded: each is a traceback in the log
_SMALLER = 8  # times, after a batch that failed: one of 500 is found in four
_LONGEST_ERROR = 10_000  # characters; of a traceback ten times that
_NOT_TEXT = re.compile(r"[\x00\ud800-\udfff]")  # what PostgreSQL cannot store as text
_LOST = (InterfaceError, psycopg.InterfaceError, psycopg.errors.IdleInTransactionSessionTimeout)
# SQLSTATE classes: connection exception, operator intervention (shutdown, crash, cannot connect now).
_AWAY = ("08", "57P")
# Insufficient resources (disk full, out of memory), system error (a disk that fails): the server's, not the function's.
# A limit that the server is configured with (53400: temp_file_limit) is met each time.
_SHORT = ("530", "531", "532", "533", "58")

UNKNOWN = Ending(
    status=Status.UNKNOWN, error=OutcomeUnknown().message, error_class=registry.dotted_name(OutcomeUnknown)
)


def failed(error: BaseException) -> Ending:
    trace = "".join(traceback.format_exception(error))
    return Ending(
        status=Status.FAILED, error=_text(sentence_of(error), _LONGEST_ERROR),
        error_class=registry.dotted_name(type(error))[:200],
        traceback=_text(trace, 10 * _LONGEST_ERROR, from_the_end=True), raised=error,
    )  # fmt: skip


def write_failure(function_id: int, ending: Ending, *, by: Holder, elapsed_s: float | None) -> bool:
    """Write the failure of a function that still stands in the queue, and report that of a cron's; False if it does
    not stand there."""
    with transaction.atomic():
        row = functions.fail_pending(function_id, by=by, ending=ending, elapsed_s=elapsed_s)
        if row is not None:
            notifications.cron_failed(row.cron_id, function_id=function_id, error=ending.error)
    return row is not None


def is_away(error: BaseException) -> bool:
    """Whether `error` says that the database could not be reached, that the connection was lost, or that the server is
    short of something: another time it will do."""
    for cause in causes(error):
        if isinstance(cause, _LOST):
            return True
        if isinstance(cause, psycopg.OperationalError) and (
            cause.sqlstate is None or cause.sqlstate.startswith(_AWAY + _SHORT)
        ):
            return True
    return isinstance(error, OperationalError) and error.__cause__ is None


def is_short(error: BaseException) -> bool:
    """Whether `error` says that the server is there and short of something: its disk is full, say."""
    return any((getattr(cause, "sqlstate", None) or "").startswith(_SHORT) for cause in causes(error))


def is_shutdown(error: BaseException) -> bool:
    """Whether the server ended the session since it shuts down, and not that session alone."""
    is_ended = any(isinstance(cause, psycopg.errors.AdminShutdown) for cause in causes(error))
    return is_ended and not probe.takes_writes()


def is_refused_for_now(error: BaseException) -> bool:
    """Whether `error` says that the server takes no writes now, as after a failover, or has canceled it."""
    refused = psycopg.errors.ReadOnlySqlTransaction | psycopg.errors.QueryCanceled
    return any(isinstance(cause, refused) for cause in causes(error))


def _text(text: str, longest: int, *, from_the_end: bool = False) -> str:
    text = _NOT_TEXT.sub("\N{REPLACEMENT CHARACTER}", text)
    if len(text) <= longest:
        return text
    return f"[...] {text[-longest:]}" if from_the_end else f"{text[:longest]} [...]"


@contextmanager
def time_limit(within_s: float | None, error: Callable[[], BaseException], *, again_s: float = 0.0) -> Iterator[None]:
    """Raise `error()` in the block after so many seconds, and for who catches it every `again_s`; None is no limit.

    Signals reach only the main thread, which is where a cluster's workers run; in any other thread there is no limit.
    """
    if within_s is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def wake(_number: int, _frame: FrameType | None) -> None:
        raise error()

    before = signal.signal(signal.SIGALRM, wake)
    signal.setitimer(signal.ITIMER_REAL, within_s, again_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Failures:
    """What failed of it: the reason by name, in the order in which it failed."""

    def __init__(self) -> None:
        self.reasons: dict[str, str] = {}

    @contextmanager
    def aside(self, name: str) -> Iterator[None]:
        """Put aside what the block raises, with a line in the log; in a transaction, what the block wrote goes.

        Raised is what says nothing about this one: the database is away or short of something, or the transaction
        collided and is to be run again.
        """
        is_inside = connection.in_atomic_block
        try:
            with transaction.atomic() if is_inside else nullcontext():
                yield
        except Exception as error:
            if is_away(error) or (is_inside and transactions.collided(error)):
                raise
            self._note(name, error)

    def in_batches(self, step: Callable[[int, int], int], *, name: str, size: int, most: int) -> int:
        """`in_batches` of a `step(limit, skip)`, the oldest first, which skips so many that have failed alone."""
        skip = 0

        def put_aside(error: Exception) -> None:
            nonlocal skip
            skip += 1
            self._note(f"{name}, {skip}", error)

        return in_batches(lambda limit: step(limit, skip), put_aside, size=size, most=most)

    def _note(self, name: str, error: Exception) -> None:
        log.error("%s failed, and was put aside", name, exc_info=error)
        self.reasons[name] = reason_of(error)

    def raise_any(self) -> None:
        """Raise SomeFailed if anything did: whoever ran it has failed then, where people look for that."""
        if self.reasons:
            listed = "; ".join(f"{name}: {reason}" for name, reason in self.reasons.items())
            raise SomeFailed(reasons=listed)


def in_batches(
    step: Callable[[int], int], put_aside: Callable[[Exception], None], *, size: int, most: int | None = None,
    is_of_all: Callable[[Exception], bool] = is_away,
) -> int:  # fmt: skip
    """Let `step(limit)` take what is due, `size` at once, until less is left, or `most` times; how many it took.

    A batch that fails is taken in smaller ones. `put_aside` is called for what fails alone, and makes later steps pass
    that over; with `most` for a hundred at most. What `is_of_all` is raised: it says nothing about one.
    """
    done, limit, steps, aside = 0, size, 0, 0
    while most is None or (steps < most and aside < _MOST_ASIDE):
        try:
            taken = step(limit)
        except Exception as error:
            if is_of_all(error):
                raise
            if limit == 1:
                put_aside(error)
                aside += 1
            limit = max(1, limit // _SMALLER)
            continue
        steps += 1
        done += taken
        if taken < limit:
            break
        limit = min(size, limit * _SMALLER)
    return done


def reason_of(error: Exception) -> str:
    """Why something failed, as one line that PostgreSQL stores, its middle left out where it is long; a refusal is a
    sentence without its class."""
    line = " ".join((failed(error).error or "").split())
    return in_short(line.removeprefix(f"{type(error).__name__}: ") if isinstance(error, Refusal) else line)
