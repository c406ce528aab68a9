"""A backup is a folder: the database, the key that opens what is sealed in it, the result files, and a note.

The three belong together: without its SECRET_KEY the secrets of webhooks cannot be opened and nobody stays logged in,
and a job's row says which files there are.
"""

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

from django.conf import settings
from django.db import connection

from core.refusal import Refusal
from jobfarm import backup_files, backup_proof
from postgres import clock, programs, statements
from postgres.errors import ProgramFailed

DUMP: Final = "database.dump"
KEY: Final = "secret_key"
FILES: Final = "files"
NOTE: Final = "backup.json"
FORMAT: Final = 1


class BackupError(Refusal):
    """The backup cannot be used."""


class AlreadyThere(BackupError, code="already_there"):
    """{folder} exists already: a backup is never written over another."""


class NoBackup(BackupError, code="no_backup"):
    """{folder} holds no whole backup of this form."""


class DamagedBackup(BackupError, code="damaged_backup"):
    """{folder}/database.dump is not what was written there (its SHA-256 differs). Use another copy of this backup."""


class FilesMissing(BackupError, code="files_missing"):
    """{folder} was made with result files, and has no folder files. Use another copy of this backup."""


class UnreadableDump(BackupError, code="unreadable_dump"):
    """{folder} was made by a newer PostgreSQL than the programs of this machine, or is damaged: {reason}
    Install the newest postgresql-client, or use another copy."""


class DatabaseInUse(BackupError, code="database_in_use"):
    """The database {name} is not empty. Restore into a new one: an earlier JOBFARM_DATA, or createdb."""


class RestoreDiffers(BackupError, code="restore_differs"):
    """What was restored from {folder} is not the farm that was backed up, do not start it: {why}"""


class OtherKey(BackupError, code="other_key"):
    """SECRET_KEY is another than the one that this backup was made under. Set it to what {folder}/secret_key holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """The note of a backup. `with_files` False: they were left out.

    `sha256` is that of the dump, `rows` how many rows each table has in it; empty in backups of before they were
    kept."""

    format: int
    made_at: datetime
    postgresql: str
    with_files: bool
    sha256: str = ""
    rows: Mapping[str, int] = field(default_factory=dict)


def make(folder: Path, *, with_files: bool = True) -> Note:
    """Write a backup while the farm runs: the database as of one moment, then the files. Whole or not there at all.

    Files come after the database, so all that its rows name are in it, unless retention deleted a job in between.
    Raises AlreadyThere, ProgramMissing, ProgramTooOld, ProgramFailed, OSError.
    """
    if folder.exists():
        raise AlreadyThere(folder=folder)
    unfinished = folder.with_name(f"{folder.name}.unfinished-{secrets.token_hex(4)}")
    unfinished.mkdir(mode=0o700, parents=True)
    made_at = clock.now()
    try:
        with programs.one_moment() as snapshot:
            rows = backup_proof.counts()
            programs.dump(unfinished / DUMP, snapshot=snapshot)
        note = _note(made_at, unfinished, rows=rows, with_files=with_files)
        _write_secret(unfinished / KEY, settings.SECRET_KEY)
        if note.with_files:
            backup_files.take(unfinished / FILES)
        (unfinished / NOTE).write_text(json.dumps(asdict(note), default=str, indent=2) + "\n")
        unfinished.rename(folder)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    return note


def restore(folder: Path) -> Note:
    """Fill an empty database, the place for files and, where none is given, the secret key from a backup.

    The database is filled by one transaction. Nothing is touched before the backup proved to be whole. Raises NoBackup,
    DamagedBackup, FilesMissing, UnreadableDump, DatabaseInUse, OtherKey, ProgramMissing, ProgramFailed.
    """
    note = read(folder)
    _check_whole(folder, note)
    _check_empty()
    _take_key(folder)
    programs.fill(folder / DUMP)
    if differences := backup_proof.differences(note.rows):
        raise RestoreDiffers(folder=folder, why=" ".join(differences))
    if (folder / FILES).exists():
        backup_files.put(folder / FILES)
    return note


def prove(folder: Path, note: Note) -> None:
    """Read of the restored and migrated farm what a page would. Raises RestoreDiffers."""
    if unreadable := backup_proof.unreadable(with_files=note.with_files):
        raise RestoreDiffers(folder=folder, why=" ".join(unreadable))


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


def _note(made_at: datetime, folder: Path, *, rows: Mapping[str, int], with_files: bool) -> Note:
    [version] = statements.load("jobfarm", "version").run()
    return Note(
        format=FORMAT, made_at=made_at, postgresql=version.name, with_files=with_files,
        sha256=_sha256(folder / DUMP), rows=rows,
    )  # fmt: skip


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check_whole(folder: Path, note: Note) -> None:
    if note.sha256 and note.sha256 != _sha256(folder / DUMP):
        raise DamagedBackup(folder=folder)
    if note.sha256 and note.with_files and not (folder / FILES).is_dir():
        raise FilesMissing(folder=folder)
    if not (folder / KEY).exists():
        raise NoBackup(folder=folder)
    try:
        programs.check(folder / DUMP)
    except ProgramFailed as failure:
        raise UnreadableDump(folder=folder, reason=failure.output) from None


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
