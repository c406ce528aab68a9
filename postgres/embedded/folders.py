"""Folders that only their owner can enter, and whose owner is known."""

import os
import stat
from contextlib import suppress
from pathlib import Path

from postgres.errors import UnsafeFolder

_GROUP_OR_OTHERS_MAY_WRITE = 0o022


def private(folder: Path, *, uid: int, gid: int) -> None:
    """Make `folder` (its parent exists) with mode 0700 for that user, or make sure that it is so. Raises UnsafeFolder
    if it is somebody else's, a link or no folder."""
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    status = folder.lstat()
    if os.geteuid() == 0 == status.st_uid and stat.S_ISDIR(status.st_mode):  # made just now, or by one who was killed
        os.chown(folder, uid, gid, follow_symlinks=False)
        status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise UnsafeFolder(folder=folder, reason="it is not a folder")
    if status.st_uid != uid:
        raise UnsafeFolder(folder=folder, reason=f"it belongs to user {status.st_uid}, not to user {uid}")
    if stat.S_IMODE(status.st_mode) != 0o700:
        folder.chmod(0o700)


def roots_own(folder: Path) -> None:
    """Make `folder`, which everybody may pass but only root may change, or make sure that it is so. Raises
    UnsafeFolder."""
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != 0 or status.st_mode & _GROUP_OR_OTHERS_MAY_WRITE:
        raise UnsafeFolder(folder=folder, reason="others than root can change it")
