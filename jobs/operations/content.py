"""Jobs whose content is not kept (docs/adr/0140): what they were given and gave is deleted a while after their end. And
the deletion of files in the storage."""

import logging
from collections.abc import Iterable, Sequence

from django.conf import settings
from django.core.files.storage import default_storage

from jobs.errors import ContentNotKept
from jobs.models import ContentDeletion, Job
from jobs.operations import hooks
from jobs.queries import inputs, moves
from jobs.queries.submits import Stored
from scheduling import operations as scheduling
from scheduling.operations import Retry, action

log = logging.getLogger(__name__)


def note(stored: Iterable[Stored]) -> None:
    """Note which of these new jobs are such; where none is, nothing is asked of the database."""
    if noted := [ContentDeletion(job_id=one.id) for one in stored if not one.record.keep_content]:
        ContentDeletion.objects.bulk_create(noted)


def ended(job_ids: Sequence[int]) -> None:
    """Delete the content of those of these jobs, which have just ended, in time: a function of the same transaction."""
    if job_ids and (noted := list(ContentDeletion.objects.filter(pk__in=job_ids).values_list("pk", flat=True))):
        scheduling.run_after(settings.JOBFARM["CONTENT_GRACE_S"], delete_content, job_ids=noted)


def check(job: Job) -> None:
    """Raise ContentNotKept for a job whose content was deleted: there is nothing to run again, or to go on from."""
    if (deletion := getattr(job, "content_deletion", None)) is not None and deletion.deleted_at is not None:
        raise ContentNotKept(job=job.pk)


@scheduling.mutation
def delete_content(*, job_ids: list[int]) -> int:
    """Delete what these ended jobs were given and gave; of how many. Those of a flow that lives wait for its end: later
    steps get their results. Files in the storage go after the commit."""
    rows = moves.delete_content(job_ids)
    uploads = [upload for row in rows for upload in row.uploads]
    names = [name for row in rows for name in row.files] + inputs.delete_unused(inputs.lock_unused(only=uploads))
    if names:
        scheduling.run_after(0, delete_files, names=names)
    if rest := [row.id for row in rows if row.waits]:
        scheduling.run_after(settings.JOBFARM["CONTENT_GRACE_S"], delete_content, job_ids=rest)
    hooks.changed([row.id for row in rows])
    return len(rows) - len(rest)


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
