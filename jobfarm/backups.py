"""A backup is a folder: the database, the key that opens what is sealed in it, the result files, and a note.

The three belong together: without its SECRET_KEY the secrets of webhooks cannot be opened and nobody stays logged in,
and a job's row says which files there are.
"""

import json
import os
import secrets
import shutil
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import ClassVar, Final

from django.conf import settings
from django.db import connection

from postgres import clock, programs, statements

DUMP: Final = "database.dump"
KEY: Final = "secret_key"
FILES: Final = "files"
NOTE: Final = "backup.json"
FORMAT: Final = 1


class BackupError(Exception):
    """The backup cannot be used."""

    code: ClassVar[str] = "backup_error"

    def __init__(self, **facts: object) -> None:
        self.__dict__.update(facts)
        super().__init__(" ".join((self.__doc__ or "").split()).format(**facts))


class AlreadyThere(BackupError):
    """{folder} exists already: a backup is never written over another."""

    code = "already_there"
    folder: Path


class NoBackup(BackupError):
    """{folder} holds no whole backup of this form."""

    code = "no_backup"
    folder: Path


class DatabaseInUse(BackupError):
    """The database {name} is not empty. Restore into a new one: an earlier JOBFARM_DATA, or createdb."""

    code = "database_in_use"
    name: str


class OtherKey(BackupError):
    """SECRET_KEY is another than the one that this backup was made under. Set it to what {folder}/secret_key holds."""

    code = "other_key"
    folder: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """The note of a backup. `with_files` False: they lie in a bucket (FILES_URL), whose copies are its own."""

    format: int
    made_at: datetime
    postgresql: str
    with_files: bool


def make(folder: Path) -> Note:
    """Write a backup while the farm runs: the database as of one moment, then the files. Whole or not there at all.

    Files come after the database, so all that its rows name are in it, unless retention deleted a job in between.
    Raises AlreadyThere, ProgramMissing, ProgramFailed, OSError.
    """
    if folder.exists():
        raise AlreadyThere(folder=folder)
    unfinished = folder.with_name(f"{folder.name}.unfinished-{secrets.token_hex(4)}")
    unfinished.mkdir(mode=0o700, parents=True)
    try:
        note = _note()
        programs.run(
            "pg_dump", "--format=custom", "--no-owner", "--no-privileges", f"--file={unfinished / DUMP}"
        )
        _write_secret(unfinished / KEY, settings.SECRET_KEY)
        if note.with_files and settings.MEDIA_ROOT.exists():
            shutil.copytree(settings.MEDIA_ROOT, unfinished / FILES, ignore=_gone)
        (unfinished / NOTE).write_text(json.dumps(asdict(note), default=str, indent=2) + "\n")
        unfinished.rename(folder)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    return note


def restore(folder: Path) -> Note:
    """Fill an empty database, the place for files and, where none is given, the secret key from a backup.

    The database is filled by one transaction. Raises NoBackup, DatabaseInUse, OtherKey, ProgramMissing, ProgramFailed.
    """
    note = read(folder)
    _check_empty()
    _take_key(folder)
    programs.run(
        "pg_restore", "--no-owner", "--no-privileges", "--single-transaction", "--exit-on-error",
        f"--dbname={connection.settings_dict['NAME']}", str(folder / DUMP),
    )  # fmt: skip
    if (folder / FILES).exists():
        shutil.copytree(folder / FILES, settings.MEDIA_ROOT, dirs_exist_ok=True)
    return note


def read(folder: Path) -> Note:
    """The note of the backup in this folder. Raises NoBackup."""
    try:
        fields = json.loads((folder / NOTE).read_text())
        note = Note(**{**fields, "made_at": datetime.fromisoformat(fields["made_at"])})
    except (OSError, ValueError, TypeError, KeyError):
        raise NoBackup(folder=folder) from None
    if note.format != FORMAT or not (folder / DUMP).exists():
        raise NoBackup(folder=folder)
    return note


def _note() -> Note:
    [version] = statements.load("jobfarm", "version").run()
    with_files = not settings.FILES_ORIGIN
    return Note(format=FORMAT, made_at=clock.now(), postgresql=version.name, with_files=with_files)


def _check_empty() -> None:
    if connection.introspection.table_names():
        raise DatabaseInUse(name=connection.settings_dict["NAME"])


def _take_key(folder: Path) -> None:
    """Keep the backup's key where a farm keeps its own. One that was given to this process must be the same."""
    key = (folder / KEY).read_text().strip()
    if key == settings.SECRET_KEY:
        return
    if os.environ.get("SECRET_KEY"):
        raise OtherKey(folder=folder)
    _write_secret(settings.JOBFARM_DATA / KEY, key)


def _write_secret(path: Path, key: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(key)


def _gone(folder: str, names: list[str]) -> set[str]:
    """What retention deleted since the folder was read."""
    return {name for name in names if not os.path.lexists(os.path.join(folder, name))}
