"""A backup is a folder: the database, the key that opens what is sealed in it, the result files, and a note.

The three belong together: without its SECRET_KEY the secrets of webhooks cannot be opened and nobody stays logged in,
and a job's row says which files there are.
"""

import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any, Final

from django.apps import apps
from django.conf import settings
from django.core.files.storage import default_storage, storages
from django.db import connection
from django.db.models import Model, QuerySet

from core.refusal import Refusal
from jobs.models import Job, ResultFile, Upload
from jobs.queries import inputs, reads
from postgres import clock, programs, statements
from postgres.errors import ProgramFailed

DUMP: Final = "database.dump"
KEY: Final = "secret_key"
FILES: Final = "files"
NOTE: Final = "backup.json"
FORMAT: Final = 1
_ANOTHER: Final = "Use another copy of this backup."


class BackupError(Refusal):
    """The backup cannot be used."""


class NoBackup(BackupError, code="no_backup"):
    """{folder} holds no whole backup of this form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """The note of a backup. `with_files` False: they were left out. `sha256` is that of the dump, `rows` how many rows
    each table has in it; empty in backups of before they were kept."""

    format: int
    made_at: datetime
    postgresql: str
    with_files: bool
    sha256: str = ""
    rows: Mapping[str, int] = field(default_factory=dict)


def make(folder: Path, *, with_files: bool = True) -> Note:
    """Write a backup while the farm runs: the database as of one moment, then the files. Whole or not there at all.

    Files come after the database, so all that its rows name are in it, unless retention deleted a job in between.
    Raises BackupError, ProgramMissing, ProgramTooOld, ProgramFailed, OSError.
    """
    if folder.exists():
        raise BackupError(f"{folder} exists already: a backup is never written over another.")
    unfinished = folder.with_name(f"{folder.name}.unfinished-{secrets.token_hex(4)}")
    unfinished.mkdir(mode=0o700, parents=True)
    made_at = clock.now()
    try:
        with programs.one_moment() as snapshot:
            rows = {table: rows.count() for table, rows in _tables().items()}
            programs.dump(unfinished / DUMP, snapshot=snapshot)
        note = _note(made_at, unfinished, rows=rows, with_files=with_files)
        _write_secret(unfinished / KEY, settings.SECRET_KEY)
        if note.with_files:
            take_files(unfinished / FILES)
        (unfinished / NOTE).write_text(json.dumps(asdict(note), default=str, indent=2) + "\n")
        unfinished.rename(folder)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    return note


def restore(folder: Path) -> Note:
    """Fill an empty database, the place for files and, where none is given, the secret key from a backup.

    The database is filled by one transaction. Nothing is touched before the backup proved to be whole. Raises
    BackupError, ProgramMissing, ProgramFailed.
    """
    note = read(folder)
    _check_whole(folder, note)
    if connection.introspection.table_names():
        name = connection.settings_dict["NAME"]
        into = "Restore into a new one: an empty JOBFARM_DATA, or createdb."
        raise BackupError(f"The database {name} is not empty. {into}")
    _take_key(folder)
    programs.fill(folder / DUMP)
    if differences := differing(note.rows):
        raise _differs(folder, differences)
    if (folder / FILES).exists():
        put_files(folder / FILES)
    return note


def prove(folder: Path, note: Note) -> None:
    """Read of the restored and migrated farm what a page would. Raises BackupError."""
    job = Job.objects.ended().whole().order_by("-pk").first()  # the newest that ended
    if job and (unreadable := list(_unreadable(job, with_files=note.with_files))):
        raise _differs(folder, unreadable)


def _differs(folder: Path, why: list[str]) -> BackupError:
    is_another = f"What was restored from {folder} is not the farm that was backed up, do not start it:"
    return BackupError(" ".join([is_another, *why]))


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
        raise BackupError(f"{folder / DUMP} is not what was written there (its SHA-256 differs). {_ANOTHER}")
    if note.sha256 and note.with_files and not (folder / FILES).is_dir():
        raise BackupError(f"{folder} was made with result files, and has no folder files. {_ANOTHER}")
    if not (folder / KEY).exists():
        raise NoBackup(folder=folder)
    try:
        programs.check(folder / DUMP)
    except ProgramFailed as failure:
        why = "was made by a newer PostgreSQL than the programs of this machine, or is damaged"
        remedy = "Install the newest postgresql-client, or use another copy."
        raise BackupError(f"{folder} {why}: {failure.output} {remedy}") from None


def _take_key(folder: Path) -> None:
    """Keep the backup's key where a farm keeps its own. One that was given to this process must be the same."""
    key = (folder / KEY).read_text().strip()
    if key == settings.SECRET_KEY:
        return
    if os.environ.get("SECRET_KEY"):
        other = "SECRET_KEY is another than the one that this backup was made under."
        raise BackupError(f"{other} Set it to what {folder / KEY} holds.")
    _write_secret(settings.JOBFARM_DATA / KEY, key)


def _write_secret(path: Path, key: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(key)


def take_files(folder: Path) -> None:
    """Copy all files of jobs into a new folder. What retention deletes meanwhile is left out. Raises OSError."""
    if settings.FILES_ORIGIN:
        _download(folder)
    elif settings.MEDIA_ROOT.exists():
        shutil.copytree(settings.MEDIA_ROOT, folder, ignore=_gone)
    else:
        folder.mkdir()  # a farm that never had a file: one that is lost from the backup is noticed


def put_files(folder: Path) -> None:
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
    return {name for name in names if not os.path.lexists(os.path.join(folder, name))}


def differing(noted: Mapping[str, int]) -> list[str]:
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
    """The rows of each table of the installed apps, by its name."""
    models = [model for model in apps.get_models(include_auto_created=True) if model._meta.managed]
    return {model._meta.db_table: model._base_manager.all() for model in models}


def _unreadable(job: Job, *, with_files: bool) -> Iterator[str]:
    """A sentence for each part of this job that cannot be read."""
    input_files: list[ResultFile | Upload] = [use.upload for use in inputs.of_job(job.pk)]
    for file in [*reads.files([job.pk])[job.pk], *input_files] if with_files else []:
        size = default_storage.size(file.stored_as) if default_storage.exists(file.stored_as) else 0
        if size != file.size:
            yield f"The file {file.name} of job {job.pk} has {size} bytes, and had {file.size}."


_NAME: Final = re.compile(r"\d{8}T\d{6}Z")
_REMAINS: Final = re.compile(rf"{_NAME.pattern}\.unfinished-[0-9a-f]{{8}}")
REMAINS_AFTER: Final = timedelta(days=1)  # without a write: no lock, since folders of NFS cannot be locked


def add(folder: Path, *, keep: int, with_files: bool = True) -> tuple[Path, Note]:
    """Write a backup into a new folder below `folder`, and remove what is older than the newest `keep` of them.

    They go only when the new one is whole. What has another name, or is no whole backup, is not touched; what a killed
    process left unfinished goes when nobody has written to it for a day. Raises what `make` raises.
    """
    path = folder / f"{clock.now().astimezone(UTC):%Y%m%dT%H%M%SZ}"
    note = make(path, with_files=with_files)
    for remains in _remains(folder):
        shutil.rmtree(remains)
    backups = sorted(one for one in folder.iterdir() if _NAME.fullmatch(one.name) and _is_backup(one))
    others = [one for one in backups if one != path]  # a clock that was ahead has named some after it
    for old in others[: 1 - keep or None]:
        _remove(old)
    return path, note


def _is_backup(path: Path) -> bool:
    try:
        read(path)
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
    paths = [path for path in folder.iterdir() if _REMAINS.fullmatch(path.name)]
    places = {path: [path, *(each for each in path.rglob("*") if each.is_dir()), *path.glob("*")] for path in paths}
    return [path for path in paths if max(one.stat().st_mtime for one in places[path]) < since.timestamp()]
