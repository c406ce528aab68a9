"""Jobs whose content is not kept (docs/adr/0140): what they were given and gave is deleted, or what of it matches their
kind's patterns is redacted, a while after their end. And the deletion of files in the storage."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from django.conf import settings
from django.core.files.storage import default_storage
from django.db import transaction

from jobs import registry
from jobs.domain import kinds
from jobs.errors import ContentNotKept
from jobs.models import ContentDeletion, Job
from jobs.operations import hooks
from jobs.operations.set_aside import by_halves
from jobs.queries import inputs, reports as queries
from jobs.queries.submits import Stored
from scheduling import operations as scheduling
from scheduling.operations import Retry, action

FILES_AT_ONCE = 500
_EIGHTHS = 8  # of the time since the end, until it is tried again
log = logging.getLogger(__name__)


def note(stored: Iterable[Stored]) -> None:
    """Note which of these new jobs are such; where none is, nothing is asked of the database."""
    noted = [(one.id, one.record) for one in stored if not one.record.keeps_all]
    if noted:
        rows = (ContentDeletion(job_id=pk, patterns=of.redact if of.keep_content else "") for pk, of in noted)
        ContentDeletion.objects.bulk_create(rows)


def ended(job_ids: Sequence[int]) -> None:
    """Delete the content of those of these jobs, which have just ended, in time: a function of the same transaction."""
    if job_ids and (noted := list(ContentDeletion.objects.filter(pk__in=job_ids).values_list("pk", flat=True))):
        scheduling.run_after(settings.JOBFARM["CONTENT_GRACE_S"], delete_content, job_ids=noted)


def check(job: Job) -> None:
    """Raise ContentNotKept for a job whose content was deleted or redacted: it cannot be run again, or gone on from."""
    if (deletion := getattr(job, "content_deletion", None)) is not None and deletion.deleted_at is not None:
        raise ContentNotKept(job=job.pk)


@scheduling.mutation
def delete_content(*, job_ids: list[int]) -> int:
    """Delete, or redact, what these ended jobs were given and gave; of how many. Tried again a while later: those of a
    flow that lives, whose later steps get their results, and one that cannot be deleted, which is a line in the log.
    The while grows: a flow may live for weeks, and have any number of steps that ended."""
    rows = queries.lock_content(job_ids)
    due = {row.id: row.patterns for row in rows if not row.waits}
    done: Iterator[list[int]] = by_halves(partial(_delete, due), [*due], failed=[])
    gone = {pk for job_ids in done for pk in job_ids}
    if left := [row for row in rows if row.id not in gone]:
        again_s = max(settings.JOBFARM["CONTENT_GRACE_S"], left[0].ended_ago_s / _EIGHTHS)
        scheduling.run_after(again_s, delete_content, job_ids=[row.id for row in left])
    return len(gone)


def _delete(patterns: Mapping[int, str], job_ids: Sequence[int]) -> list[int]:
    """Files in the storage go after the commit."""
    for pk in job_ids:
        if patterns[pk]:
            _redact(pk, patterns[pk])
    gone = queries.delete_content(job_ids)
    for delete in registry.CONTENT.values():
        delete(job_ids)
    uploads = [upload for row in gone for upload in row.uploads]
    names = [name for row in gone for name in row.files] + inputs.delete_unused(inputs.lock_unused(only=uploads))
    delete_later(names)
    hooks.changed(job_ids)
    return [*job_ids]


def _redact(job_id: int, patterns: str) -> None:
    """What cannot be read, or searched, is deleted instead."""
    try:
        with transaction.atomic():
            queries.rewrite_content(job_id, partial(kinds.redacted, patterns=patterns))
    except ValueError:
        log.exception("job %d cannot be redacted: what it was given and gave is deleted", job_id)
        ContentDeletion.objects.filter(pk=job_id).update(patterns="")


def delete_later(names: Sequence[str]) -> None:
    """Have these files deleted once the caller's transaction has committed, so many by one function: five hundred jobs
    may have a hundred thousand, and a bucket deletes some thirty a second."""
    for first in range(0, len(names), FILES_AT_ONCE):
        scheduling.run_after(0, delete_files, names=[*names[first : first + FILES_AT_ONCE]])


@action(idempotent=True, retry=Retry(max_attempts=8, base=4))
def delete_files(*, names: list[str]) -> None:
    """Delete these files of deleted jobs, or input files. Those that are gone already do not matter; for those that
    cannot be deleted it is retried. Raises the first error, after trying all."""
    errors = [error for name in names if (error := delete_file(name))]
    if errors:
        raise errors[0]


def delete_file(name: str) -> Exception | None:
    """Delete this file: why it could not be deleted: whatever the storage says of one is no other's fault."""
    try:
        default_storage.delete(name)
    except Exception as error:
        log.warning("the file %s of a deleted job could not be deleted: %s", name, error)
        return error
    return None
