"""What pages read: deliveries without their bodies, a body's beginning, and how sources and replays do."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from django.apps import apps
from django.contrib.admin.models import LogEntry
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import FieldDoesNotExist
from django.db.models import BinaryField, F, Model, Q, QuerySet
from django.db.models.functions import Substr

from postgres import statements
from scheduling.models import ScheduledFunction
from scheduling.queries.pages import Chain
from webhooks.domain.deliveries import Filter, Source
from webhooks.models import Activity, Delivery, Refusal, SandboxToken, Secret
from webhooks.queries import inbox

HEALTH_SAMPLE: Final = 500  # of each source: deliveries from which its health is computed
RARE: Final = 1000  # deliveries that a word is in
COUNTED: Final = 10_000  # deliveries that a page counts one by one
_TOKENS: Final = 200


class Replay(Chain):
    FUNCTION = "webhooks.operations.attempts.replay_batch"

    @property
    def wanted(self) -> Filter:
        return Filter.of_json(self.arguments["wanted"])


def arrivals(wanted: Filter, *, before: int | None, limit: int) -> list[Delivery]:
    """The deliveries that a filter names, newest first, without bodies and headers; those before an id."""
    matches = by_words(inbox.matching(wanted).defer("body", "search", "headers", "body_sha256"), wanted.text)
    if wanted.received_from or wanted.received_to:
        return list(_by_time(matches, before=before)[:limit])
    return list((matches if before is None else matches.filter(pk__lt=before))[:limit])


def by_words(matches: "QuerySet[Delivery]", text: str) -> "QuerySet[Delivery]":
    """What a rare word is in is asked of its index first, and is all there is. A frequent one is found at once on the
    way back from the newest; for a rare one that way is long, and the planner cannot tell which of them it is."""
    if not text:
        return matches
    rows = Delivery.objects.filter(inbox.with_text(text)).order_by()
    ids = list(rows.values_list("pk", flat=True)[: RARE + 1])
    return matches if len(ids) > RARE else matches.filter(pk__in=ids)


def delivery(pk: int) -> Delivery | None:
    rows = Delivery.objects.select_related("secret").defer("body", "search", "secret__sealed")
    return rows.filter(pk=pk).first()


def body_start(pk: int, *, most: int) -> bytes:
    rows = Delivery.objects.filter(pk=pk).annotate(start=Substr("body", 1, most, output_field=BinaryField()))
    return bytes(rows.values_list("start", flat=True).first() or b"")


def resources(entries: Sequence[Activity]) -> list[dict[str, Any]]:
    """The rows that these lines speak of, each once, as they are now; those that are not kept are left out. `sort` is
    what kind of thing it is in words, `is_deleted` whether it was deleted at its sender."""
    by_kind: dict[str, dict[str, None]] = {}
    for entry in entries:
        if entry.kind and entry.resource:
            by_kind.setdefault(entry.kind, {})[entry.resource] = None
    return [resource for kind, ids in by_kind.items() for resource in named(kind, list(ids))]


def audit(model: type[Model], pk: int) -> list[LogEntry]:
    about = ContentType.objects.get_for_model(model)
    entries = LogEntry.objects.filter(content_type=about, object_id=str(pk)).select_related("user")
    return list(entries.order_by("-action_time", "-pk")[:20])


def source_health() -> list[statements.Row]:
    """How each source does, by its newest deliveries of a day; durations in seconds, None where no delivery has one.

    Rows of `source last_at arrived has_more succeeded unhappy share rejected duplicates took_s skew_s`: of those that
    were tried `share` went well, and `took_s` is the median and the 95th percentile.
    """
    params = {"sources": [source.value for source in Source], "sample": HEALTH_SAMPLE}
    return statements.load("webhooks", "source_health").run(params)


def refusals(*, since: timedelta, source: str = "") -> list[Refusal]:
    """What was refused of late, the latest first; of one source if it is named. For each reason the line of the hour
    that has the last of them, with the count of all hours."""
    rows = inbox.refusals(since=since)
    newest: dict[tuple[str, str], Refusal] = {}
    for refusal in rows.filter(source=source) if source else rows:
        first = newest.setdefault((refusal.source, refusal.reason), refusal)
        first.count += refusal.count if first is not refusal else 0
    return list(newest.values())


def secrets(source: Source) -> "QuerySet[Secret]":
    return Secret.objects.filter(source=source).defer("sealed").order_by(F("retired_at").desc(nulls_first=True), "-pk")


def secret(pk: int) -> Secret | None:
    return Secret.objects.defer("sealed").filter(pk=pk).first()


def tokens() -> list[SandboxToken]:
    """The newest tokens of sandboxes, those that open something first."""
    return list(SandboxToken.objects.order_by(F("revoked_at").desc(nulls_first=True), "-pk")[:_TOKENS])


def _by_time(matches: "QuerySet[Delivery]", *, before: int | None) -> "QuerySet[Delivery]":
    """In the order of the index that leads to a span of time at once: by id one would walk there from the newest."""
    at = None if before is None else Delivery.objects.filter(pk=before).values_list("received_at", flat=True).first()
    if at is not None:
        matches = matches.filter(Q(received_at__lt=at) | Q(pk__lt=before), received_at__lte=at)
    elif before is not None:  # it was forgotten meanwhile
        matches = matches.filter(pk__lt=before)
    return matches.order_by("-received_at", "-pk")


def named(kind: str, ids: Sequence[str]) -> list[dict[str, Any]]:
    try:
        table = apps.get_model("webhooks", kind)
        table._meta.get_field("external_id")
    except (LookupError, ValueError, FieldDoesNotExist):
        return []
    rows = table._default_manager.filter(external_id__in=ids).order_by("pk")
    return [
        {
            "kind": kind, "external_id": row.external_id, "sort": row._meta.verbose_name, "name": str(row),
            "pk": row.pk, "is_deleted": getattr(row, "deleted_at", None) is not None,
        }
        for row in rows
    ]  # fmt: skip


PROCESS: Final = "webhooks.operations.attempts.process"
MOST_RUNS_SCANNED: Final = 10_000  # scheduled functions among which those of one delivery are searched


def with_words(rows: "QuerySet[Delivery]", text: str, *, or_pk: int | None) -> "QuerySet[Delivery]":
    """The deliveries that a search finds: our own number, or what `inbox.with_text` says."""
    if or_pk is not None:
        return rows.filter(Q(pk=or_pk) | Q(delivery_id=text, source__in=inbox.SOURCES))
    return by_words(rows.filter(inbox.with_text(text)), text)


def runs_of(delivery: Delivery) -> Sequence[ScheduledFunction]:
    """The scheduled functions that processed a delivery or will, the newest first, as far as they are kept.

    No index leads from a delivery to them: they are searched among MOST_RUNS_SCANNED that were scheduled while it was
    received and processed.
    """
    last = delivery.ended_at or delivery.received_at
    table = ScheduledFunction._meta.db_table
    low, high = statements.ids_between(table, "created_at", delivery.received_at, last)
    rows = ScheduledFunction.objects.filter(function=PROCESS, pk__gte=low, pk__lt=high).order_by("-pk")
    candidates = list(rows.values_list("pk", flat=True)[:MOST_RUNS_SCANNED])
    if not candidates:
        return []
    about = rows.filter(pk__gte=candidates[-1], args__contains={"delivery": delivery.pk})
    return list(about.only("pk", "status")[:20])
