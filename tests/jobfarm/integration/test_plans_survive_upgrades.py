"""Statements that are planned once go on while a later release adds columns to the tables they read."""

import re
import uuid
from pathlib import Path

import pytest
from django.apps import apps
from django.conf import settings
from django.db import NotSupportedError, connection, transaction

from postgres import statements
from postgres.backend.prepared import numbered

pytestmark = pytest.mark.django_db(transaction=True)
PLANNED = re.compile(r"/\*.*?\*/\s*(WITH|SELECT|INSERT|UPDATE|DELETE)\b")  # not COPY, SET, NOTIFY


def _planned() -> list[statements.Statement]:
    files = sorted(Path(settings.BASE_DIR).glob("*/sql/*.sql"))
    loaded = [statements.load(file.parts[-3], file.stem) for file in files]
    return [statement for statement in loaded if PLANNED.match(statement.sql) and "{" not in statement.sql]


def _prepared(statement: statements.Statement) -> tuple[str, int]:
    text, names = numbered(statement.sql)
    name = f"kept_{uuid.uuid4().hex}"
    with connection.cursor() as cursor:
        cursor.execute(f"PREPARE {name} AS {text.decode()}")
    return name, len(names)


def test_no_statement_gives_whatever_columns_its_table_has() -> None:
    """PostgreSQL refuses a plan whose result has changed ("cached plan must not change result type"), and a server of
    the release before, with its connections open, would fail at every call of it until it is started again."""
    plans = {statement.name: _prepared(statement) for statement in _planned()}
    assert len(plans) > 60
    refused = []
    with transaction.atomic(), connection.cursor() as cursor:
        for table in {model._meta.db_table for model in apps.get_models()}:
            cursor.execute(f'ALTER TABLE "{table}" ADD COLUMN of_the_next_release integer')
        for statement, (name, parameters) in plans.items():
            values = f"({', '.join(['NULL'] * parameters)})" if parameters else ""
            try:
                with transaction.atomic():
                    cursor.execute(f"EXPLAIN EXECUTE {name}{values}")
            except NotSupportedError as error:
                refused.append(f"{statement}: {error}")
        transaction.set_rollback(True)
    assert refused == []
