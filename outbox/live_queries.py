"""Live queries of the outbox: what its pages show, and when that is stale."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from django.contrib.auth.models import User

from core.pages import neighbours
from live.registry import Viewer, live_query
from outbox import operations, queries
from outbox.domain.messages import Status
from outbox.models import Endpoint, Message

MEMBER: Final = "member"
OPERATOR: Final = "operator"
EVERYBODY: Final = 0  # in place of a person: all endpoints
MOST_LISTED: Final = 200
ROWS: Final = 50
_shown = partial(live_query, audiences=(MEMBER,))


@live_query("outbox-endpoints", topics=lambda **_: ["outbox"], audiences=(MEMBER, OPERATOR), at_most_every_s=1.0)
def endpoints(*, whose: int) -> Mapping[str, Any]:
    rows = Endpoint.objects.select_related("owner")
    rows = rows if whose == EVERYBODY else rows.filter(owner_id=whose)
    return {"rows": queries.counted(list(rows[:MOST_LISTED])), "most": queries.COUNTED}


@_shown("outbox-endpoint", topics=lambda endpoint_id: [f"endpoint:{endpoint_id}"], at_most_every_s=0.5)
def endpoint(*, endpoint_id: int) -> Mapping[str, Any] | None:
    row = Endpoint.objects.select_related("owner").filter(pk=endpoint_id).first()
    if row is None:
        return None
    queries.counted([row])
    return {"endpoint": row, "most": queries.COUNTED, "secrets": queries.live_secrets([endpoint_id])}


@_shown("outbox-messages", topics=lambda endpoint_id, **_: [f"endpoint:{endpoint_id}"], at_most_every_s=1.0)
def messages(
    *, endpoint_id: int, status: str = "", event_type: str = "", subject: str = "", before: int = 0
) -> Mapping[str, Any]:
    """A page of the messages of an endpoint, newest first; `before` is an id, 0 for the newest."""
    wanted = operations.Filter.read(endpoint=endpoint_id, status=status, event_type=event_type, subject=subject)
    matching = Message.objects.filter(**wanted.columns())
    rows = queries.page(matching, before=before, limit=ROWS + 1)
    older = rows[ROWS - 1].pk if len(rows) > ROWS else None
    around = neighbours(in_address(wanted), before=before, older=older)
    return {"messages": rows[:ROWS], "endpoint_id": endpoint_id, **around}


def in_address(wanted: operations.Filter) -> dict[str, str]:
    """The filter of an endpoint's messages as its address has it: what is empty is left out."""
    parts = {"status": wanted.status or "", "event_type": wanted.event_type, "subject": wanted.subject}
    return {name: value for name, value in parts.items() if value}


@_shown("outbox-replay", topics=lambda **_: ["scheduled"], at_most_every_s=1.0)
def replay(*, replay_id: int) -> Mapping[str, Any] | None:
    row = queries.Replay.find(replay_id)
    return None if row is None else {"replay": row}


@_shown("outbox-message", topics=lambda message_id: [f"message:{message_id}"])
def message(*, message_id: int) -> Mapping[str, Any] | None:
    row = queries.message(message_id)
    if row is None:
        return None
    is_waiting = row.status == Status.PENDING
    shown = {"message": row, "attempts": queries.attempts(message_id), "is_waiting": is_waiting}
    return shown | {"is_replayable": not is_waiting, "waits_for": queries.waits_for(row) if is_waiting else None}


@endpoints.may_see
def _sees_endpoints(viewer: Viewer, *, whose: int) -> str | None:
    if whose == EVERYBODY:
        return OPERATOR if operations.sees_all(viewer.user) else None
    is_theirs = isinstance(viewer.user, User) and viewer.user.is_active and viewer.user.pk == whose
    return MEMBER if is_theirs else None


@endpoint.may_see
@messages.may_see
def _sees_endpoint(viewer: Viewer, *, endpoint_id: int, **_: Any) -> str | None:
    return MEMBER if operations.visible_to(viewer.user).filter(pk=endpoint_id).exists() else None


@message.may_see
def _sees_message(viewer: Viewer, *, message_id: int) -> str | None:
    return MEMBER if operations.messages_visible_to(viewer.user).filter(pk=message_id).exists() else None


@replay.may_see
def _sees_replay(viewer: Viewer, *, replay_id: int) -> str | None:
    row = queries.Replay.find(replay_id) if isinstance(viewer.user, User) and viewer.user.is_active else None
    if row is None:
        return None
    return MEMBER if row.by == viewer.user.pk or operations.sees_all(viewer.user) else None
