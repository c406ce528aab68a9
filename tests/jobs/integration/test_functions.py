"""jobs/migrations/functions.sql, where people read the heart's functions and triggers: it is what the database has."""

import re

import pytest
from django.db import connection

from scripts import generated

pytestmark = pytest.mark.django_db
_DEFINITIONS = """
SELECT p.oid::regprocedure::text, pg_get_functiondef(p.oid) FROM pg_proc AS p
WHERE p.pronamespace = 'public'::regnamespace AND p.proname LIKE 'jobs\\_%'
UNION ALL
SELECT t.tgname, pg_get_triggerdef(t.oid) FROM pg_trigger AS t
WHERE NOT t.tgisinternal AND t.tgrelid::regclass::text LIKE 'jobs\\_%'
"""


def _definitions() -> dict[str, str]:
    with connection.cursor() as cursor:
        cursor.execute(_DEFINITIONS)
        return dict(cursor.fetchall())


def test_the_file_is_what_the_migrations_make_of_it() -> None:
    assert generated.FUNCTIONS.read_text(encoding="utf-8") == generated.functions(), "make docs"


def test_the_file_has_every_function_and_trigger_as_the_database_has_it() -> None:
    text, before = generated.functions(), _definitions()
    for name in re.findall(r"^CREATE (?:CONSTRAINT )?TRIGGER (\w+)", text, re.MULTILINE):
        table = before[name].partition(" ON ")[2].split()[0]
        with connection.cursor() as cursor:
            cursor.execute(f"DROP TRIGGER {name} ON {table}")
    with connection.cursor() as cursor:
        cursor.execute(text.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION"))
    assert _definitions() == before
    assert len(re.findall("^CREATE ", text, re.MULTILINE)) == len(before) > 60
