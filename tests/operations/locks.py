"""What a migration does to tables that are in use, read off its SQL (docs/adr/0034)."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from django.db import connection
from django.db.migrations import Migration
from django.db.migrations.state import ProjectState

_CREATED: Final = re.compile(r'CREATE TABLE (?:IF NOT EXISTS )?"?(\w+)"?', re.IGNORECASE)
_TABLE: Final = re.compile(
    r"(?:ALTER TABLE (?:ONLY )?|\bON (?:ONLY )?|UPDATE (?:ONLY )?|DELETE FROM |DROP TABLE (?:IF EXISTS )?|"
    r'INSERT INTO )"?(\w+)"?',
    re.IGNORECASE,
)
# What must not be done to a table in use, and what to do instead. Each holds a lock that everybody else waits for while
# it reads or writes the whole table, or takes from running nodes of the last version what they still use.
_FAULTS: Final = (
    (r"CREATE (UNIQUE )?INDEX (?!CONCURRENTLY)", "an index is built while writers wait: AddIndexInUse"),
    (r"DROP INDEX (?!CONCURRENTLY)", "an index is dropped under a lock: RemoveIndexConcurrently"),
    (r"ALTER COLUMN \S+ (SET DATA )?TYPE ", "the table is rewritten: add a column, fill it by steps, move over"),
    (r"ALTER COLUMN \S+ SET NOT NULL", "the table is read under a lock: a NOT VALID check, validated later"),
    (r"ADD COLUMN .* (GENERATED ALWAYS AS .* STORED|random\(|gen_random_uuid\(|clock_timestamp\()",
     "the table is rewritten: a column without that default, filled by steps"),
    (r"ADD COLUMN (?!.*DEFAULT)(?=.*NOT NULL)", "fails on rows that are there: give it a default"),
    (r"ADD CONSTRAINT \S+ (UNIQUE|PRIMARY KEY|EXCLUDE)(?!.*USING INDEX)",
     "an index is built while writers wait: build it concurrently, then USING INDEX"),
    (r"ADD CONSTRAINT \S+ (CHECK|FOREIGN KEY)(?!.*NOT VALID)",
     "the table is read under a lock: AddConstraintNotValid, then ValidateConstraint in the next migration"),
    (r"^\s*(UPDATE|DELETE FROM) ", "every row is locked until the end: do it by steps in a scheduled function"),
    (r"DROP COLUMN|DROP TABLE|RENAME (COLUMN|TO)", "running nodes of the last version still use it"),
)  # fmt: skip


def sql_of(migration: Migration, before: ProjectState) -> list[str]:
    """The statements of a migration, comments left out."""
    with connection.schema_editor(collect_sql=True, atomic=migration.atomic) as editor, _as_if_alone():
        migration.apply(before.clone(), editor, collect_sql=True)
    # A statement may come with others behind it, as RunSQL has them.
    whole = "\n".join(line for line in editor.collected_sql or [] if not line.startswith("--"))
    return [statement.strip() for statement in whole.split(";\n") if statement.strip()]


@contextmanager
def _as_if_alone() -> Iterator[None]:
    """What needs to be outside of a transaction refuses to be collected within a test's, though nothing is run."""
    before, connection.in_atomic_block = connection.in_atomic_block, False
    try:
        yield
    finally:
        connection.in_atomic_block = before


def faults(statements: Sequence[str]) -> Iterator[str]:
    """What these statements would do to tables that they did not make themselves: a sentence each."""
    made = {table for statement in statements for table in _CREATED.findall(statement)}
    for statement in statements:
        on = set(_TABLE.findall(statement)) - made
        if re.match("DROP INDEX", statement, re.IGNORECASE):  # which names no table
            on = {"an index"}
        if not on:
            continue
        for pattern, instead in _FAULTS:
            if re.search(pattern, statement, re.IGNORECASE | re.DOTALL):
                yield f"{' '.join(sorted(on))}: {instead}: {statement.splitlines()[0][:100]}"
