"""Live queries of the inbox: what its pages show, and when that is stale. For whoever may see deliveries."""

from collections.abc import Mapping
from datetime import UTC, timedelta
from functools import partial
from typing import Any, Final

from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser, PermissionsMixin

from core.pages import neighbours
from core.values import moment
from jobs import operations as jobs
from live.registry import Viewer, for_holders, live_query
from postgres import clock
from webhooks import operations
from webhooks.domain.deliveries import WAITING, Filter, Source, Status, is_replayable
from webhooks.errors import NotFound
from webhooks.models import Activity, Delivery, DeliveryAttempt, JobStart
from webhooks.operations import activity as feed
from webhooks.operations.secrets import live_secrets
from webhooks.queries import pages

OPERATOR: Final = "operator"
INBOX: Final = "inbox"  # who may see deliveries, and not everybody's jobs
VIEW: Final = "webhooks.view_delivery"
ROWS: Final = 50
_STARTS: Final = 200
TROUBLE: Final = "trouble"  # in place of a status: all that a person may have to see to
DAY: Final = timedelta(days=1)
_TROUBLED: Final = (Status.FAILED, Status.DEAD, Status.REJECTED)


def may_view(user: AbstractBaseUser | AnonymousUser) -> bool:
    return isinstance(user, PermissionsMixin) and user.has_perm(VIEW)


_shown = partial(live_query, audiences=(OPERATOR,), may_see=for_holders(VIEW))


def wanted(
    *, source: str = "", event: str = "", status: str = "", sandbox: str = "", since: str = "", until: str = "",
    text: str = ""
) -> Filter:  # fmt: skip
    """The filter that texts in an address say; what makes no sense does not narrow."""
    statuses = _TROUBLED if status == TROUBLE else tuple(one for one in Status if one == status)
    return Filter(
        source=source if source in set(Source) else "", event_type=event, sandbox=sandbox, statuses=statuses,
        received_from=moment(since), received_to=moment(until), text=text,
    )  # fmt: skip


@_shown("deliveries", topics=lambda **_: ["deliveries"], at_most_every_s=1.0)
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
    older = rows[ROWS - 1].pk if len(rows) > ROWS else None
    return {"deliveries": rows[:ROWS], **neighbours(filters, before=before, older=older)}


@_shown("inbox-figures", topics=lambda: ["deliveries", "refusals", "webhook-secrets"], at_most_every_s=2.0)
def figures() -> Mapping[str, Any]:
    """What waits, failed or died, what was refused, and what a person has to do."""
    inbox_health = operations.health()
    return {"inbox": inbox_health, "refused": sum(inbox_health.refused.values()), "most": pages.COUNTED}


@_shown("webhook-refusals", topics=lambda **_: ["refusals"], at_most_every_s=2.0)
def refusals(*, source: str = "") -> Mapping[str, Any]:
    """What was refused within a day, by source and reason, the latest first; of one source if it is named."""
    return {"refusals": pages.refusals(since=DAY, source=source), "source": source}


@_shown("delivery-badge", topics=lambda delivery_id: [f"delivery:{delivery_id}"], at_most_every_s=0.5)
def delivery_badge(*, delivery_id: int) -> Mapping[str, Any] | None:
    row = pages.delivery(delivery_id)
    return None if row is None else {"delivery": row}


@_shown("delivery", topics=lambda delivery_id: [f"delivery:{delivery_id}"])
def delivery(*, delivery_id: int) -> Mapping[str, Any] | None:
    row = pages.delivery(delivery_id)
    if row is None:
        return None
    entries = list(Activity.objects.filter(delivery=delivery_id).order_by("n")[:ROWS])
    return {
        "delivery": row,
        "is_replayable": is_replayable(row.status, tries=row.tries),
        "is_waiting": row.status in WAITING,
        "attempts": list(DeliveryAttempt.objects.filter(delivery_id=delivery_id).order_by("-number")),
        "entries": entries,
        "resources": pages.resources(entries),
        "actions": pages.audit(Delivery, delivery_id),
    }


@live_query(
    "delivery-jobs", topics=lambda delivery_id: [f"delivery:{delivery_id}", "jobs"], audiences=(OPERATOR, INBOX),
    at_most_every_s=1.0,
)  # fmt: skip
def delivery_jobs(*, delivery_id: int) -> Mapping[str, Any] | None:
    starts = JobStart.objects.filter(delivery_id=delivery_id).order_by("round", "pk")[:_STARTS]
    statuses = jobs.statuses({start.job_id for start in starts if start.job_id is not None})
    return {"rows": [{"start": start, "status": statuses.get(start.job_id or 0, "")} for start in starts]}


@delivery_jobs.may_see
def _may_see_jobs(viewer: Viewer, **_: Any) -> str | None:
    if not may_view(viewer.user):
        return None
    return OPERATOR if jobs.sees_all(viewer.user) else INBOX


@_shown("webhook-sources", topics=lambda: ["deliveries", "refusals", "webhook-secrets"], at_most_every_s=2.0)
def sources() -> Mapping[str, Any]:
    return {"rows": _sources()}


@_shown("webhook-source", topics=lambda source: [f"webhook-source:{source}"], at_most_every_s=2.0)
def source(*, source: str) -> Mapping[str, Any] | None:
    return next((row for row in _sources() if row["health"].source == source), None)


@_shown("webhook-secret", topics=lambda source, **_: [f"webhook-source:{source}"], at_most_every_s=2.0)
def secret(*, secret_id: int, source: str) -> Mapping[str, Any] | None:
    row = pages.secret(secret_id)
    if row is None or row.source != source:
        return None
    return {"secret": row, "is_live": live_secrets().filter(pk=row.pk).exists()}


@_shown("webhook-replay", topics=lambda **_: ["scheduled"], at_most_every_s=1.0)
def replay(*, first: int) -> Mapping[str, Any] | None:
    row = pages.Replay.find(first)
    return None if row is None else {"replay": row}


@_shown("activity", topics=lambda **_: ["activity"], at_most_every_s=1.0)
def activity(
    *, source: str = "", text: str = "", kind: str = "", resource: str = "", before: str = ""
) -> Mapping[str, Any] | None:
    """A page of activity, newest first; `before` is the `older` of the page before it. None for a page there is not."""
    filters = {"source": source, "text": text, "kind": kind, "resource": resource}
    arguments = {("search" if name == "text" else name): value for name, value in filters.items() if value}
    try:
        entries, older = feed.feed(limit=ROWS, before=before or None, **arguments)
    except NotFound:
        return None
    return {"entries": entries, **neighbours(filters, before=before, older=older)}


@_shown("activity-digest", topics=lambda: ["activity"], at_most_every_s=5.0)
def digest() -> Mapping[str, Any]:
    now = clock.now().astimezone(UTC)
    return {"digest": feed.digest(day=now.date(), now=now)}


def _sources() -> list[dict[str, Any]]:
    inbox_health = operations.health()
    return [
        {"health": row, "state": _state(row.source, inbox_health), "refused": inbox_health.refused.get(row.source, 0)}
        for row in pages.source_health()
    ]


def _state(source: str, health: operations.Health) -> str:
    if source in health.unreadable:
        return "unreadable"
    return "ready" if source in health.ready else "needs_secret"
