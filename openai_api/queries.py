"""Statements about files and batches."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, TypeVar
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import F, Q, QuerySet, Sum
from django.db.models.functions import Now

from openai_api.domain.batches import LIVE
from openai_api.models import Batch, File, Slice

Row = TypeVar("Row", File, Batch)


def file_of(owner: User, file_id: UUID, *, lock: bool = False) -> File | None:
    """This file, if it is this person's and has not expired."""
    files = File.objects.filter(pk=file_id, owner=owner, expires_at__gt=Now())
    return (files.select_for_update(of=("self",)) if lock else files).first()


def page(rows: "QuerySet[Row]", *, after: Row | None, limit: int, is_ascending: bool = False) -> tuple[list[Row], bool]:
    """So many of these, newest first unless asked otherwise, from the one after `after` on; and whether there are
    more."""
    if after is not None:
        earlier = Q(created_at__lt=after.created_at) | Q(created_at=after.created_at, pk__gt=after.pk)
        later = Q(created_at__gt=after.created_at) | Q(created_at=after.created_at, pk__lt=after.pk)
        rows = rows.filter(later if is_ascending else earlier)
    listed = list(rows.order_by(*(("created_at", "-pk") if is_ascending else ("-created_at", "pk")))[: limit + 1])
    return listed[:limit], len(listed) > limit


def batch(batch_id: UUID) -> Batch | None:
    rows = Batch.objects.select_related("owner", "input_file", "output_file", "error_file")
    return rows.filter(pk=batch_id).first()


def locked(batch_id: UUID) -> Batch | None:
    """A batch, locked until the end of the caller's transaction."""
    return Batch.objects.select_for_update().filter(pk=batch_id).first()


def of_job(job_id: int) -> Batch | None:
    part = Slice.objects.select_related("batch").filter(job_ids__contains=[job_id]).first()
    return None if part is None else part.batch


def outstanding(owner_id: int) -> int:
    """How many jobs of this person's batches had not ended when they were counted last."""
    live = Batch.objects.filter(owner_id=owner_id, status__in=sorted(LIVE))
    jobs = Sum(F("submitted") - F("completed") - F("failed"))
    return int(live.aggregate(jobs=jobs)["jobs"] or 0)


def plan(batch_id: UUID, *, chain: int, in_s: float) -> None:
    """Note when the next step of this chain is to come at the latest."""
    rows = Batch.objects.filter(pk=batch_id, chain=chain)
    rows.update(next_step_at=Now() + timedelta(seconds=in_s))


def slices(batch_id: UUID) -> list[Slice]:
    """The slices of a batch without what only its files need, in their order."""
    return list(Slice.objects.filter(batch_id=batch_id).defer("custom_ids").order_by("read_from"))


def line_jobs(batch_id: UUID, *, first: int) -> Iterator[tuple[str, int]]:
    """The names of the lines of a batch with their jobs, from this line on (0 is the first)."""
    begin = 0
    for part in slices(batch_id):
        count = len(part.job_ids)
        if first < begin + count:
            skipped = max(0, first - begin)
            yield from zip(part.custom_ids[skipped:], part.job_ids[skipped:], strict=True)
        begin += count


def save(row: Batch, **columns: Any) -> None:
    """Write these columns of a locked batch."""
    for name, value in columns.items():
        setattr(row, name, value)
    row.save(update_fields=list(columns))
