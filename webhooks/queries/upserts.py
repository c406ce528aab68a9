"""Writing what adapters tell: one statement for each resource, whatever was there before.

The statements are sql/upsert_resource.sql, sql/tombstone_resource.sql and sql/upsert_session.sql.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from typing import Any

from django.db import connection
from django.db.models import Field

from postgres import statements
from webhooks.domain import staleness
from webhooks.domain.payloads.base import ABSENT
from webhooks.domain.staleness import Version
from webhooks.models import Resource, SandboxTelemetry

# What every resource has beside what its sender says of it.
_COMMON = frozenset({"id", "external_id", "state_key", "state_at", "column_keys", "deleted_at"})
# The column of a state goes where its key is greater: one of these for each column (sql/upsert_resource.sql).
_NEWER = """"{column}" = CASE WHEN coalesce((kept.column_keys ->> '{column}') COLLATE "C", kept.state_key)
        < coalesce((excluded.column_keys ->> '{column}') COLLATE "C", excluded.state_key)
        THEN excluded."{column}" ELSE kept."{column}" END"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEvent:
    """The parts of an agent's session in one event; "" is no part. `bearer` is the sandbox whose
    token it came with; None: it is signed."""

    session_id: str
    at: datetime
    phase: str = ""
    phase_rank: int = 0
    reason: str = ""
    model: str = ""
    folder: str = ""
    sandbox: str = ""
    bearer: str | None = None


def upsert(table: type[Resource], external_id: str, version: Version, /, **columns: Any) -> bool:
    """Store of this state of a resource what no newer one has. Whether something was stored.

    `columns` are all that the table has besides those of every Resource, a reference as `<name>_id`; ABSENT is what
    this state says nothing of, and is left as it is. A state of nothing but ABSENT makes the row if there is none. The
    same state again is not stored again. A deletion stays."""
    fields = _fields(table, but=frozenset({"id", "deleted_at"}))
    present = {name: value for name, value in columns.items() if value is not ABSENT}
    absent = {field.attname: field.get_default() for field in fields if columns.get(field.attname) is ABSENT}
    values = absent | present | _of_state(external_id, version, present, absent)
    return bool(_statement("upsert_resource", table, fields).run(_values(fields, values)))


def tombstone(table: type[Resource], external_id: str, /, *, at: datetime) -> bool:
    """Store that a resource was deleted, also of an unknown one. Whether the row changed."""
    fields = _fields(table, but=frozenset({"id"}))
    blank = table(external_id=external_id, deleted_at=at)
    values = {field.attname: getattr(blank, field.attname) for field in fields}
    return bool(_statement("tombstone_resource", table, fields).run(_values(fields, values)))


def upsert_session(event: SessionEvent, /) -> bool:
    """Store an event's parts of a session. Whether it may: a session is that of its first sandbox."""
    version = Version(at=event.at)
    parts = {"model": event.model, "folder": event.folder, "sandbox": event.sandbox}
    keys = {f"{part}_key": staleness.key(version, {part: value}) if value else "" for part, value in parts.items()}
    phase = {"phase": event.phase, "reason": event.reason}
    ranked = Version(at=event.at, number=bool(event.reason), rank=event.phase_rank)  # only an end has a reason
    phase_key = staleness.key(ranked, phase) if event.phase else ""
    params = {"external_id": event.session_id, "at": event.at, "phase_key": phase_key} | phase | parts | keys
    return bool(statements.load("webhooks", "upsert_session").run(params | {"bearer": event.bearer}))


def measure(invocations: list[SandboxTelemetry]) -> None:
    """Store the invocations of one delivery; those that are there already stay as they are."""
    SandboxTelemetry.objects.bulk_create(invocations, ignore_conflicts=True)


def prune_telemetry(*, before: datetime, limit: int) -> int:
    """Delete the oldest `limit` invocations of before a moment; how many that were."""
    oldest = SandboxTelemetry.objects.filter(at__lt=before).order_by("at", "id")[:limit]
    return SandboxTelemetry.objects.filter(pk__in=oldest.values("pk")).delete()[0]


def _of_state(
    external_id: str, version: Version, present: Mapping[str, Any], absent: Mapping[str, Any]
) -> dict[str, Any]:
    """What a state writes beside its columns. One that says nothing has no key, and so replaces nothing."""
    if not present:
        return {"external_id": external_id, "state_key": "", "state_at": None, "column_keys": None}
    return {
        "external_id": external_id,
        "state_key": staleness.key(version, present),
        "state_at": version.at,
        "column_keys": dict.fromkeys(sorted(absent), "") or None,
    }


@cache
def _fields(table: type[Resource], *, but: frozenset[str]) -> tuple["Field[Any, Any]", ...]:
    fields = table._meta.concrete_fields  # noqa: SLF001 (Django documents _meta)
    return tuple(field for field in fields if field.attname not in but)


@cache
def _statement(name: str, table: type[Resource], fields: tuple["Field[Any, Any]", ...]) -> statements.Statement:
    """The statement for one table. Its names come from the model, never from outside."""
    shape = statements.load("webhooks", name)
    db_table = table._meta.db_table  # noqa: SLF001
    columns = [field.column for field in fields]
    sql = shape.sql.format(
        table=db_table,
        columns=", ".join(f'"{column}"' for column in columns),
        values=", ".join(f"%({column})s" for column in columns),
        newer=",\n    ".join(_NEWER.format(column=name) for name in columns if name not in _COMMON),
    )
    return replace(shape, name=f"{shape.name} {db_table}", sql=sql)


def _values(fields: tuple["Field[Any, Any]", ...], values: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters. Raises TypeError if a column is missing or unknown: a state is whole or it is none."""
    if values.keys() != {field.attname for field in fields}:
        wrong = sorted(values.keys() ^ {field.attname for field in fields})
        raise TypeError(f"these columns are missing or unknown: {', '.join(wrong)}")
    return {str(field.column): field.get_db_prep_save(values[field.attname], connection) for field in fields}
