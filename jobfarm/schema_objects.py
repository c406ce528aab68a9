"""Which indexes and triggers the tables of the farm should have, by its models and migrations, and which it lacks."""

import re
from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import Any, Final

from django.apps import apps
from django.db.models import UniqueConstraint

from postgres import statements

_TRIGGER: Final = re.compile(r"^(CREATE(?: CONSTRAINT)?|DROP) TRIGGER (?:IF EXISTS )?(\w+)", re.MULTILINE)
_REVERSE: Final = "-- Reverse\n"


def missing() -> list[str]:
    """What should be there and is not, each as "index jobs_queued of jobs_job" or "trigger ..."."""
    rows = statements.load("jobfarm", "schema_objects").run()
    named = {(row.what, row.name) for row in rows if row.is_whole}
    begun = {(row.of_table, row.first_column) for row in rows if row.what == "index" and row.is_whole}
    return [
        *(f"index {name} of {table}" for table, name in named_indexes() if ("index", name) not in named),
        *(f"index on {column} of {table}" for table, column in indexed_columns() if (table, column) not in begun),
        *(f"trigger {name}" for name in triggers() if ("trigger", name) not in named),
    ]


@cache
def named_indexes() -> tuple[tuple[str, str], ...]:
    listed = []
    for meta in _tables():
        listed += [(meta.db_table, index.name) for index in meta.indexes]
        listed += [(meta.db_table, one.name) for one in meta.constraints if isinstance(one, UniqueConstraint)]
    return tuple(listed)


@cache
def indexed_columns() -> tuple[tuple[str, str], ...]:
    """(table, column) of primary keys, unique fields, those with an index of their own, and the first of those that are
    unique together."""
    listed = []
    for meta in _tables():
        fields = [field for field in meta.local_concrete_fields if field.unique or field.db_index]
        fields += [meta.get_field(names[0]) for names in meta.unique_together]
        fields += meta.pk_fields[:1]  # of a key of several columns
        listed += [(meta.db_table, field.column) for field in fields]
    return tuple(listed)


@cache
def triggers() -> tuple[str, ...]:
    """Those that the SQL files of the migrations make, in their order, and no later one drops."""
    listed: dict[str, None] = {}
    for text in _migrations():
        for verb, name in _TRIGGER.findall(text.partition(_REVERSE)[0]):
            if verb == "DROP":
                listed.pop(name, None)
            else:
                listed[name] = None
    return tuple(listed)


def _tables() -> list[Any]:
    """The Options of every model that has a table of its own; django-stubs knows less of them than they have."""
    options = [model._meta for model in apps.get_models(include_auto_created=True)]
    return [meta for meta in options if meta.managed and not meta.proxy]


def _migrations() -> Iterator[str]:
    for config in apps.get_app_configs():
        folder = resources.files(config.name) / "migrations"
        if folder.is_dir():
            for file in sorted(folder.iterdir(), key=lambda one: one.name):
                if file.name.endswith(".sql"):
                    yield file.read_text()
