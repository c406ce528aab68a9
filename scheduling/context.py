"""Which scheduled function this thread runs: what it schedules has it as parent, what it does is watched."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from scheduling.domain.states import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """The scheduled function that runs here. `attempt` is 1 for the first try."""

    id: int
    function: str
    kind: Kind
    attempt: int


_running: ContextVar[Running | None] = ContextVar("scheduling_running", default=None)


def current() -> Running | None:
    """The scheduled function that runs in this context, if one does."""
    return _running.get()


@contextmanager
def running(what: Running) -> Iterator[None]:
    """Say what runs, for the length of the block."""
    token = _running.set(what)
    try:
        yield
    finally:
        _running.reset(token)
