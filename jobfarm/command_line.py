"""What `jobfarm` and `manage.py` do: one command, whose expected failures are one sentence and exit code 1."""

import gc
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import django
from django.core.management import execute_from_command_line
from django.db import DatabaseError, InterfaceError, connections
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.recorder import MigrationRecorder
from psycopg import errors

from core import commands
from core.refusal import Refusal
from postgres import embedded, reachability
from postgres.connections import close_before_fork
from postgres.errors import causes

# These may begin an embedded database where there is none. All others work on a farm, and say where they found none.
MAKERS: Final = frozenset({"start", "farm", "migrate", "restore", "test", "testserver", "makemigrations"})
# These wait for a database that is away. One that was never made, or never migrated, is said at once.
SERVERS: Final = frozenset({"web", "janitor", "cluster", "runserver"})
_NOT_THERE: Final = (errors.UndefinedTable, errors.UndefinedColumn, errors.UndefinedFunction)


def run(argv: Sequence[str]) -> str | None:
    """Run the command in `argv[1]`; the sentence with which the process is to end if it failed. Raises what no sentence
    explains, and everything with --traceback."""
    try:
        django.setup()
        gc.freeze()
        gc.enable()
        is_help = len(argv) < 2 or {"-h", "--help"} & set(argv)
        if sentence := _obstacle("help" if is_help else argv[1]):
            return sentence
        execute_from_command_line(list(argv))
    except Exception as error:
        if "--traceback" in argv:
            raise
        sentence = error.message if isinstance(error, Refusal) else reachability.explain_unreachable(error)
        if (sentence := sentence or _behind(error)) is None:
            raise
        return sentence
    return None


def _obstacle(command: str) -> str | None:
    """Keep the command to a farm that is there; why it is not started, if it should not be. Raises EmbeddedError."""
    if command not in MAKERS:
        embedded.forbid_new()
    if command not in SERVERS:
        return None
    embedded.require()
    with suppress(DatabaseError, InterfaceError):  # away: waited for
        if not MigrationRecorder(connections["default"]).has_table():
            return _lacking()
        if sentence := reachability.later_version():
            logging.getLogger(__name__).warning("%s It goes on, as while a farm is upgraded.", sentence)
    close_before_fork()
    return None


def _behind(error: Exception) -> str | None:
    """A sentence if `error` is of a table that a migration would make or change."""
    if not any(isinstance(cause, _NOT_THERE) for cause in causes(error)):
        return None
    connections.close_all()
    return _lacking()


def _lacking() -> str | None:
    executor = MigrationExecutor(connections["default"])
    missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if not missing:
        return None
    lacking = f"{reachability.server_name()} lacks {len(missing)} migrations of this version"
    return f"{lacking}: run {commands.MANAGE} migrate."
