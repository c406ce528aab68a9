"""Whether a restored farm is the one that was backed up: the rows of each table are counted, and the newest job that
ended is read with its payload, its result and its files, as pages and API read them."""

from collections.abc import Iterator, Mapping

from django.apps import apps
from django.core.files.storage import default_storage
from django.db.models import Model, QuerySet

from jobs.models import Job, ResultFile, Upload
from jobs.queries import inputs, reads


def counts() -> dict[str, int]:
    """How many rows each table of the installed apps has, by its name."""
    return {table: rows.count() for table, rows in _tables().items()}


def differences(noted: Mapping[str, int]) -> list[str]:
    """A sentence for each table that has another number of rows than was noted. Those that this version no longer has,
    or that a migration is yet to make, are left out."""
    tables = _tables()
    restored = {table: tables[table].count() for table in sorted(noted) if table in tables}
    return [
        f"{table} has {number} rows, and had {noted[table]}."
        for table, number in restored.items()
        if number != noted[table]
    ]


def _tables() -> dict[str, QuerySet[Model]]:
    """All rows of each table, by its name."""
    models = [model for model in apps.get_models(include_auto_created=True) if model._meta.managed]
    return {model._meta.db_table: model._base_manager.all() for model in models}


def unreadable(*, with_files: bool) -> list[str]:
    """A sentence for each part of the newest job that ended which cannot be read. None for a farm without one."""
    job = Job.objects.ended().whole().order_by("-pk").first()
    return [] if job is None else list(_unreadable(job, with_files=with_files))


def _unreadable(job: Job, *, with_files: bool) -> Iterator[str]:
    input_files: list[ResultFile | Upload] = [use.upload for use in inputs.of_job(job.pk)]
    for file in [*reads.files([job.pk])[job.pk], *input_files] if with_files else []:
        size = default_storage.size(file.stored_as) if default_storage.exists(file.stored_as) else 0
        if size != file.size:
            yield f"The file {file.name} of job {job.pk} has {size} bytes, and had {file.size}."
