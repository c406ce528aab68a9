"""Batches: made, looked at and cancelled. What moves them is `steps`."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User

from core import audit
from jobs import operations as jobs
from openai_api import queries
from openai_api.domain import batches as domain
from openai_api.domain.batches import BATCH, LIVE, BatchStatus
from openai_api.errors import BatchEnded, InvalidCall, TooManyBatches, UnknownBatch
from openai_api.models import Batch
from openai_api.operations import files, steps
from postgres import clock, transactions

_AFTERWARDS: Final = timedelta(days=1)  # how much longer than its window the input of a batch is kept
_RETRY_AFTER_S: Final = 60
_LATER_S: Final = 3600
MOST_KEPT: Final = 10_000  # batches of one person, ended ones included, which go as files do
_KEPT: Final = "{most:,} of your batches are kept: come again when the first of them have gone."


@transactions.retried
def create(
    *, input_file_id: str, endpoint: str, window: str, metadata: Any, user: User, token_id: int | None = None
) -> Batch:
    """Make a batch of a file's lines, each a call of this person's, and of the API token that this comes with. They are
    checked after this returns.

    Raises InvalidCall, UnknownFile, TooManyBatches.
    """
    path, noted = domain.endpoint(endpoint), domain.metadata(metadata)
    length = domain.window(window, retention=timedelta(days=settings.JOBFARM["RETENTION_DAYS"]))
    file = files.find(input_file_id, user=user)
    if file.purpose != BATCH:
        raise InvalidCall(param="input_file_id", why=f"its purpose is {file.purpose!r}, and not 'batch'")
    limit: int = settings.OPENAI["BATCHES_PER_OWNER"]
    theirs = Batch.objects.filter(owner=user)
    if theirs.filter(status__in=sorted(LIVE)).count() >= limit:
        raise TooManyBatches(limit=limit, retry_after=_RETRY_AFTER_S)
    if theirs[:MOST_KEPT].count() >= MOST_KEPT:
        raise TooManyBatches(_KEPT.format(most=MOST_KEPT), limit=MOST_KEPT, retry_after=_LATER_S)
    now = clock.now()
    files.hold(file, until=now + length + _AFTERWARDS)
    batch = Batch.objects.create(
        owner=user, token_id=token_id, endpoint=path, completion_window=window, metadata=noted, input_file=file,
        created_at=now, expires_at=now + length, next_step_at=now,
    )  # fmt: skip
    steps.begin(batch)
    steps.touch(batch.pk)
    return batch


def find(public_id: str, *, user: User) -> Batch:
    """This person's batch with this id. Raises UnknownBatch."""
    batch_id = domain.id_of(public_id, prefix="batch_")
    batch = None if batch_id is None else queries.batch(batch_id)
    if batch is None or batch.owner_id != user.pk:
        raise UnknownBatch
    return batch


def visible(batch_id: UUID, *, viewer: Any) -> Batch:
    """This batch, for its owner and for whoever sees all jobs. Raises UnknownBatch."""
    batch = queries.batch(batch_id)
    if batch is None or not (batch.owner_id == viewer.pk or jobs.sees_all(viewer)):
        raise UnknownBatch
    return batch


def may_cancel(batch: Batch, *, by: User) -> bool:
    """Whether this person may cancel this batch: its owner, and whoever may cancel anybody's jobs."""
    is_operator = by.is_active and by.is_staff and by.has_perm("jobs.operate_job")
    return batch.owner_id == by.pk or is_operator


def listed(user: User, *, after: str | None, limit: int) -> tuple[Sequence[Batch], bool]:
    """This person's batches, newest first, `limit` at most, and whether there are more. Raises UnknownBatch for
    `after`."""
    last = None if after is None else find(after, user=user)
    return queries.page(Batch.objects.filter(owner=user), after=last, limit=limit)


@transactions.retried
def cancel(batch_id: UUID, *, by: User | None = None) -> Batch:
    """Cancel what of a batch has not begun, for `by`, of whom the caller knows that they may. What runs may end within
    ten minutes, and then its files have what was done. A second call changes nothing. Raises UnknownBatch,
    BatchEnded."""
    batch = queries.locked(batch_id)
    if batch is None:
        raise UnknownBatch
    if not batch.is_live or batch.status == BatchStatus.FINALIZING:
        raise BatchEnded(status=batch.status)
    if batch.status != BatchStatus.CANCELLING:
        steps.close(batch, ends_as=BatchStatus.CANCELLED)
        steps.restart(batch)
        steps.touch(batch.pk)
        audit.record(by, batch, "Cancelled the batch")
    return batch
