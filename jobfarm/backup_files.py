"""The result and input files of a backup: from where they lie into its folder, and from there to where files lie then.
Either may be a disk or a bucket."""

import os
import shutil
from itertools import chain
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.files.storage import storages

from jobs.models import ResultFile, Upload


def take(folder: Path) -> None:
    """Copy all files of jobs into a new folder. What retention deletes meanwhile is left out. Raises OSError."""
    if settings.FILES_ORIGIN:
        _download(folder)
    elif settings.MEDIA_ROOT.exists():
        shutil.copytree(settings.MEDIA_ROOT, folder, ignore=_gone)
    else:
        folder.mkdir()  # a farm that never had a file: one that is lost from the backup is noticed


def put(folder: Path) -> None:
    """Copy the files of a backup to where this farm keeps its own, under the same names. Raises OSError."""
    if not settings.FILES_ORIGIN:
        shutil.copytree(folder, settings.MEDIA_ROOT, dirs_exist_ok=True)
        return
    bucket: Any = storages["default"]
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        bucket.upload(path, path.relative_to(folder).as_posix())


def _download(folder: Path) -> None:
    """One after the other, each straight to the disk: a bucket may have more than memory holds."""
    bucket: Any = storages["default"]
    folder.mkdir()
    names = (rows.objects.values_list("stored_as", flat=True).iterator() for rows in (ResultFile, Upload))
    for name in chain.from_iterable(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        bucket.download(name, path)


def _gone(folder: str, names: list[str]) -> set[str]:
    """What retention deleted since the folder was read."""
    return {name for name in names if not os.path.lexists(os.path.join(folder, name))}
