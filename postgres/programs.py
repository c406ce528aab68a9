"""PostgreSQL's own programs (pg_dump, pg_restore, psql) on the database that Django uses: which of those on this
machine fit its server, and how a dump gets into a server that is older than they are."""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO, Final

from django.db import connections as databases, transaction
from psycopg.conninfo import conninfo_to_dict

from postgres import connections, embedded, statements
from postgres.errors import BinariesMissing, ProgramFailed, ProgramMissing, ProgramTooOld

# How libpq names in its environment what else would stand in a command line, where every user of the machine sees it.
_VARIABLES: Final = {
    "host": "PGHOST", "port": "PGPORT", "dbname": "PGDATABASE", "user": "PGUSER", "password": "PGPASSWORD",
    "passfile": "PGPASSFILE", "service": "PGSERVICE", "sslmode": "PGSSLMODE", "sslrootcert": "PGSSLROOTCERT",
    "sslcert": "PGSSLCERT", "sslkey": "PGSSLKEY", "connect_timeout": "PGCONNECT_TIMEOUT", "hostaddr": "PGHOSTADDR",
    "target_session_attrs": "PGTARGETSESSIONATTRS",
}  # fmt: skip
_OUTPUT_CHARACTERS: Final = 2000  # characters of what a program complained of, from the end


_DEBIAN: Final = Path("/usr/lib/postgresql")  # one folder for each major version
_VERSION: Final = re.compile(r"\(PostgreSQL\) (\d+)")
# How pg_restore's script begins, up to its first change of the database: settings, remarks, and psql's own \restrict.
_PREAMBLE: Final = re.compile(rb"\s*$|--|SET |SELECT pg_catalog\.set_config|\\restrict ")
_SETTING: Final = re.compile(rb"SET (\w+) ")


@contextmanager
def one_moment(using: str = "default") -> Iterator[str]:
    """A transaction that reads everything as of its first statement. Yields the name by which other sessions read as of
    the same moment while it lasts (PostgreSQL's manual, 9.28.5: pg_export_snapshot)."""
    with transaction.atomic(using=using):
        with databases[using].cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        [snapshot] = statements.load("postgres", "export_snapshot").run(using=using)
        yield snapshot.name


def dump(archive: Path, *, snapshot: str, using: str = "default") -> None:
    """Write the database as of a snapshot (`one_moment`) into a file of pg_dump's own form, past a pooler
    (DATABASE_DIRECT_URL).

    By the pg_dump of the server's own major version where this machine has it, else by the oldest newer one.
    Raises ProgramMissing, ProgramTooOld, and ProgramFailed with its output.
    """
    options = ["--format=custom", "--no-owner", "--no-privileges", f"--snapshot={snapshot}", f"--file={archive}"]
    with databases[using].cursor():
        server = int(databases[using].connection.info.server_version) // 10_000
    _run([str(_dumper(server)), *options], using=using)


def check(archive: Path) -> None:
    """Whether the programs of this machine can read the archive. Raises ProgramMissing, ProgramFailed."""
    _run([str(_newest() / "pg_restore"), "--list", str(archive)])


def fill(archive: Path, *, using: str = "default") -> None:
    """Fill the empty database from an archive, in one transaction, whichever of 15 and later its server is. Settings
    that this server does not know are left out. Raises ProgramMissing, and ProgramFailed with its output."""
    names = {row.name.encode() for row in statements.load("postgres", "setting_names").run(using=using)}
    folder, environment = _newest(), _environment(using)
    read = [str(folder / "pg_restore"), "--no-owner", "--no-privileges", "--file=-", str(archive)]
    write = [str(folder / "psql"), "--no-psqlrc", "--quiet", "--single-transaction", "--set=ON_ERROR_STOP=1"]
    with tempfile.TemporaryFile() as complaints, tempfile.TemporaryFile() as refusals:
        reader = subprocess.Popen(read, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=complaints)
        writer = subprocess.Popen(
            write, env=environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=refusals
        )
        _pass_on(reader, writer, names)
        # Either ends by a signal when the other failed: first whoever gave up by itself.
        if writer.returncode > 0 or (writer.returncode and not reader.returncode):
            raise _failure("psql", writer.returncode, _text(refusals))
        if reader.returncode != 0:
            raise _failure("pg_restore", reader.returncode, _text(complaints))


def _pass_on(reader: subprocess.Popen[bytes], writer: subprocess.Popen[bytes], names: set[bytes]) -> None:
    """All of it, or psql is killed before it sees an end: it would commit what it has."""
    assert reader.stdout is not None
    assert writer.stdin is not None
    try:
        with suppress(BrokenPipeError):  # psql ended, and says why itself
            writer.stdin.writelines(_preamble(reader.stdout, names))
            shutil.copyfileobj(reader.stdout, writer.stdin)
            if reader.wait() == 0:
                writer.stdin.close()
    finally:
        _end(reader, writer)


def _end(reader: subprocess.Popen[bytes], writer: subprocess.Popen[bytes]) -> None:
    assert reader.stdout is not None
    assert writer.stdin is not None
    reader.stdout.close()
    reader.wait()
    if not writer.stdin.closed:  # not all came; of one that ended by itself the exit code stays
        writer.kill()
    writer.wait()
    with suppress(BrokenPipeError):
        writer.stdin.close()


def _preamble(script: IO[bytes], names: set[bytes]) -> Iterator[bytes]:
    """The lines before the first that changes anything, and that one. What a later COPY brings is never looked at."""
    for line in iter(script.readline, b""):
        setting = _SETTING.match(line)
        if setting is None or setting[1] in names:
            yield line
        if not _PREAMBLE.match(line):
            return


def _run(command: Sequence[str], *, using: str | None = None) -> None:
    done = subprocess.run(
        command, env=_environment(using) if using else None, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, errors="replace", check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise _failure(Path(command[0]).name, done.returncode, done.stderr)


def _text(output: IO[bytes]) -> str:
    output.seek(0)
    return output.read().decode(errors="replace")


def _failure(name: str, code: int, output: str) -> ProgramFailed:
    return ProgramFailed(name=name, code_of_exit=code, output=output.strip()[-_OUTPUT_CHARACTERS:])


def _dumper(server: int) -> Path:
    versions = _versions("pg_dump")
    fitting = [version for version in versions if version >= server]
    if not fitting:
        raise ProgramTooOld(name="pg_dump", server=server, newest=max(versions))
    return versions[min(fitting)] / "pg_dump"


def _newest() -> Path:
    """The folder of the newest pg_restore, with the psql that belongs to it: it reads what all earlier ones wrote."""
    versions = _versions("pg_restore")
    return versions[max(versions)]


def _versions(name: str) -> dict[int, Path]:
    """The folders that have this program, by its major version. Raises ProgramMissing if there is none."""
    folders = [folder for folder in _folders() if (folder / name).exists() and (folder / "psql").exists()]
    by_version = {_major(folder / name): folder for folder in reversed(folders)}
    by_version.pop(0, None)
    if not by_version:
        raise ProgramMissing(name=name)
    return by_version


def _folders() -> list[Path]:
    """Where programs may be, the first to be preferred: the embedded server's, Debian's, what PATH finds."""
    folders = sorted(_DEBIAN.glob("*/bin"))
    with suppress(BinariesMissing):
        folders.insert(0, embedded.bin_folder())
    on_path = shutil.which("pg_dump")
    return [*folders, Path(on_path).parent] if on_path else folders


@cache
def _major(program: Path) -> int:
    """The major version that a program says it is of; 0: it does not run."""
    done = subprocess.run([program, "--version"], capture_output=True, text=True, errors="replace", check=False)
    version = _VERSION.search(done.stdout)
    return int(version[1]) if version and done.returncode == 0 else 0


def _environment(using: str) -> dict[str, str]:
    parameters: Sequence[tuple[str, object]] = list(conninfo_to_dict(connections.direct_conninfo(using)).items())
    return os.environ | {_VARIABLES[key]: str(value) for key, value in parameters if key in _VARIABLES and value}
