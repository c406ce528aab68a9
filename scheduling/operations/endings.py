"""How a run that went wrong is recorded."""

import re
import traceback

import psycopg
from django.db import InterfaceError, OperationalError, transaction

from postgres.errors import causes
from scheduling.domain.states import Status
from scheduling.errors import OutcomeUnknown
from scheduling.operations import notifications
from scheduling.queries import functions
from scheduling.queries.functions import Ending, Holder

_LONGEST_ERROR = 10_000  # characters; of a traceback ten times that
_NOT_TEXT = re.compile(r"[\x00\ud800-\udfff]")  # what PostgreSQL cannot store as text
# SQLSTATE classes: connection exception, operator intervention (shutdown, crash, cannot connect now).
_AWAY = ("08", "57P")
# Insufficient resources (disk full, out of memory), system error (a disk that fails): the server's, not the function's.
_SHORT = ("53", "58")

UNKNOWN = Ending(
    status=Status.UNKNOWN,
    error=" ".join((OutcomeUnknown.__doc__ or "").split()),
    error_class=f"{OutcomeUnknown.__module__}.{OutcomeUnknown.__qualname__}",
)


def failed(error: BaseException) -> Ending:
    kind = type(error)
    sentence = _text(f"{kind.__name__}: {_text_of(error)}", _LONGEST_ERROR)
    trace = "".join(traceback.format_exception(error))
    name = f"{kind.__module__}.{kind.__qualname__}"
    return Ending(
        status=Status.FAILED, error=sentence, error_class=name[:200],
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
        if isinstance(cause, InterfaceError | psycopg.InterfaceError):
            return True
        if isinstance(cause, psycopg.OperationalError) and (
            cause.sqlstate is None or cause.sqlstate.startswith(_AWAY + _SHORT)
        ):
            return True
    return isinstance(error, OperationalError) and error.__cause__ is None


def is_short(error: BaseException) -> bool:
    """Whether `error` says that the server is there and short of something: its disk is full, say."""
    return any((getattr(cause, "sqlstate", None) or "").startswith(_SHORT) for cause in causes(error))


def _text_of(error: BaseException) -> str:
    """Its text; an exception may raise when it is asked for that."""
    try:
        return str(error)
    except Exception as fault:
        return f"its text raises {type(fault).__name__}"


def storable(text: str) -> str:
    """The text without what PostgreSQL cannot store."""
    return _NOT_TEXT.sub("\N{REPLACEMENT CHARACTER}", text)


def _text(text: str, longest: int, *, from_the_end: bool = False) -> str:
    text = storable(text)
    if len(text) <= longest:
        return text
    return f"[...] {text[-longest:]}" if from_the_end else f"{text[:longest]} [...]"
