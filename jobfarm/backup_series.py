"""Backups one after the other in a folder of their own: each is named for its moment, and the newest are kept."""

import re
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from jobfarm import backups
from jobfarm.backups import NoBackup, Note
from postgres import clock

_NAME: Final = re.compile(r"\d{8}T\d{6}Z")
_REMAINS: Final = re.compile(rf"{_NAME.pattern}\.unfinished-[0-9a-f]{{8}}")
REMAINS_AFTER: Final = timedelta(days=1)  # without a write: no lock, since folders of NFS cannot be locked


def add(folder: Path, *, keep: int, with_files: bool = True) -> tuple[Path, Note]:
    """Write a backup into a new folder below `folder`, and remove what is older than the newest `keep` of them.

    They go only when the new one is whole. What has another name, or is no whole backup, is not touched; what a killed
    process left unfinished goes when nobody has written to it for a day. Raises what `backups.make` raises.
    """
    path = folder / f"{clock.now().astimezone(UTC):%Y%m%dT%H%M%SZ}"
    note = backups.make(path, with_files=with_files)
    for remains in _remains(folder):
        shutil.rmtree(remains)
    for old in _whole(folder)[:-keep]:
        _remove(old)
    return path, note


def _whole(folder: Path) -> list[Path]:
    """The backups that a restore would take, the oldest first."""
    return sorted(path for path in folder.iterdir() if _NAME.fullmatch(path.name) and _is_backup(path))


def _is_backup(path: Path) -> bool:
    try:
        backups.read(path)
    except NoBackup:
        return False
    return True


def _remove(path: Path) -> None:
    """A removal that is broken off leaves no half of a backup under its name."""
    going = path.with_name(f"{path.name}.unfinished-{0:08x}")
    path.rename(going)
    shutil.rmtree(going)


def _remains(folder: Path) -> list[Path]:
    since = datetime.now(UTC) - REMAINS_AFTER  # noqa: TID251 (times of files are this machine's)
    return [
        path for path in folder.iterdir() if _REMAINS.fullmatch(path.name) and _written_at(path) < since.timestamp()
    ]


def _written_at(path: Path) -> float:
    places = [path, *(each for each in path.rglob("*") if each.is_dir()), *path.glob("*")]
    return max(place.stat().st_mtime for place in places)
