"""Statements that are planned once go on while a later release adds columns to the tables they read."""

import re
import uuid
from pathlib import Path

import psycopg
import pytest
from django.apps import apps
from django.conf import settings
from django.db import connection
from psycopg.errors import FeatureNotSupported

from postgres import statements
from postgres.backend.trips import numbered

pytestmark = pytest.mark.django_db(transaction=True)
PLANNED = re.compile(r"/\*.*?\*/\s*(WITH|SELECT|INSERT|UPDATE|DELETE)\b")  # not COPY, SET, NOTIFY


def _planned() -> list[statements.Statement]:
    files = sorted(Path(settings.BASE_DIR).glob("*/sql/*.sql"))
    loaded = [statements.load(file.parts[-3], file.stem) for file in files]
    return [statement for statement in loaded if PLANNED.match(statement.sql) and "{" not in statement.sql]


def _prepared(session: psycopg.Connection, statement: statements.Statement) -> tuple[str, int]:
    text, names = numbered(statement.sql)
    name = f"kept_{uuid.uuid4().hex}"
    session.execute(f"PREPARE {name} AS {text.decode()}")
    return name, len(names)


def _refusal(session: psycopg.Connection, name: str, parameters: int) -> str | None:
    values = f"({', '.join(['NULL'] * parameters)})" if parameters else ""
    try:
        with session.transaction():
            session.execute(f"EXPLAIN EXECUTE {name}{values}")
    except FeatureNotSupported as error:
        return str(error)
    return None


def test_no_statement_gives_whatever_columns_its_table_has() -> None:
    """PostgreSQL refuses a plan whose result has changed ("cached plan must not change result type"), and a server of
    the release before, with its connections open, would fail at every call of it until it is started again.

    On a connection of its own, where psycopg prepares nothing: after an ALTER it forgets what it has prepared, by
    DEALLOCATE ALL, and that takes these too.
    """
    with psycopg.connect(**{**connection.get_connection_params(), "prepare_threshold": None}) as session:
        plans = {statement.name: _prepared(session, statement) for statement in _planned()}
        assert len(plans) > 60
        for table in {model._meta.db_table for model in apps.get_models() if model._meta.managed}:
            session.execute(f'ALTER TABLE "{table}" ADD COLUMN of_the_next_release integer')
        refusals = {statement: _refusal(session, *plan) for statement, plan in plans.items()}
        session.rollback()
    assert {statement: why for statement, why in refusals.items() if why} == {}
