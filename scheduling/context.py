"""Which scheduled function this thread runs: what it schedules has it as parent, what it does is watched.

And which functions were scheduled while something else went on, for whoever wants to remember that.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from observing import fields
from scheduling.domain.calls import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A scheduled function that runs. `attempt` is 1 for the first try."""

    id: int
    function: str
    kind: Kind
    attempt: int


_running: ContextVar[Running | None] = ContextVar("scheduling_running", default=None)
_noted: ContextVar[list[int] | None] = ContextVar("scheduling_noted", default=None)


def current() -> Running | None:
    return _running.get()


@contextmanager
def running(call: Running) -> Iterator[None]:
    token = _running.set(call)
    try:
        with fields.about(function_id=call.id, function=call.function):
            yield
    finally:
        _running.reset(token)


@contextmanager
def noting() -> Iterator[list[int]]:
    """The ids of the functions that are scheduled in the block, as they come. Of blocks within each other, those of
    the inner one are its own."""
    made: list[int] = []
    token = _noted.set(made)
    try:
        yield made
    finally:
        _noted.reset(token)


def note(function_ids: Iterable[int]) -> None:
    if (made := _noted.get()) is not None:
        made.extend(function_ids)
