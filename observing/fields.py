"""What happens in this context is about something: a request, a job, a worker, a function, a delivery.

Whoever begins such work sets its fields once; every log line written on the way has it (observing.logs).
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Final

Value = str | int
# The names that log lines may have beside the usual ones, in the order in which they are shown.
NAMES: Final = (
    "request_id", "user", "token", "worker", "job_id", "kind", "function_id", "function", "source", "delivery_id",
)  # fmt: skip

_KNOWN: Final = frozenset(NAMES)
_about: ContextVar[Mapping[str, Value]] = ContextVar("observing_fields", default=MappingProxyType({}))


def current() -> Mapping[str, Value]:
    return _about.get()


# What was noted since `noting` began, in whichever thread: the threads of a request have contexts of their own.
_noted: ContextVar[dict[str, Value] | None] = ContextVar("observing_noted", default=None)


@contextmanager
def noting() -> Iterator[Mapping[str, Value]]:
    """What is noted in the block, also in its threads and tasks: it grows, for whoever writes a line at the end."""
    noted: dict[str, Value] = {}
    token = _noted.set(noted)
    try:
        yield noted
    finally:
        _noted.reset(token)


@contextmanager
def apart() -> Iterator[None]:
    """Begin in the block what outlives the request that needed it first: it is about nothing of that."""
    about_token, noted_token = _about.set(MappingProxyType({})), _noted.set(None)
    try:
        yield
    finally:
        _about.reset(about_token)
        _noted.reset(noted_token)


@contextmanager
def about(**fields: Value | None) -> Iterator[None]:
    """Set what the block is about, beside what is set already; None sets nothing."""
    before = _about.get()
    _add(fields)
    try:
        yield
    finally:
        _about.set(before)


def note(**fields: Value | None) -> None:
    """Add to what the rest of this context is about: for what is found out on the way, such as who calls. Raises
    ValueError for a name that is not in NAMES: dashboards are built on them."""
    known = _add(fields)
    if (noted := _noted.get()) is not None:
        noted.update(known)


def _add(fields: Mapping[str, Value | None]) -> Mapping[str, Value]:
    if unknown := fields.keys() - _KNOWN:
        raise ValueError(f"Log lines have no field {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}.")
    present = {name: value for name, value in fields.items() if value is not None}
    _about.set(MappingProxyType({**_about.get(), **present}))
    return present
