"""Why PostgreSQL does not answer, in one sentence for the person who has to mend it."""

import logging
import re
from pathlib import Path
from pkgutil import iter_modules

import psycopg
from django.apps import apps
from django.conf import settings
from django.db import DatabaseError, InterfaceError, OperationalError, connections
from django.db.migrations.recorder import MigrationRecorder
from psycopg_pool import PoolTimeout

from postgres.errors import EmbeddedError, PostgresError, causes

# What libpq and the server say, and what that means to the one who set DATABASE_URL. The server may speak
# another language; when nothing here matches, the sentence ends with its message.
_MEANINGS = {
    r"failed to resolve|could not translate host name": (
        "cannot be found: check the host's name in DATABASE_URL, and that this machine can look it up"
    ),
    r"connection refused|no such file or directory": (
        "refuses connections: check that the server runs, and that host and port in DATABASE_URL are right"
    ),
    r"timeout expired|timed out|no route to host|network is unreachable": (
        "does not answer: check host and port in DATABASE_URL, and the firewalls on the way"
    ),
    r"authentication failed|no password supplied|no pg_hba\.conf entry": (
        "does not let this user in: check user and password in DATABASE_URL, and pg_hba.conf on the server"
    ),
    r'role ".*" does not exist': (
        "does not know this user: check the user in DATABASE_URL, or make it there (createuser)"
    ),
    r'database ".*" does not exist': (
        "has no such database: check its name in DATABASE_URL, or make it there (createdb)"
    ),
    r"too many clients|remaining connection slots|too many connections": (
        "has no connection left: raise max_connections there, or lower JOBFARM_DB_POOL here"
    ),
    r"no space left|could not write init file": "has no room left on its disk: make some",
    r"starting up|shutting down|recovery mode": "is starting or stopping: try again in a moment",
    r"ssl|certificate": "and this machine do not agree on encryption: check sslmode in DATABASE_URL",
}


# What PostgreSQL says to a statement while it shuts down or starts (class 57), of a connection that broke (08), of a
# full disk or too many connections (53), and of a file it cannot write (58).
_AWAY = ("57P0", "08", "53", "58")
# A server that only reads, as a standby does after a failover; a connection that idled in a transaction for too long.
_AWAY_FOR_NOW = frozenset({"25006", "25P03"})


def explain_unreachable(error: BaseException, *, using: str = "default") -> str | None:
    """One sentence that names host, port, database and user and says what to check; None if `error` says no such thing.

    `error` is what a query raised: a database error of Django or psycopg, or one of ours. The password is never in the
    sentence. For commands: print it and end with status 1."""
    for cause in causes(error):
        if isinstance(cause, PostgresError):
            return str(cause)
        if isinstance(cause, PoolTimeout):
            return f"{server_name(using)} answers, but this process has no connection left: raise JOBFARM_DB_POOL."
        # An error that the server gave to a statement has an SQLSTATE; one of connecting has none.
        if isinstance(cause, psycopg.OperationalError) and cause.sqlstate is None:
            message, otherwise = str(cause), f"cannot be used: {' '.join(str(cause).split())}"
            fitting = (meaning for words, meaning in _MEANINGS.items() if re.search(words, message, re.IGNORECASE))
            return f"{server_name(using)} {next(fitting, otherwise)}."
    return None


def is_away(error: BaseException) -> bool:
    """Whether `error` says that the database cannot serve just now, which passes, and is no fault of who asked."""
    # An error of ours says what a guard met that has statements only read: that does not pass.
    may_only_read = isinstance(error, DatabaseError)
    return any(
        isinstance(cause, PoolTimeout | EmbeddedError)
        or (isinstance(cause, psycopg.OperationalError) and (cause.sqlstate or _AWAY[0]).startswith(_AWAY))
        or (isinstance(cause, psycopg.Error) and may_only_read and cause.sqlstate in _AWAY_FOR_NOW)
        for cause in causes(error)
    )


class Outages(logging.Filter):
    """Makes one line of what is logged with a traceback because the database is away: each request of that time would
    have one, and each says the same."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep the record, with the reason in place of the traceback."""
        error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
        if error is not None and is_away(error):
            why = explain_unreachable(error) or " ".join(str(error).split())
            record.msg, record.args = f"{record.getMessage()}: {why}", ()
            record.exc_info = record.exc_text = None
        return True


def note_trouble(logger: logging.Logger, failure: str, error: Exception) -> bool:
    """Log `failure`: in one line where the database is away, with a traceback for any other error.

    Returns whether it is away: that passes."""
    is_away = isinstance(error, (InterfaceError, OperationalError, PoolTimeout, PostgresError, TimeoutError))
    if is_away:
        logger.warning("%s: %s", failure, explain_unreachable(error) or str(error).partition("\n")[0])
    else:
        logger.error("%s", failure, exc_info=error)
    return is_away


def later_version(using: str = "default") -> str | None:
    """A sentence if migrations of a later version than this code were applied to the database. The farm's own alone:
    of other apps a migration that was squashed or renamed leaves a name behind that may come after all that are there.
    """
    home, added = Path(__file__).parents[1], {each.partition(".")[0] for each in settings.JOBFARM_APPS}
    own = [app for app in apps.get_app_configs() if Path(app.path).parent == home and app.name not in added]
    here = {app.label: {one.name for one in iter_modules([f"{app.path}/migrations"])} for app in own}
    applied = MigrationRecorder(connections[using]).applied_migrations()
    later = sorted(f"{app}.{name}" for app, name in applied if name > max(here.get(app, ()), default=name))
    return f"{server_name(using)} is of a later version: this one has no {', '.join(later)}." if later else None


def server_name(using: str = "default") -> str:
    place = connections[using].settings_dict
    host = place["HOST"] or "the local socket"
    port = place["PORT"] or "5432"
    user = place["USER"] or "of this process"
    return f'PostgreSQL at {host}, port {port} (database "{place["NAME"]}", user "{user}")'
