"""Statements about files and batches."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import F, Q, QuerySet, Sum
from django.db.models.functions import Now

from openai_api.domain.batches import LIVE
from openai_api.models import Batch, File, LeftCall, Slice

Row = TypeVar("Row", File, Batch)


def file_of(owner: User, file_id: UUID, *, lock: bool = False) -> File | None:
    """This file, if it is this person's and has not expired."""
    files = File.objects.filter(pk=file_id, owner=owner, expires_at__gt=Now())
    return (files.select_for_update(of=("self",)) if lock else files).first()


def files_of(owner: User, *, purpose: str | None) -> QuerySet[File]:
    """This person's files that have not expired, of one purpose or of all."""
    files = File.objects.filter(owner=owner, expires_at__gt=Now())
    return files if purpose is None else files.filter(purpose=purpose)


def batches_of(owner: User | None) -> QuerySet[Batch]:
    """This person's batches, or everybody's (None)."""
    return Batch.objects.all() if owner is None else Batch.objects.filter(owner=owner)


def page(rows: "QuerySet[Row]", *, after: Row | None, limit: int, is_ascending: bool = False) -> list[Row]:
    """So many of these and one more, newest first unless asked otherwise, from the one after `after` on."""
    if after is not None:
        earlier = Q(created_at__lt=after.created_at) | Q(created_at=after.created_at, pk__gt=after.pk)
        later = Q(created_at__gt=after.created_at) | Q(created_at=after.created_at, pk__lt=after.pk)
        rows = rows.filter(later if is_ascending else earlier)
    return list(rows.order_by(*(("created_at", "-pk") if is_ascending else ("-created_at", "pk")))[: limit + 1])


def is_input(file_id: UUID) -> bool:
    """Whether a batch that has not ended reads this file."""
    return Batch.objects.filter(input_file_id=file_id, status__in=sorted(LIVE)).exists()


def keep_file(file_id: UUID, *, until: datetime) -> None:
    """Let a file expire no sooner than then."""
    File.objects.filter(pk=file_id, expires_at__lt=until).update(expires_at=until)


def batch(batch_id: UUID) -> Batch | None:
    rows = Batch.objects.select_related("owner", "input_file", "output_file", "error_file")
    return rows.filter(pk=batch_id).first()


def locked(batch_id: UUID) -> Batch | None:
    """A batch, locked until the end of the caller's transaction."""
    return Batch.objects.select_for_update().filter(pk=batch_id).first()


def of_job(job_id: int) -> Batch | None:
    part = Slice.objects.select_related("batch").filter(job_ids__contains=[job_id]).first()
    return None if part is None else part.batch


def count_live(owner: User) -> int:
    """How many of this person's batches have yet to end."""
    return Batch.objects.filter(owner=owner, status__in=sorted(LIVE)).count()


def count_kept(owner: User, *, most: int) -> int:
    """How many batches of this person there are, ended ones included; `most` where there are more."""
    return Batch.objects.filter(owner=owner)[:most].count()


def outstanding(owner_id: int) -> int:
    """How many jobs of this person's batches had not ended when they were counted last."""
    live = Batch.objects.filter(owner_id=owner_id, status__in=sorted(LIVE))
    jobs = Sum(F("submitted") - F("completed") - F("failed"))
    return int(live.aggregate(jobs=jobs)["jobs"] or 0)


def broken(*, late: timedelta, limit: int) -> list[UUID]:
    """Batches whose next step should have come so long ago."""
    rows = Batch.objects.filter(status__in=sorted(LIVE), next_step_at__lt=Now() - late)
    return list(rows.order_by("next_step_at").values_list("pk", flat=True)[:limit])


def plan(batch_id: UUID, *, chain: int, in_s: float) -> None:
    """Note when the next step of this chain is to come at the latest."""
    rows = Batch.objects.filter(pk=batch_id, chain=chain)
    rows.update(next_step_at=Now() + timedelta(seconds=in_s))


def slices(batch_id: UUID) -> list[Slice]:
    """The slices of a batch without what only its files need, in their order."""
    return list(Slice.objects.filter(batch_id=batch_id).defer("custom_ids").order_by("read_from"))


def slice_ids(batch_id: UUID) -> list[int]:
    """The ids of the slices of a batch, in their order."""
    return list(Slice.objects.filter(batch_id=batch_id).order_by("read_from").values_list("pk", flat=True))


def line_jobs(batch_id: UUID, *, first: int) -> Iterator[tuple[str, int]]:
    """The names of the lines of a batch with their jobs, from this line on (0 is the first)."""
    begin = 0
    for part in slices(batch_id):
        count = len(part.job_ids)
        if first < begin + count:
            skipped = max(0, first - begin)
            yield from zip(part.custom_ids[skipped:], part.job_ids[skipped:], strict=True)
        begin += count


def slice_(slice_id: int) -> Slice:
    return Slice.objects.get(pk=slice_id)


def keep_slice(batch: Batch, *, read_from: int, job_ids: Sequence[int], custom_ids: Sequence[str]) -> None:
    """Note which jobs these lines of a locked batch became."""
    Slice.objects.create(batch=batch, read_from=read_from, job_ids=list(job_ids), custom_ids=list(custom_ids))


def save(row: Batch, **columns: Any) -> None:
    """Write these columns of a locked batch."""
    for name, value in columns.items():
        setattr(row, name, value)
    row.save(update_fields=list(columns))


def keep_counts(counted: Sequence[Slice]) -> None:
    Slice.objects.bulk_update(counted, ["completed", "failed"])


def leave(job_id: int, *, owner_id: int, fingerprint: str) -> None:
    """Note that the caller of this job went away."""
    row = LeftCall(job_id=job_id, owner_id=owner_id, fingerprint=fingerprint)
    LeftCall.objects.bulk_create([row], ignore_conflicts=True)


def take_back(job_id: int) -> bool:
    """Forget that its caller went away; whether that was still noted. Of several that try, one does."""
    return LeftCall.objects.filter(job_id=job_id).delete()[0] > 0


def take_over(fingerprint: str, *, owner_id: int, age: timedelta) -> int | None:
    """The oldest job of this call of this person whose caller went away so lately, for the one who asks first."""
    rows = LeftCall.objects.filter(fingerprint=fingerprint, owner_id=owner_id, left_at__gt=Now() - age)
    return next((row.job_id for row in rows.order_by("job_id") if take_back(row.job_id)), None)


def forget_left(*, age: timedelta) -> list[int]:
    """Forget calls whose callers went away longer ago than this; their jobs."""
    old = LeftCall.objects.filter(left_at__lt=Now() - age).values_list("job_id", flat=True)[:100]
    return [job_id for job_id in list(old) if take_back(job_id)]
