"""Statements about input files: uploads, and which jobs use them."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from core.refusal import existing
from jobs.domain import payloads
from jobs.domain.files import places_of
from jobs.errors import NoSuchFile
from jobs.models import Input, Job, Upload
from jobs.models.inputs import PARTS
from jobs.queries import reads
from jobs.queries.reads import AnyUser
from postgres import statements

Described = Sequence[Mapping[str, Any]]  # what a payload row says of each input of a job


def lock(ids: Sequence[UUID]) -> dict[UUID, statements.Row]:
    """Those of these uploads that are there, by id; none of them is deleted before the end of this transaction."""
    return {row.id: row for row in statements.load("jobs", "lock_uploads").run({"ids": sorted(ids)})}


def seen_in_jobs(ids: Sequence[UUID], *, by: AnyUser) -> set[UUID]:
    """Those of these uploads that a job uses which this person may see."""
    jobs = reads.visible_to(by).filter(input_files__upload__in=ids)
    return set(jobs.values_list("input_files__upload", flat=True))


def keep(described: Mapping[int, Described]) -> None:
    """Note these jobs' inputs, by the jobs' ids. The jobs are new in this transaction, the uploads locked."""
    uses = [(job_id, entry["name"], entry["file"]) for job_id, entries in described.items() for entry in entries]
    statements.load("jobs", "keep_inputs").run(
        {
            "job": [job_id for job_id, _, _ in uses],
            "name": [name for _, name, _ in uses],
            "upload": [UUID(upload) for _, _, upload in uses],
            "described_job": list(described),
            "described": [json.dumps(entries) for entries in described.values()],
        }
    )


def of_job(job_id: int) -> list[Input]:
    """The inputs of a job with their uploads, by name; without those whose upload was deleted since it ended."""
    return list(Input.objects.select_related("upload").filter(job_id=job_id).order_by("name"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The inputs of a job as a page shows them: pictures, others with how (`payloads.shown_as`), and the names of
    deleted ones."""

    pictures: list[Input]
    others: list[tuple[Input, str]]
    deleted: list[str]


def shown(job: Job) -> Shown | None:
    """What the page of a job, which was read with its payload, shows of its inputs; None for the many without."""
    if not job.inputs:
        return None
    there, places = of_job(job.pk), places_of(job.inputs)
    for file in there:
        file.place = ", ".join(".".join(map(str, path)) for path in places.get(file.name, ()))
    pictures = [file for file in there if file.filename.lower().endswith(payloads.PICTURES)]
    others = [(file, payloads.shown_as(file.filename)) for file in there if file not in pictures]
    names = {file.name for file in there}
    deleted = [entry["name"] for entry in job.inputs if entry["name"] not in names]
    return Shown(pictures=pictures, others=others, deleted=deleted)


def one(job_id: int, *, name: str) -> Upload:
    """The upload that this job has under this name. Raises NoSuchFile."""
    uploads = Upload.objects.filter(uses__job_id=job_id, uses__name=name)
    return existing(None if "\x00" in name else uploads.first(), NoSuchFile())


def for_owner(file_id: UUID, *, owner: AnyUser, lock: bool = False) -> Upload:
    """This upload, if it is this person's; locked if asked, so that no job comes to use it meanwhile. Raises
    NoSuchFile."""
    uploads = Upload.objects.filter(pk=file_id, owner_id=owner.pk)
    return existing((uploads.select_for_update() if lock else uploads).first(), NoSuchFile())


def touch_parts(hashes: Iterable[str], *, owner_id: int | None) -> dict[str, UUID]:
    """Those parts of payloads with these hashes that the owner has, which nothing deletes for the next 24 hours."""
    parts = Upload.objects.filter(stored_as__startswith=f"{PARTS}/", owner_id=owner_id, sha256__in=list(hashes))
    with transaction.atomic():
        kept = dict(parts.order_by("sha256", "pk").select_for_update().values_list("sha256", "pk"))
        Upload.objects.filter(pk__in=kept.values()).update(created_at=Now())
    return kept


def age(ids: Collection[UUID]) -> None:
    """Let those of these parts that no job uses be kept for an hour from now."""
    parts = _unused().filter(pk__in=ids, stored_as__startswith=f"{PARTS}/")
    parts.update(created_at=Now() - timedelta(hours=23))


def keep_until(file_id: UUID, moment: datetime) -> bool:
    """Let this upload stay until then, whatever uses it; whether it is there."""
    return Upload.objects.filter(pk=file_id).update(kept_until=moment) > 0


def is_used(file_id: UUID, *, by_live: bool = False) -> bool:
    """Whether any job uses this upload; `by_live`: any that has not ended."""
    uses = Input.objects.filter(upload_id=file_id)
    return (uses.filter(job__in=Job.objects.living()) if by_live else uses).exists()


def _unused() -> QuerySet[Upload]:
    uses = Input.objects.filter(upload=OuterRef("pk"))
    return Upload.objects.filter(Q(kept_until=None) | Q(kept_until__lt=Now()), ~Exists(uses))


def lock_unused(*, age_s: float = 60.0, limit: int | None = None, only: Sequence[UUID] | None = None) -> list[UUID]:
    """Uploads (`only` of these) that are older than this and that no job uses and nobody keeps, locked, the oldest
    first. Within a minute of its upload somebody is about to use it."""
    old = _unused().filter(created_at__lt=Now() - timedelta(seconds=age_s)).order_by("created_at", "pk")
    old = old if only is None else old.filter(pk__in=only)
    return list(old.select_for_update(skip_locked=True).values_list("pk", flat=True)[:limit])


def delete_unused(ids: Sequence[UUID]) -> list[str]:
    """Delete those of these locked uploads that no job has come to use while they were being locked; the names of their
    stored files."""
    gone = dict(_unused().filter(pk__in=ids).values_list("pk", "stored_as"))
    Upload.objects.filter(pk__in=gone).delete()
    return list(gone.values())


def delete(upload: Upload) -> None:
    """Delete this locked upload, and its uses by jobs that ended."""
    Input.objects.filter(upload=upload).delete()
    Upload.objects.filter(pk=upload.pk).delete()
