"""What deliveries make: rows of what they tell of, activity, and jobs.

The statements are sql/upsert_resource.sql, sql/tombstone_resource.sql and sql/upsert_session.sql.
"""

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django.db.models import Count, Max, Q

from core.values import words
from postgres import statements
from webhooks.domain import rules, staleness
from webhooks.domain.deliveries import StartOutcome
from webhooks.domain.parts import ABSENT
from webhooks.domain.staleness import Version
from webhooks.models import Activity, Delivery, JobStart, Resource, Rule, SandboxTelemetry


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


Cursor = tuple[datetime, int]  # the moment and the id of the line at the edge


def write_activity(entries: Sequence[Activity]) -> None:
    """Store lines; those that their delivery emitted before stay as they are, so a replay adds none."""
    Activity.objects.bulk_create(entries, ignore_conflicts=True)


def newest_activity(
    *, limit: int, before: Cursor | None = None, search: str | None = None, **of: str
) -> list[Activity]:
    """Up to `limit` lines, the newest first; those before a cursor, of a source, of a resource, with a text in them."""
    rows = Activity.objects.filter(**of).order_by("-at", "-id")
    if search:
        rows = rows.filter(Q(actor__icontains=search) | Q(verb__icontains=search) | Q(object__icontains=search))
    if before:
        at, entry_id = before
        # The first condition is implied by the second, and is what the index is entered by.
        rows = rows.filter(Q(at__lte=at), Q(at__lt=at) | Q(id__lt=entry_id))
    return list(rows[:limit])


def count_activity(day: date, *by: str, most: int = 1000) -> list[dict[str, Any]]:
    groups = _of(day).values(*by).annotate(entries=Count("id")).order_by("-entries", *by)
    return list(groups[:most])


def activity_of_delivery(delivery: int) -> list[Activity]:
    return list(Activity.objects.filter(delivery=delivery).order_by("n"))


def _of(day: date) -> Any:
    start = datetime.combine(day, time(), tzinfo=UTC)
    return Activity.objects.filter(at__gte=start, at__lt=start + timedelta(days=1))


SHOWN = 200  # starts of one delivery or one job that a page lists


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


def starts_of_delivery(delivery: int) -> list[JobStart]:
    return list(JobStart.objects.filter(delivery_id=delivery).order_by("round", "pk")[:SHOWN])


def starts_of_job(job: int) -> list[JobStart]:
    """The deliveries that started a job, or that it stands for; those that were forgotten are left out."""
    rows = JobStart.objects.filter(job_id=job).select_related("delivery")
    rows = rows.defer("delivery__body", "delivery__search", "delivery__headers")
    return list(rows.filter(delivery__pk__isnull=False).order_by("pk")[:SHOWN])


def newest_starts(source: str, *, among: int) -> list[Delivery]:
    rows = Delivery.objects.defer("body", "search", "headers").filter(source=source)
    return list(rows.order_by("-pk")[:among])
