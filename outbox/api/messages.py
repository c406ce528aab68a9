"""Messages: what went where, how each attempt ended, and sending them once more."""

from django.http import HttpRequest
from ninja import Query, Status

from accounts import http as people
from core.api import Calls, Sample, caller, refuse_unknown_parameters
from outbox import operations, protocol, queries

router = Calls(tags=["Outbox"])
READ, OPERATE = map(people.callers, ("read", "operate"))


@router.call("get", "/messages", auth=READ, sample=Sample(query="status=dead&type=job.failed&limit=20"))
def list_messages(request: HttpRequest, filters: Query[protocol.MessageFilters]) -> protocol.Messages:
    """List messages.

    The messages to the endpoints that you may see, newest first, without their bodies.

    `next` is the `cursor` of the following page, null on the last one.
    """
    refuse_unknown_parameters(request, protocol.MessageFilters.model_fields)
    matching = operations.messages_visible_to(caller(request)).filter(**_wanted(filters).columns())
    rows = queries.page(matching, before=filters.cursor or 0, limit=filters.limit + 1)
    shown = rows[: filters.limit]
    return protocol.Messages(
        messages=[protocol.Message.of(row) for row in shown], next=shown[-1].pk if len(rows) > filters.limit else None
    )


@router.call("get", "/messages/{int:message_id}", auth=READ)
def show(request: HttpRequest, message_id: int) -> protocol.MessageInFull:
    """Look at a message.

    One message with its body and its attempts, each with its time and the first 4 kB of the answer.
    """
    row = operations.find_message(message_id, by=caller(request))
    return protocol.MessageInFull.with_attempts(row, queries.attempts(row.pk))


@router.call("post", "/messages/{int:message_id}/replay", auth=OPERATE)
def replay(request: HttpRequest, message_id: int) -> protocol.Message:
    """Replay a message.

    Sends a message that has ended once more, under the id it had. 409 `cannot_replay` for one that waits.
    """
    return protocol.Message.of(operations.replay(message_id, by=caller(request)))


@router.call("post", "/replays", auth=OPERATE, sample=Sample(body={"status": "dead", "type": "job.failed"}))
def replay_all(request: HttpRequest, body: protocol.NewMessageReplay) -> Status[protocol.MessageReplay]:
    """Replay all messages that match.

    Sends all messages that match and have ended once more, oldest first, 500 a second at most; those to disabled
    endpoints are left out. Without a filter: all that are yours; for operators all there are. `id` is null when nothing
    matches, and with `"dry_run": true`, which counts alone: `matched`.
    """
    wanted, person = _wanted(body), caller(request)
    if body.dry_run:
        return Status(201, protocol.MessageReplay.of(None, matched=operations.count_matching(wanted, by=person)))
    return Status(201, protocol.MessageReplay.of(operations.replay_matching(wanted, by=person)))


@router.call("get", "/replays/{int:replay_id}", auth=READ)
def progress(request: HttpRequest, replay_id: int) -> protocol.MessageReplay:
    """Look at a replay of many.

    How far a replay of many is, for as long as the scheduler keeps its functions.
    """
    return protocol.MessageReplay.of(operations.find_replay(replay_id, by=caller(request)))


@router.call("post", "/replays/{int:replay_id}/stop", auth=OPERATE)
def stop(request: HttpRequest, replay_id: int) -> protocol.MessageReplay:
    """Stop a replay of many.

    Begins no further batch of a replay of many; what was replayed stays so. 409 `cannot_stop` once it is over, or while
    a batch is under way.
    """
    return protocol.MessageReplay.of(operations.stop_replay(replay_id, by=caller(request)))


def _wanted(filters: protocol.MessageFilters | protocol.NewMessageReplay) -> operations.Filter:
    return operations.Filter(
        endpoint=filters.endpoint, status=filters.status, event_type=filters.type or "", subject=filters.subject or ""
    )
