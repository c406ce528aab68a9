"""What `manage.py` does: one management command, whose expected failures are one sentence and exit code 1."""

import gc
from collections.abc import Sequence
from typing import Final

import django
from django.core.management import execute_from_command_line
from django.db import connections
from django.db.migrations.executor import MigrationExecutor
from psycopg import errors

from postgres import embedded, reachability
from postgres.errors import causes

# These may begin an embedded database where there is none. All others work on a farm, and say where they found none.
MAKERS: Final = frozenset({"farm", "migrate", "restore", "test", "testserver", "makemigrations"})
# These wait for a database that is away. One that was never made is said at once.
SERVERS: Final = frozenset({"web", "janitor", "cluster", "runserver"})
_NOT_THERE: Final = (errors.UndefinedTable, errors.UndefinedColumn, errors.UndefinedFunction)


def run(argv: Sequence[str]) -> str | None:
    """Run the command in `argv[1]`; the sentence with which the process is to end if it failed.

    Raises what no sentence explains, and everything with --traceback.
    """
    try:
        django.setup()
        gc.freeze()
        gc.enable()
        _keep_to_the_farm(argv[1] if len(argv) > 1 else "help")
        execute_from_command_line(list(argv))
    except Exception as error:
        sentence = (
            None if "--traceback" in argv else reachability.explain_unreachable(error) or _behind(error)
        )
        if sentence is None:
            raise
        return sentence
    return None


def _keep_to_the_farm(command: str) -> None:
    if command not in MAKERS:
        embedded.forbid_new()
    if command in SERVERS:
        embedded.require()


def _behind(error: Exception) -> str | None:
    """A sentence if `error` is of a table that a migration would make or change."""
    if not any(isinstance(cause, _NOT_THERE) for cause in causes(error)):
        return None
    connections.close_all()
    executor = MigrationExecutor(connections["default"])
    missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if not missing:
        return None
    return f"{reachability.server_name()} lacks {len(missing)} migrations of this version: run manage.py migrate."
