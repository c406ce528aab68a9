"""What deliveries make: rows of what they tell of, activity, and jobs.

The statements are sql/upsert_resource.sql, sql/tombstone_resource.sql and sql/upsert_session.sql.
"""

import json
from datetime import UTC, datetime
from typing import Any

from django.db.models import Max

from core.values import words
from postgres import statements
from webhooks.domain import rules
from webhooks.domain.deliveries import StartOutcome
from webhooks.domain.parts import ABSENT, Version, state_key
from webhooks.models import JobStart, Resource, Rule


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
        "state_key": state_key(version, present) if present else "",
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
    keys = {f"{part}_key": state_key(version, {part: value}) if value else "" for part, value in parts.items()}
    shown = {"phase": phase, "reason": reason}
    ranked = Version(at=at, number=bool(reason), rank=phase_rank)  # only an end has a reason
    phase_key = state_key(ranked, shown) if phase else ""
    params = {"external_id": session_id, "at": at, "phase_key": phase_key, "bearer": bearer} | shown | parts | keys
    return bool(statements.load("webhooks", "upsert_session").run(params))


def _shown(value: Any) -> Any:
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else value


def enabled_rules(**of: str) -> list[rules.Rule]:
    return [as_rule(row) for row in Rule.objects.select_related("owner").filter(is_enabled=True, **of).order_by("pk")]


def rule(pk: int) -> rules.Rule | None:
    row = Rule.objects.select_related("owner").filter(pk=pk).first()
    return None if row is None else as_rule(row)


def as_rule(row: Rule) -> rules.Rule:
    return rules.Rule(
        key=row.key, name=row.name, source=row.source, event=row.event, kind=row.kind,
        flow_template=row.flow_template, signal=row.signal, signal_key=row.signal_key, template=row.payload,
        filter=row.filter, queue=row.queue or None, priority=row.priority, unique_key=row.unique_key or None,
        on_conflict=row.on_conflict or None, debounce=row.debounce or None,
        owner=row.owner.get_username() if row.owner else None, pk=row.pk, tags=words(row.tags),
    )  # fmt: skip


def keep_start(
    rule: rules.Rule, *, delivery: int, round_: int, outcome: StartOutcome, job: int | None, error: str | None
) -> bool:
    """Keep what became of a rule and a delivery in this round; False if that was kept before."""
    params = {"delivery": delivery, "rule": rule.pk, "rule_key": rule.key, "rule_name": rule.name, "round": round_}
    params |= {
        "kind": rule.kind or rule.flow_template or rule.signal,
        "outcome": outcome.value,
        "job": job,
        "error": error,
    }
    return bool(statements.load("webhooks", "keep_start").run(params))


def later_start(rule_key: str, unique_key: str, *, delivery: int, round_: int) -> int | None:
    """The newest job with this key that the rule started in this round for a delivery that came after this one."""
    later = JobStart.objects.filter(delivery_id__gt=delivery, rule_key=rule_key, round=round_)
    started = later.filter(outcome=StartOutcome.STARTED, job__unique_key=unique_key)
    newest: int | None = started.aggregate(newest=Max("job_id"))["newest"]  # by the index of deliveries: mostly none
    return newest
