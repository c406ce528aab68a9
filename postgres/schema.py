"""Changing tables that are in use: waiting for a lock no longer than others can wait behind us."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import resources
from typing import Any, Final, TypeVar

import django.db
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import OperationalError, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations import RunSQL
from django.db.migrations.state import ProjectState
from psycopg.conninfo import conninfo_to_dict

from postgres import configuration, connections
from postgres.errors import LockedOut, causes

T = TypeVar("T")

# An ALTER TABLE that waits for a lock makes all wait who come after it, readers too; so it gives up soon, lets them
# pass, and tries again. Together a little over five minutes.
LOCK_TIMEOUT_MS: Final = 2000
ATTEMPTS: Final = 60
PAUSE_S: Final = 3.0
REVERSE: Final = "-- Reverse\n"  # the line between the two halves of a migration's SQL file
_LOCK_NOT_AVAILABLE: Final = "55P03"
# Any number that nobody else takes: whoever changes tables holds this lock, so two machines that are brought up at once
# do it one after the other.
_MIGRATION_LOCK: Final = 0x6A6F626661726D


def loose(to: Any, on_delete: Any = models.DO_NOTHING, *, db_index: bool = False, **options: Any) -> Any:
    """A foreign key that the ORM follows and the database does not check."""
    return models.ForeignKey(to, on_delete, db_constraint=False, db_index=db_index, **options)


@contextmanager
def changing(*, using: str = "default") -> Iterator[None]:
    """Let the block change tables: alone, past a pooler in transaction mode (DATABASE_DIRECT_URL), and without waiting
    for any lock longer than LOCK_TIMEOUT_MS; what waited longer raises OperationalError (see `patiently`).

    The connection is this thread's own of Django, and as before afterwards.
    """
    with _own_session(django.db.connections[using]):
        with django.db.connections[using].cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(%s)", [_MIGRATION_LOCK])
            cursor.execute("SELECT set_config('lock_timeout', %s, false)", [f"{LOCK_TIMEOUT_MS}ms"])
        yield  # the lock and the setting end with the session


def patiently(
    change: Callable[[], T], *, attempts: int = ATTEMPTS, pause_s: float = PAUSE_S, report: Callable[[str], None]
) -> T:
    """What `change` returns. While others hold a lock that it needs, it is retried after a pause, so it must be
    able to go on where it stopped. Raises LockedOut after so many attempts."""
    for attempt in range(1, attempts + 1):
        try:
            return change()
        except OperationalError as error:
            if all(getattr(cause, "sqlstate", None) != _LOCK_NOT_AVAILABLE for cause in causes(error)):
                raise
        if attempt < attempts:
            report(f"A table is in use; trying again ({attempt} of {attempts})")
            time.sleep(pause_s)
    raise LockedOut(attempts=attempts)


def sql_file(app: str, name: str) -> RunSQL:
    """What a migration does that Django's models cannot say: the operation that runs `<app>/migrations/<name>.sql`.

    Applied, it runs the part above the line `-- Reverse`; taken back, the part below. From the release on that has the
    migration the file is never changed. Raises FileNotFoundError, and ValueError for a file without the line."""
    text = resources.files(app).joinpath("migrations", f"{name}.sql").read_text(encoding="utf-8")
    forwards, backwards = text.split(REVERSE)
    return RunSQL(forwards, backwards)


def functions_of(app: str, name: str, *functions: str) -> str:
    """The statements that make these functions again as a migration's SQL file has them: what takes back a later one
    that replaced them. Raises ValueError where the file has no such function."""
    text = resources.files(app).joinpath("migrations", f"{name}.sql").read_text(encoding="utf-8")
    made = [text[text.index(f"FUNCTION {one}(") :].split("$$;", 1)[0] for one in functions]
    return "\n".join(f"CREATE OR REPLACE {one}$$;" for one in made)


class AddIndexInUse(AddIndexConcurrently):
    """An index on a table that is in use. Unlike Django's own it may be run again: what an interrupted run left is
    an invalid index, which costs every write and serves no read, and would be in the way of its successor.

    In a migration with `atomic = False`.
    """

    def database_forwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        """Build it while others write. Waiting for them holds nobody up, so it may take as long as it takes."""
        quoted = schema_editor.quote_name(str(self.index.name))
        with schema_editor.connection.cursor() as cursor:
            cursor.execute("SHOW lock_timeout")
            [before] = cursor.fetchone() or ["0"]
        schema_editor.execute("SET lock_timeout = 0", params=None)
        schema_editor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {quoted}", params=None)
        super().database_forwards(app_label, schema_editor, from_state, to_state)
        schema_editor.execute(f"SET lock_timeout = '{before}'", params=None)


@contextmanager
def _own_session(wrapper: Any) -> Iterator[None]:
    """Use a session of its own, past every pool: it is what the lock and the setting belong to."""
    pooled = wrapper.settings_dict  # of all threads; this one's wrapper gets another
    wrapper.close()
    own = pooled
    if os.environ.get("DATABASE_DIRECT_URL"):
        own = pooled | configuration.entry(conninfo_to_dict(connections.direct_conninfo(wrapper.alias)))
    wrapper.settings_dict = own | {"OPTIONS": {**own["OPTIONS"], "pool": False}}
    try:
        yield
    finally:
        wrapper.close()
        wrapper.settings_dict = pooled
