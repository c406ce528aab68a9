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
NAMES: Final = ("request_id", "worker", "job_id", "kind", "function_id", "function", "source", "delivery_id")

_about: ContextVar[Mapping[str, Value]] = ContextVar("observing_fields", default=MappingProxyType({}))


def current() -> Mapping[str, Value]:
    """What the work in this context is about."""
    return _about.get()


@contextmanager
def about(**fields: Value | None) -> Iterator[None]:
    """Set what the block is about, beside what is set already; None sets nothing."""
    before = _about.get()
    note(**fields)
    try:
        yield
    finally:
        _about.set(before)


def note(**fields: Value | None) -> None:
    """Add to what the rest of this context is about: for what is found out on the way, such as who calls.

    Raises ValueError for a name that is not in NAMES: dashboards are built on them.
    """
    unknown = fields.keys() - set(NAMES)
    if unknown:
        raise ValueError(
            f"Log lines have no field {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}."
        )
    present = {name: value for name, value in fields.items() if value is not None}
    _about.set(MappingProxyType({**_about.get(), **present}))
