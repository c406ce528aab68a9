"""The conditions there are. An app that knows of one registers it in its `alert_conditions.py`, found by itself."""

import logging
from collections.abc import Callable
from functools import cache
from typing import Final

from django.db import transaction
from django.utils.module_loading import autodiscover_modules

from alerts.domain.rules import Condition, Reading, Unknown
from postgres import transactions

# Takes the window in seconds. It reads what others have counted already: rules are judged every minute.
Reader = Callable[[int], Reading | Unknown]

log = logging.getLogger(__name__)
MODULE: Final = "alert_conditions"
READ_WITHIN_MS: Final = 5000  # one that takes longer leaves the others none of the time that judging has


_registered: dict[str, tuple[Condition, Reader]] = {}


def register(condition: Condition) -> Callable[[Reader], Reader]:
    """Decorate the reader of a condition: `(window_s) -> Reading`, or Unknown with why. Raises ValueError if another
    condition has its code."""

    def decorate(reader: Reader) -> Reader:
        if _registered.setdefault(condition.code, (condition, reader))[1] is not reader:
            raise ValueError(f"two conditions are called {condition.code!r}")
        return reader

    return decorate


def everything() -> list[Condition]:
    _discover()
    return [condition for condition, _ in _registered.values()]


def find(code: str) -> Condition | None:
    _discover()
    return _registered[code][0] if code in _registered else None


def read(code: str, *, window_s: int) -> Reading | Unknown:
    """What its reader returns now. One that fails, or asks the database for longer than READ_WITHIN_MS, leaves a line
    in the log, and nothing is known."""
    if find(code) is None:
        return Unknown(reason="No app knows this condition.")
    try:
        with transaction.atomic(), transactions.waiting_at_most(READ_WITHIN_MS, by="statement_timeout"):
            return _registered[code][1](window_s)
    except Exception as error:
        log.exception("The condition %s cannot be read", code)
        return Unknown(reason=f"It cannot be read: {type(error).__name__}. The log has its traceback.")


@cache
def _discover() -> None:
    """Once for a process, and not when it starts: few processes read a condition."""
    autodiscover_modules(MODULE)
