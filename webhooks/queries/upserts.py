"""Writing what adapters tell: one statement for each resource, whatever was there before.

The statements are sql/upsert_resource.sql, sql/tombstone_resource.sql and sql/upsert_session.sql.
"""

import json
from datetime import UTC, datetime
from typing import Any

from postgres import statements
from webhooks.domain import staleness
from webhooks.domain.parts import ABSENT
from webhooks.domain.staleness import Version
from webhooks.models import Resource, SandboxTelemetry


def upsert(table: type[Resource], external_id: str, version: Version, /, **document: Any) -> bool:
    """Store of this state of a resource what no newer one has. Whether something was stored.

    `document` is what the state says of it; ABSENT is what it says nothing of, and is left as it is. A state of nothing
    but ABSENT makes the row if there is none. The same state again is not stored again. A deletion stays."""
    present = {name: _shown(value) for name, value in document.items() if value is not ABSENT}
    params = {
        "type": table.type_name(),
        "external_id": external_id,
        "document": json.dumps(present),
        # One that says nothing has no key, and so replaces nothing.
        "state_key": staleness.key(version, present) if present else "",
        "state_at": version.at if present else None,
    }
    return bool(statements.load("webhooks", "upsert_resource").run(params))


def tombstone(table: type[Resource], external_id: str, /, *, at: datetime) -> bool:
    """Store that a resource was deleted, also of an unknown one. Whether the row changed."""
    params = {"type": table.type_name(), "external_id": external_id, "at": at}
    return bool(statements.load("webhooks", "tombstone_resource").run(params))


def upsert_session(
    session_id: str, at: datetime, *, phase: str = "", phase_rank: int = 0, reason: str = "", bearer: str | None = None,
    **fields: str,
) -> bool:  # fmt: skip
    """Store an event's parts of an agent's session: `model`, `folder`, `sandbox` and the phase; "" is no part. Whether
    it may: a session is that of its first sandbox. `bearer` is the sandbox whose token the event came with; None: it is
    signed."""
    version = Version(at=at)
    parts = {"model": "", "folder": "", "sandbox": ""} | fields
    keys = {f"{part}_key": staleness.key(version, {part: value}) if value else "" for part, value in parts.items()}
    shown = {"phase": phase, "reason": reason}
    ranked = Version(at=at, number=bool(reason), rank=phase_rank)  # only an end has a reason
    phase_key = staleness.key(ranked, shown) if phase else ""
    params = {"external_id": session_id, "at": at, "phase_key": phase_key, "bearer": bearer} | shown | parts | keys
    return bool(statements.load("webhooks", "upsert_session").run(params))


def measure(invocations: list[SandboxTelemetry]) -> None:
    """Store the invocations of one delivery; those that are there already stay as they are."""
    SandboxTelemetry.objects.bulk_create(invocations, ignore_conflicts=True)


def _shown(value: Any) -> Any:
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else value
