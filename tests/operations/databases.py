"""Databases of their own for tests that dump, restore and migrate: Django's connection is moved to one for a block."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from django.apps import apps
from django.db import connection
from psycopg import sql

from postgres import connections
from tests.architecture.test_tidiness import tracked


def our_apps() -> frozenset[str]:
    """The labels of those whose migrations are in this repository."""
    ours = {path.parent.parent for path in tracked("*/migrations/__init__.py")}
    return frozenset(config.label for config in apps.get_app_configs() if Path(config.path) in ours)


@contextmanager
def empty_database(*, like: str = "template1") -> Iterator[str]:
    """A new database, dropped behind the block; its name. It has what that which it is `like` has."""
    name = f"{connection.settings_dict['NAME']}_{uuid.uuid4().hex[:8]}"
    quoted = sql.Identifier(name)
    with psycopg.connect(connections.conninfo(), dbname="postgres", autocommit=True) as outside:
        outside.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(quoted, sql.Identifier(like)))
        try:
            yield name
        finally:
            outside.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(quoted))


@contextmanager
def on(name: str) -> Iterator[None]:
    """Let the block work on this database. Not inside of a transaction."""
    before = connection.settings_dict["NAME"]
    assert not connection.in_atomic_block
    connection.close()
    connection.settings_dict["NAME"] = name
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict["NAME"] = before
