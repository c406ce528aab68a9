"""A migrated database that is copied: the migrations take eight seconds, a copy takes half of one, and each process of
a run needs its own.

It stays on the server, named after all that migrations are made of; a run that finds none of that name makes it.
"""

import hashlib
import os
import sys
from functools import cache
from pathlib import Path

import psycopg
from django.conf import settings
from django.db import connection
from psycopg import sql

from jobfarm.environment import table as farms_places
from postgres import connections
from postgres.embedded import places
from tests import emptying

Server = psycopg.Connection[tuple[object, ...]]

ROOT = Path(__file__).resolve().parent.parent
_PREFIX = "jobfarm_template_"
# Any number that nobody else takes. Who copies the template holds it shared; who makes it or drops another, alone.
_LOCK = 0x74656D706C6174
# A server of tests may lose what it has when its machine loses power. When it is killed it loses nothing all the same.
_LEFT_OUT = ("fsync", "full_page_writes")
# Of apps and of apps in a folder; to look through every folder took a second of each process.
_MADE_FROM = [
    f"{place}/{what}" for place in ("*", "*/*") for what in ("migrations/*.py", "migrations/*.sql", "sql/*.sql")
]


@cache
def name() -> str:
    """The template's name: another one whenever a migration, a statement or a dependency changes. A run whose
    statements are altered on purpose says which (tests/mutants)."""
    if altered := os.environ.get("JOBFARM_TEST_TEMPLATE"):
        return _PREFIX + altered
    digest = hashlib.sha256()
    for path in sorted(path for kind in _MADE_FROM for path in ROOT.glob(kind)):
        digest.update(path.read_bytes())
    # The name of its folder says a package's version; to read what is in the folders took half a second.
    for package in sorted({path.name for folder in sys.path for path in Path(folder).glob("*.dist-info")}):
        digest.update(package.encode())
    return _PREFIX + digest.hexdigest()[:16]


def turn() -> Server:
    """A session that keeps the template from being dropped until it is closed. Where there is no template it has the
    right to make it: of several runs that begin at once the first makes it, and the others wait here."""
    server = psycopg.connect(connections.conninfo(), dbname="postgres", autocommit=True)
    server.execute("SELECT pg_advisory_lock_shared(%s)", [_LOCK])
    if not is_there(server):
        server.execute("SELECT pg_advisory_unlock_shared(%s)", [_LOCK])
        server.execute("SELECT pg_advisory_lock(%s)", [_LOCK])
    return server


def is_there(server: Server) -> bool:
    """Whether there is a template to copy."""
    return server.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name()]).fetchone() is not None


def make(server: Server) -> None:
    """Copy the test database, which is migrated and otherwise empty, in place of the templates of other versions."""
    for (older,) in server.execute("SELECT datname FROM pg_database").fetchall():
        if str(older).startswith(_PREFIX):
            server.execute(sql.SQL("DROP DATABASE {}").format(sql.Identifier(str(older))))
    connection.close()  # nobody may be connected to what is copied
    connection.close_pool()  # type: ignore[attr-defined]  # PostgreSQL's
    names = {"name": sql.Identifier(name()), "source": sql.Identifier(str(connection.settings_dict["NAME"]))}
    server.execute(sql.SQL("CREATE DATABASE {name} TEMPLATE {source}").format(**names))


def may_lose_what_it_has() -> bool:
    """Whether the server is one of tests alone: embedded, and not where this checkout has a farm of its own."""
    is_embedded = bool(settings.DATABASES["default"].get("EMBEDDED"))
    return is_embedded and farms_places.data_folder() != settings.JOBFARM_DATA


def write_without_waiting_for_the_disk() -> None:
    """Let the embedded server of the tests, and no other, hand its files to the operating system and go on; and empty
    its tables quickly."""
    if not may_lose_what_it_has():
        return
    with psycopg.connect(connections.conninfo(), user=places.SUPERUSER, dbname="postgres", autocommit=True) as server:
        for setting in _LEFT_OUT:
            server.execute(sql.SQL("ALTER SYSTEM SET {} = off").format(sql.Identifier(setting)))
        server.execute("SELECT pg_reload_conf()")
        emptying.allow(server)
