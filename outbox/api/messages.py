"""Messages: what went where, how each attempt ended, and sending them once more."""

from django.http import HttpRequest
from ninja import Query, Router, Status

from accounts import http as people
from core.api import caller, documented, refuse_unknown_parameters
from outbox import operations, protocol, queries
from outbox.api import documents
from outbox.errors import NotFound

router = Router(tags=["Outbox"])
READ, OPERATE = map(people.callers, ("read", "operate"))


@router.get("/messages", auth=READ, **documented("List messages", documents.MESSAGES, protocol.Messages))
def list_messages(request: HttpRequest, filters: Query[protocol.MessageFilters]) -> protocol.Messages:
    refuse_unknown_parameters(request, protocol.MessageFilters.model_fields)
    matching = operations.messages_visible_to(caller(request)).filter(**_wanted(filters).columns())
    rows = queries.page(matching, before=filters.cursor or 0, limit=filters.limit + 1)
    shown = rows[: filters.limit]
    return protocol.Messages(
        messages=[protocol.Message.of(row) for row in shown], next=shown[-1].pk if len(rows) > filters.limit else None
    )


@router.get(
    "/messages/{int:message_id}",
    auth=READ,
    **documented("Look at a message", documents.MESSAGE, protocol.MessageInFull),
)
def show(request: HttpRequest, message_id: int) -> protocol.MessageInFull:
    row = operations.messages_visible_to(caller(request)).filter(pk=message_id).first()
    if row is None:
        raise NotFound(resource="message")
    return protocol.MessageInFull.with_attempts(row, queries.attempts(row.pk))


@router.post(
    "/messages/{int:message_id}/replay",
    auth=OPERATE,
    **documented("Replay a message", documents.REPLAY, protocol.Message),
)
def replay(request: HttpRequest, message_id: int) -> protocol.Message:
    return protocol.Message.of(operations.replay(message_id, by=caller(request)))


@router.post(
    "/replays",
    auth=OPERATE,
    **documented(
        "Replay all messages that match", documents.REPLAY_ALL, protocol.MessageReplay, status=201, has_body=True
    ),
)
def replay_all(request: HttpRequest, body: protocol.NewMessageReplay) -> Status[protocol.MessageReplay]:
    wanted, person = _wanted(body), caller(request)
    if body.dry_run:
        return Status(201, protocol.MessageReplay.of(None, matched=operations.count_matching(wanted, by=person)))
    return Status(201, protocol.MessageReplay.of(operations.replay_matching(wanted, by=person)))


@router.get(
    "/replays/{int:replay_id}",
    auth=READ,
    **documented("Look at a replay of many", documents.PROGRESS, protocol.MessageReplay),
)
def progress(request: HttpRequest, replay_id: int) -> protocol.MessageReplay:
    return protocol.MessageReplay.of(operations.find_replay(replay_id, by=caller(request)))


@router.post(
    "/replays/{int:replay_id}/stop",
    auth=OPERATE,
    **documented("Stop a replay of many", documents.STOP, protocol.MessageReplay),
)
def stop(request: HttpRequest, replay_id: int) -> protocol.MessageReplay:
    return protocol.MessageReplay.of(operations.stop_replay(replay_id, by=caller(request)))


def _wanted(filters: protocol.MessageFilters | protocol.NewMessageReplay) -> operations.Filter:
    return operations.Filter(
        endpoint=filters.endpoint, status=filters.status, event_type=filters.type or "", subject=filters.subject or ""
    )
