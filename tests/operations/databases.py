"""Databases of their own for tests that dump, restore and migrate: Django's connection is moved to one for a block."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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
            drop(outside, name)


def drop(outside: "psycopg.Connection[Any]", name: str) -> None:
    """Drop a database, by way of another, whoever is connected to it. Not WITH (FORCE): that is refused while a worker
    of autovacuum is there, which is a superuser's; without it the server ends such workers itself."""
    mine = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND usename = current_user"
    outside.execute(mine, [name])
    outside.execute(sql.SQL("DROP DATABASE IF EXISTS {}").format(sql.Identifier(name)))


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
