"""Guards that fail loudly: a mutation does nothing that a rollback leaves behind, an action writes by mutations alone.

On in development and tests; SCHEDULING_GUARDS turns them on or off. What they see and what passes them is in
docs/scheduling.md.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache, partial

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections

from scheduling.domain.states import Kind
from scheduling.guards import database, python, watched
from scheduling.guards.watched import trusted

__all__ = ["action", "mutation", "trusted"]


@contextmanager
def mutation(function: str) -> Iterator[None]:
    """For the length of the block, leaving the transaction raises: OutsideConnection for the network, OutsideProcess,
    OutsideThread, and SecondConnection for another way into a database."""
    if not settings.SCHEDULING_GUARDS:
        yield
        return
    _install()
    with watched.running(function, Kind.MUTATION), ExitStack() as stack:
        for connection in connections.all():
            if connection.alias != DEFAULT_DB_ALIAS:
                refuse = partial(database.refuse_alias, connection.alias)
                stack.enter_context(connection.execute_wrapper(refuse))
        yield


@contextmanager
def action(function: str) -> Iterator[None]:
    """For the length of the block, writing to the farm's database raises WriteOutsideMutation: here, in the threads
    that the block starts, and in those of executors that it gives work to."""
    if not settings.SCHEDULING_GUARDS:
        yield
        return
    _install()
    with watched.running(function, Kind.ACTION):
        yield


@cache
def _install() -> None:
    """Once in a process, for good: an audit hook cannot be taken away again."""
    python.install()
    database.install()
