"""Replaying: a delivery waits for a first attempt again, because a person says so."""

from datetime import timedelta
from typing import Any, Final

from django.contrib.auth.models import User
from django.db import transaction

from core import audit
from scheduling import operations as scheduling
from scheduling.operations.functions import insert, new
from webhooks.domain.filters import Filter
from webhooks.domain.names import Source
from webhooks.domain.states import WAITING, is_replayable
from webhooks.errors import CannotReplay, NotFound
from webhooks.models import Delivery
from webhooks.operations import attempts
from webhooks.operations.deliveries import drain_soon, touch
from webhooks.queries import inbox
from webhooks.queries.pages import Replay

# Of a replay of many: so many at once, and so long a pause, so that what arrives meanwhile does not wait behind it.
BATCH: Final = 100
PAUSE: Final = timedelta(seconds=1)
_WITH_JOBS: Final = " with its jobs"


def replay(delivery: int, *, with_jobs: bool = False, by: User | None = None) -> Delivery:
    """Process a delivery again, from its first attempt on; its history stays.

    The jobs that its rules started are not started again, unless `with_jobs` asks for that; one of which no attempt
    ended well has started none, and does so now.

    Raises NotFound, and CannotReplay for one that waits anyway, or whose body nobody can read.
    """
    with transaction.atomic():
        row = inbox.lock(delivery)
        if row is None:
            raise NotFound(resource="delivery")
        _refuse(row)
        _requeue([row], with_jobs=with_jobs)
        audit.record(by, row, f"Replayed {row}{_WITH_JOBS if with_jobs else ''}, which was {row.status}")
    row.refresh_from_db(fields=["status", "attempts", "next_attempt_at", "note"])
    return row


def count_matching(wanted: Filter) -> int:
    """How many deliveries `replay_matching` would replay now."""
    return inbox.replayable(wanted).count()


@transaction.atomic
def replay_matching(wanted: Filter, *, with_jobs: bool = False, by: User | None = None) -> Replay | None:
    """Replay every delivery that matches and came before now, a batch at a time; how far that is, None when none match.

    The first batch is scheduled for now; they are a hundred a second, oldest first. One that ends or starts to match
    meanwhile is replayed if it matches when its turn comes. `with_jobs` as in `replay`.
    """
    last, matched = inbox.replayable(wanted).last(), count_matching(wanted)
    if last is None:
        return None
    first = scheduling.run_after(
        0, replay_batch, wanted=wanted.as_json(), after=0, until=last.pk, matched=matched, with_jobs=with_jobs
    )
    which = f"{'with their jobs, ' if with_jobs else ''}up to this one: {wanted.sentence()}"
    audit.record(by, last, f"Replays {matched:,} deliveries {which}")
    return Replay.find(first.pk)


@scheduling.mutation
def replay_batch(*, wanted: dict[str, Any], after: int, until: int, matched: int = 0, with_jobs: bool = False) -> int:
    """One batch of `replay_matching`, and the next one scheduled; how many were replayed. `matched` is how many matched
    when it began, for whoever watches (queries.pages.Replay)."""
    matching = inbox.replayable(Filter.of_json(wanted)).filter(pk__gt=after, pk__lte=until)
    rows = list(matching.select_for_update(of=("self",), no_key=True)[:BATCH])
    if len(rows) == BATCH:
        further: dict[str, Any] = {"wanted": wanted, "until": until, "matched": matched, "with_jobs": with_jobs}
        scheduling.run_after(PAUSE, replay_batch, after=rows[-1].pk, **further)
    _requeue(rows, with_jobs=with_jobs)
    return len(rows)


def _refuse(row: Delivery) -> None:
    if is_replayable(row.status, tries=row.tries):
        return
    is_waiting = row.status in WAITING
    reason = "it waits to be processed already" if is_waiting else "its body cannot be read, now as then"
    raise CannotReplay(status=row.status, reason=reason)


def _requeue(rows: list[Delivery], *, with_jobs: bool) -> None:
    places = inbox.requeue([row.pk for row in rows], with_jobs=with_jobs)
    runs = [
        new(attempts.process, {"delivery": row.pk, "row_pointer": places[row.pk]})
        for row in rows
        if row.source != Source.SANDBOX_TELEMETRY
    ]
    if runs:
        insert(runs)
    if len(runs) < len(rows):
        drain_soon()
    touch([row.pk for row in rows], sources=[row.source for row in rows])
