"""Live queries of the inbox: what its pages show, and when that is stale. For whoever may see deliveries."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import urlencode

from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser, PermissionsMixin

from jobs import operations as jobs
from live.registry import StateQuery, Viewer, live_query
from postgres import clock
from webhooks import operations
from webhooks.domain.filters import Filter
from webhooks.domain.names import Source
from webhooks.domain.states import WAITING, Status, is_replayable
from webhooks.errors import NotFound
from webhooks.models import Delivery
from webhooks.operations import activity as feed
from webhooks.queries import activity as activity_queries
from webhooks.queries import inbox, job_starts, pages

OPERATOR: Final = "operator"
INBOX: Final = "inbox"  # who may see deliveries, and not everybody's jobs
VIEW: Final = "webhooks.view_delivery"
ROWS: Final = 50
TROUBLE: Final = "trouble"  # in place of a status: all that a person may have to see to
DAY: Final = timedelta(days=1)
_TROUBLED: Final = (Status.FAILED, Status.DEAD, Status.REJECTED)


def wanted(
    *, source: str = "", event: str = "", status: str = "", sandbox: str = "", since: str = "", until: str = "",
    text: str = ""
) -> Filter:  # fmt: skip
    """The filter that texts in an address say; what makes no sense does not narrow."""
    statuses = _TROUBLED if status == TROUBLE else tuple(one for one in Status if one == status)
    return Filter(
        source=source if source in set(Source) else "",
        event_type=event,
        sandbox=sandbox,
        statuses=statuses,
        received_from=moment(since),
        received_to=moment(until),
        text=text,
    )


def may_view(user: AbstractBaseUser | AnonymousUser) -> bool:
    """Whether somebody may see deliveries."""
    return isinstance(user, PermissionsMixin) and user.has_perm(VIEW)


def moment(text: str) -> datetime | None:
    """The moment that a text says, in UTC where it names no zone; None for what is none."""
    try:
        parsed = datetime.fromisoformat(text)
        return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


@live_query(
    "deliveries",
    topics=lambda **_: ["deliveries"],
    audiences=(OPERATOR,),
    template="webhooks/live/deliveries.html",
    at_most_every_s=1.0,
)
def deliveries(
    *, source: str = "", event: str = "", status: str = "", sandbox: str = "", since: str = "", until: str = "",
    text: str = "", before: int = 0
) -> Mapping[str, Any]:  # fmt: skip
    """A page of deliveries, newest first; `before` is an id, 0 for the newest."""
    filters = {
        "source": source, "event": event, "status": status, "sandbox": sandbox,
        "since": since, "until": until, "text": text,
    }  # fmt: skip
    rows = pages.arrivals(wanted(**filters), before=before or None, limit=ROWS + 1)
    active = {name: value for name, value in filters.items() if value}
    return {
        "deliveries": rows[:ROWS],
        "is_filtered": bool(active),
        "older": urlencode({**active, "before": rows[ROWS - 1].pk}) if len(rows) > ROWS else "",
        "newest": urlencode(active) if before else None,
    }


@live_query(
    "inbox-figures",
    topics=lambda: ["deliveries", "refusals", "webhook-secrets"],
    audiences=(OPERATOR,),
    template="webhooks/live/figures.html",
    at_most_every_s=2.0,
)
def figures() -> Mapping[str, Any]:
    """What waits, failed or died, what was refused, and what a person has to do."""
    inbox_health = operations.health()
    return {"inbox": inbox_health, "refused": sum(inbox_health.refused.values()), "most": pages.COUNTED}


@live_query(
    "webhook-refusals",
    topics=lambda **_: ["refusals"],
    audiences=(OPERATOR,),
    template="webhooks/live/refusals.html",
    at_most_every_s=2.0,
)
def refusals(*, source: str = "") -> Mapping[str, Any]:
    """What was refused within a day, by source and reason, the latest first; of one source if it is named."""
    return {"refusals": pages.refusals(since=DAY, source=source), "source": source}


@live_query(
    "delivery-state",
    topics=lambda delivery_id: [f"delivery:{delivery_id}"],
    audiences=(OPERATOR,),
    template="webhooks/live/delivery_state.html",
)
def delivery_state(*, delivery_id: int) -> Mapping[str, Any] | None:
    """How one delivery stands: of the page of a delivery what the administration shows too."""
    row = pages.delivery(delivery_id)
    return None if row is None else _status(row)


@live_query(
    "delivery-badge",
    topics=lambda delivery_id: [f"delivery:{delivery_id}"],
    audiences=(OPERATOR,),
    template="webhooks/live/delivery_badge.html",
    at_most_every_s=0.5,
)
def delivery_badge(*, delivery_id: int) -> Mapping[str, Any] | None:
    """How one delivery stands, for a row of the administration's list."""
    row = pages.delivery(delivery_id)
    return None if row is None else {"delivery": row}


@live_query(
    "delivery",
    topics=lambda delivery_id: [f"delivery:{delivery_id}"],
    audiences=(OPERATOR,),
    template="webhooks/live/delivery.html",
)
def delivery(*, delivery_id: int) -> Mapping[str, Any] | None:
    """How one delivery stands, its attempts, what it wrote, and who replayed it."""
    row = pages.delivery(delivery_id)
    if row is None:
        return None
    entries = activity_queries.of_delivery(delivery_id)[:ROWS]
    return {
        **_status(row),
        "attempts": inbox.history(delivery_id)[::-1],
        "entries": entries,
        "resources": pages.resources(entries),
        "actions": pages.audit(Delivery, delivery_id),
    }


@live_query(
    "delivery-jobs",
    topics=lambda delivery_id: [f"delivery:{delivery_id}", "jobs"],
    audiences=(OPERATOR, INBOX),
    template="webhooks/live/delivery_jobs.html",
    at_most_every_s=1.0,
)
def delivery_jobs(*, delivery_id: int) -> Mapping[str, Any] | None:
    """The jobs that a delivery started, as they stand, and those that it did not start."""
    starts = job_starts.of_delivery(delivery_id)
    statuses = jobs.statuses({start.job_id for start in starts if start.job_id is not None})
    return {"rows": [{"start": start, "status": statuses.get(start.job_id or 0, "")} for start in starts]}


@delivery_jobs.may_see
def _may_see_jobs(viewer: Viewer, **_: Any) -> str | None:
    if not may_view(viewer.user):
        return None
    return OPERATOR if jobs.sees_all(viewer.user) else INBOX


@live_query(
    "webhook-sources",
    topics=lambda: ["deliveries", "refusals", "webhook-secrets"],
    audiences=(OPERATOR,),
    template="webhooks/live/sources.html",
    at_most_every_s=2.0,
)
def sources() -> Mapping[str, Any]:
    inbox_health = operations.health()
    return {"rows": [_row(one, inbox_health) for one in pages.source_health()]}


@live_query(
    "webhook-source",
    topics=lambda source: [f"webhook-source:{source}"],
    audiences=(OPERATOR,),
    template="webhooks/live/source.html",
    at_most_every_s=2.0,
)
def source(*, source: str) -> Mapping[str, Any] | None:
    inbox_health = operations.health()
    health = next((one for one in pages.source_health() if one.source == source), None)
    if health is None:
        return None
    return _row(health, inbox_health)


@live_query(
    "webhook-secret",
    topics=lambda source, **_: [f"webhook-source:{source}"],
    audiences=(OPERATOR,),
    template="webhooks/live/secret.html",
    at_most_every_s=2.0,
)
def secret(*, secret_id: int, source: str) -> Mapping[str, Any] | None:
    """When a secret was used last, and until when it opens something."""
    row = pages.secret(secret_id)
    if row is None or row.source != source:
        return None
    return {"secret": row, "is_live": pages.is_live(row)}


@live_query(
    "webhook-replay",
    topics=lambda **_: ["scheduled"],
    audiences=(OPERATOR,),
    template="webhooks/live/replay.html",
    at_most_every_s=1.0,
)
def replay(*, first: int) -> Mapping[str, Any] | None:
    row = pages.Replay.find(first)
    return None if row is None else {"replay": row}


@live_query(
    "activity",
    topics=lambda **_: ["activity"],
    audiences=(OPERATOR,),
    template="webhooks/live/activity.html",
    at_most_every_s=1.0,
)
def activity(
    *, source: str = "", text: str = "", kind: str = "", resource: str = "", before: str = ""
) -> Mapping[str, Any] | None:
    """A page of activity, newest first; `before` is the `older` of the page before it. None for a page there is not."""
    filters = {"source": source, "text": text, "kind": kind, "resource": resource}
    active = {name: value for name, value in filters.items() if value}
    arguments = {("search" if name == "text" else name): value for name, value in active.items()}
    try:
        page = feed.feed(limit=ROWS, before=before or None, **arguments)
    except NotFound:
        return None
    return {
        "entries": page.entries,
        "is_filtered": bool(active),
        "older": urlencode({**active, "before": page.older}) if page.older else "",
        "newest": urlencode(active) if before else None,
    }


@live_query(
    "activity-digest",
    topics=lambda: ["activity"],
    audiences=(OPERATOR,),
    template="webhooks/live/digest.html",
    at_most_every_s=5.0,
)
def digest() -> Mapping[str, Any]:
    """What today (UTC) came to so far."""
    now = clock.now().astimezone(UTC)
    return {"digest": feed.digest(day=now.date(), now=now)}


def _status(row: Delivery) -> Mapping[str, Any]:
    return {
        "delivery": row,
        "is_replayable": is_replayable(row.status, tries=row.tries),
        "is_waiting": row.status in WAITING,
    }


def _row(one: pages.SourceHealth, health: operations.Health) -> Mapping[str, Any]:
    return {"health": one, "state": _state(one.source, health), "refused": health.refused.get(one.source, 0)}


def _state(source: Source, health: operations.Health) -> str:
    if source in health.unreadable:
        return "unreadable"
    return "ready" if source in health.ready else "needs_secret"


def _may_see(viewer: Viewer, **_: Any) -> str | None:
    return OPERATOR if may_view(viewer.user) else None


_ALL: Final[tuple[StateQuery, ...]] = (
    deliveries, figures, refusals, delivery, delivery_badge, delivery_state, sources, source, secret, replay,
    activity, digest,
)  # fmt: skip
for _query in _ALL:
    _query.may_see(_may_see)
