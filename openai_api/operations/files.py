"""Files of OpenAI's API: uploads of `jobs` that are kept for a time, with a purpose (docs/adr/0084)."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.files import File as Content
from django.db.models.functions import Now

from jobs import operations as jobs
from openai_api import queries
from openai_api.domain import files as domain
from openai_api.domain.batches import LIVE
from openai_api.errors import FileInBatch, UnknownFile
from openai_api.models import Batch, File
from postgres import clock, transactions


def create(content: "Content[Any]", *, name: str, purpose: str, user: User, expires_s: float | None = None) -> File:
    """Keep a file of this person's until `expires_s` seconds from now, or as long as the farm keeps files.

    It counts for the quotas of its owner. Raises InvalidCall, and PayloadTooLarge and QuotaReached as
    `jobs.operations.upload`.
    """
    domain.check(purpose=purpose, name=name)
    lasts = settings.OPENAI["FILE_DAYS"] * 86400.0 if expires_s is None else domain.checked_expiry(expires_s)
    upload = jobs.upload(domain.stored_name(name), content, owner=user, most_bytes=settings.OPENAI["FILE_BYTES"])
    return keep(upload, name=name, purpose=purpose, until=clock.now() + timedelta(seconds=lasts))


@transactions.retried
def keep(upload: Any, *, name: str, purpose: str, until: datetime) -> File:
    """Make an upload that nobody has used yet a file. Killed before this, its bytes go as any unused upload does."""
    jobs.keep_upload(upload.pk, until=until)
    return File.objects.create(
        id=upload.pk, owner_id=upload.owner_id, name=name, purpose=purpose, size=upload.size,
        sha256=upload.sha256, stored_as=upload.stored_as, expires_at=until,
    )  # fmt: skip


def find(public_id: str, *, user: User) -> File:
    """This person's file with this id. Raises UnknownFile."""
    file_id = domain.id_of(public_id)
    file = None if file_id is None else queries.file_of(user, file_id)
    if file is None:
        raise UnknownFile(file=public_id)
    return file


def listed(
    user: User, *, purpose: str | None, after: str | None, limit: int, is_ascending: bool
) -> tuple[Sequence[File], bool]:
    """This person's files, `limit` at most, and whether there are more. Raises UnknownFile for `after`."""
    last = None if after is None else find(after, user=user)
    files = File.objects.filter(owner=user, expires_at__gt=Now())
    files = files if purpose is None else files.filter(purpose=purpose)
    rows = queries.page(files, after=last, limit=limit, is_ascending=is_ascending)
    return rows[:limit], len(rows) > limit


@transactions.retried
def delete(public_id: str, *, user: User) -> None:
    """Delete a file with its bytes. Raises UnknownFile, FileInBatch while a batch that has not ended reads it, and
    FileInUse while a job has it as an input."""
    file_id = domain.id_of(public_id)
    file = None if file_id is None else queries.file_of(user, file_id, lock=True)
    if file is None:
        raise UnknownFile(file=public_id)
    if Batch.objects.filter(input_file=file, status__in=sorted(LIVE)).exists():
        raise FileInBatch
    jobs.delete_upload(file.pk, by=user, also_kept=True)
    file.delete()


def hold(file: File, *, until: datetime) -> None:
    """Keep a file at least until then; in the caller's transaction."""
    if file.expires_at < until:
        jobs.keep_upload(file.pk, until=until)
        File.objects.filter(pk=file.pk, expires_at__lt=until).update(expires_at=until)
