"""Files in the storage that no job knows: what a crash left between storing a file and noting it."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from django.core.files.storage import default_storage

from jobs.queries import orphans

FOLDER: Final = "jobs"
# A file is stored before its row is written, and an upload may take a while.
OLD_ENOUGH: Final = timedelta(hours=1)
_BATCH: Final = 500


def delete_orphaned_files(*, now: datetime, limit: int = 1000) -> list[str]:
    """Delete result files that are older than an hour and that no row names, up to `limit`; their names.

    Reads every name in the storage's folder of jobs. Nothing here is undone by a rollback: call it outside of one.
    """
    deleted: list[str] = []
    batch: list[str] = []
    for name in _files(FOLDER):
        batch.append(name)
        if len(batch) == _BATCH:
            deleted += _delete_unknown(batch, now=now, limit=limit - len(deleted))
            batch = []
        if len(deleted) >= limit:
            return deleted
    return deleted + _delete_unknown(batch, now=now, limit=limit - len(deleted))


def _files(folder: str) -> Iterator[str]:
    try:
        folders, files = default_storage.listdir(folder)
    except FileNotFoundError:
        return
    for name in sorted(files):
        yield f"{folder}/{name}"
    for name in sorted(folders):
        yield from _files(f"{folder}/{name}")


def _delete_unknown(names: list[str], *, now: datetime, limit: int) -> list[str]:
    unknown = [name for name in orphans.unknown_files(names) if _is_old(name, now=now)][:limit]
    for name in unknown:
        default_storage.delete(name)
    return unknown


def _is_old(name: str, *, now: datetime) -> bool:
    try:
        return default_storage.get_modified_time(name) < now - OLD_ENOUGH
    except FileNotFoundError:
        return False
