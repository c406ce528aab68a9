"""Replaying: messages that have ended are sent once more, because a person asks for it.

All that match a filter are replayed in batches, a second apart, so that what is recorded meanwhile does not wait behind
them. Each batch checks the rights of who asked again.
"""

from datetime import timedelta
from typing import Any, Final

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet

from core import audit
from core.refusal import CancelVerdict
from live import operations as live
from outbox import limits, queries
from outbox.domain.messages import REPLAYABLE, EndpointStatus, Filter
from outbox.errors import CannotReplay, CannotStop, NotAllowed, NotFound
from outbox.models import Message
from outbox.operations import endpoints
from outbox.operations.record import wake
from outbox.queries import Replay
from ratelimits import operations as ratelimits
from scheduling import operations as scheduling
from scheduling.operations import mutation

MOST_COUNTED: Final = 100_000  # when it is asked for; all that match are replayed
BATCH: Final = 500
PAUSE: Final = timedelta(seconds=1)


@transaction.atomic
def replay(message_id: int, *, by: User) -> Message:
    """Send a message once more, with the id and the body it had; its history stays. Raises NotFound, NotAllowed,
    CannotReplay."""
    row = endpoints.find_message(message_id, by=by, lock=True)
    if not endpoints.may_operate(by, row.endpoint):
        raise NotAllowed
    if row.status not in REPLAYABLE:
        raise CannotReplay
    queries.requeue([row.pk])
    audit.record(by, row.endpoint, f"Replayed message {row.pk}, which was {row.status}")
    _announce([(row.pk, row.endpoint_id)])
    row.refresh_from_db()
    return row


def count_matching(wanted: Filter, *, by: User) -> int:
    """How many messages `replay_matching` would send again now, counted up to MOST_COUNTED."""
    return _replayable(wanted, by)[:MOST_COUNTED].count()


@transaction.atomic
def replay_matching(wanted: Filter, *, by: User) -> Replay | None:
    """Send every message that matches, has ended and was written before now once more, oldest first; how far that is.

    None when nothing matches. Endpoints that are disabled get nothing. Messages that start or cease to match meanwhile
    are replayed if they match when their batch is due. Raises RateLimited.
    """
    last = _replayable(wanted, by).order_by("-pk").first()
    if last is None:
        return None
    if not endpoints.is_operator(by):
        ratelimits.limit(limits.REPLAYS, key=f"user:{by.pk}", throws=True)
    matched = count_matching(wanted, by=by)
    first = scheduling.run_after(
        0, replay_batch, wanted=wanted.as_json(), by=by.pk, after=0, until=last.pk, matched=matched
    )
    about = last.endpoint if wanted.endpoint else last
    audit.record(by, about, f"Replays {matched} messages up to #{last.pk}: {wanted.sentence()}")
    return Replay.find(first.pk)


@mutation
def replay_batch(*, wanted: dict[str, Any], by: int, after: int, until: int, matched: int) -> int:
    """One batch of `replay_matching`, and the next one scheduled; how many were replayed. `matched` is how many matched
    when it began, for who watches. Raises NotAllowed, which ends it, where `by` may log in no more."""
    person = User.objects.filter(pk=by, is_active=True).first()
    if person is None:
        raise NotAllowed("The account that started it is no longer active.")
    matching = _replayable(Filter.read(**wanted), person).filter(pk__gt=after, pk__lte=until)
    rows = list(matching.order_by("pk").values_list("pk", "endpoint_id")[:BATCH])
    if len(rows) == BATCH:
        scheduling.run_after(PAUSE, replay_batch, wanted=wanted, by=by, after=rows[-1][0], until=until, matched=matched)
    queries.requeue([pk for pk, _ in rows])
    _announce(rows)
    return len(rows)


def find_replay(first: int, *, by: User) -> Replay:
    """A replay of many that `by` began, or any for staff who see all endpoints. Raises NotFound."""
    chain = Replay.find(first)
    if chain is None or not (chain.by == by.pk or endpoints.sees_all(by)):
        raise NotFound(resource="replay")
    return chain


def stop_replay(first: int, *, by: User) -> Replay:
    """Begin no further batch; what was replayed stays so. For who began it, and operators. Raises NotFound, NotAllowed,
    CannotStop for one that is over or whose batch is under way."""
    chain = find_replay(first, by=by)
    if not (chain.by == by.pk or endpoints.is_operator(by)):
        raise NotAllowed
    if chain.is_over or scheduling.cancel(chain.last).verdict is CancelVerdict.TOO_LATE:
        raise CannotStop
    if (last := Message.objects.filter(pk=chain.arguments["until"]).first()) is not None:
        audit.record(by, last, f"Stopped the replay of messages up to #{last.pk}: {chain.wanted.sentence()}")
    return find_replay(first, by=by)


def _replayable(wanted: Filter, by: User) -> QuerySet[Message]:
    messages = endpoints.messages_visible_to(by).filter(status__in=REPLAYABLE)
    if not endpoints.is_operator(by):
        messages = messages.filter(endpoint__owner=by)
    return messages.filter(**wanted.columns()).exclude(endpoint__status=EndpointStatus.DISABLED)


def _announce(rows: list[tuple[int, int]]) -> None:
    wake()
    endpoint_ids = {endpoint_id for _, endpoint_id in rows}
    live.touch("outbox", *(f"endpoint:{pk}" for pk in endpoint_ids), *(f"message:{pk}" for pk, _ in rows))
