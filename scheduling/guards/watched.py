"""Which function is watched here: in this context, and in the threads that it starts.

An asyncio task, `sync_to_async` and `asyncio.to_thread` take their caller's context along. A plain thread does not: it
is noted which function started it, until that function has ended.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from scheduling.domain.states import Kind


@dataclass(eq=False, slots=True)
class Watched:
    function: str
    kind: Kind
    is_over: bool = False


# Unset means that nobody has said anything here, and what started this thread counts; None, that nothing is watched.
_here: ContextVar[Watched | None] = ContextVar("scheduling_watched")
_starters: "WeakKeyDictionary[threading.Thread, Watched]" = WeakKeyDictionary()
_NOBODY = Watched(function="", kind=Kind.ACTION, is_over=True)


def current(kind: Kind) -> Watched | None:
    here = _here.get(_NOBODY)
    if here is _NOBODY:
        here = _starters.get(threading.current_thread())
    return here if here is not None and here.kind is kind and not here.is_over else None


@contextmanager
def running(function: str, kind: Kind) -> Iterator[None]:
    """Watch this function, for the length of the block. Threads of its that live longer are not watched any more."""
    here = Watched(function=function, kind=kind)
    try:
        with _set(here):
            yield
    finally:
        here.is_over = True


@contextmanager
def trusted() -> Iterator[None]:
    """For the scheduler's own statements, and for those of whoever knows what it does: nothing is watched."""
    with _set(None):
        yield


def started(thread: threading.Thread, by: Watched) -> None:
    _starters[thread] = by


def in_context(here: Watched, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a function where it is watched as what gave it here."""
    with _set(here):
        return function(*args, **kwargs)


@contextmanager
def _set(here: Watched | None) -> Iterator[None]:
    token = _here.set(here)
    try:
        yield
    finally:
        _here.reset(token)
