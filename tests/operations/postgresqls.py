"""PostgreSQL servers of the tests' own, of any version on this machine: on a socket in a folder of their own, as a user
without rights, ended with the block. The system's cluster is not touched."""

import contextlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import forkserver

ENDS_WITHIN_S = 300.0
DEBIAN_15 = Path("/usr/lib/postgresql/15/bin")
DISK = Path("/tmp")
_MEMORY = Path("/dev/shm")
_ROOM = 4_000_000_000  # for some servers at once, and what they log ahead
# A cluster is a thousand files, and a file system without a journal hands out no inode that was freed a minute ago: for
# each file it looked at all of the clusters before. In memory they take a fifth less of a processor.
PLACE = _MEMORY if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _ROOM else DISK
ACCOUNT: dict[str, Any] = {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A running server: its programs, and the folder with its data and its socket."""

    programs: Path
    folder: Path
    port: int | None = None  # on 127.0.0.1, beside the socket

    @property
    def host(self) -> str:
        """As libpq names it."""
        return "127.0.0.1" if self.port else str(self.folder)

    def signal(self, number: signal.Signals) -> None:
        """To the postmaster and all of its processes at once: SIGKILL as when the machine is gone, SIGSTOP as when it
        hangs."""
        postmaster = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])
        if number != signal.SIGCONT:
            os.kill(postmaster, signal.SIGSTOP)  # so that it starts no others
        children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
        for pid in [postmaster, *map(int, children)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def run(self, name: str, *options: str) -> None:
        """Run one of its programs on it."""
        where = ("-h", str(self.folder), "-p", str(self.port or 5432))
        _run(self.programs, name, *where, "-U", "farm", *options)

    def control(self, what: str) -> None:
        """Have pg_ctl do it, and wait for that: "promote"."""
        _run(self.programs, "pg_ctl", what, "-D", f"{self.folder}/data", "-w")


def url(*servers: Server, name: str = "farm") -> str:
    """DATABASE_URL of these servers, in this order."""
    hosts = ",".join(server.host for server in servers)
    ports = ",".join(str(server.port or 5432) for server in servers)
    return f"postgresql:///{name}?host={hosts}&port={ports}&user=farm"


def manage(url: str, data: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`manage.py` on this database, as an operator runs it."""
    variables = os.environ | {"DATABASE_URL": url, "JOBFARM_DATA": str(data), "SECRET_KEY": "of-a-test" * 8}
    variables.pop("DATABASE_DIRECT_URL", None)
    return forkserver.run(["manage.py", *words], env=variables, timeout=ENDS_WITHIN_S)


@contextmanager
def programs_16() -> Iterator[Path]:
    """The programs of PostgreSQL 16, where a user without rights can run them: those of the wheel lie in our .venv."""
    spec = importlib.util.find_spec("pgserver")
    assert spec is not None
    assert spec.origin is not None
    packages = Path(spec.origin).parents[1]
    with folder_of_its_own(on=DISK) as folder:  # programs may not run from memory
        for name in ("pgserver", "pgserver.libs"):
            shutil.copytree(packages / name, folder / name)
        yield folder / "pgserver" / "pginstall" / "bin"


@contextmanager
def primary(programs: Path, *, configuration: str = "", on: Path = PLACE, port: int | None = None) -> Iterator[Server]:
    """A new server with an empty database `farm`, and these lines in its postgresql.conf."""
    with folder_of_its_own(on=on) as folder:
        _run(programs, "initdb", "-D", f"{folder}/data", "-U", "farm", "-A", "trust", "--no-sync", "-E", "UTF8")
        append(folder / "data" / "postgresql.conf", configuration)
        with started(programs, folder, port=port) as server:
            server.run("createdb", "farm")
            yield server


@contextmanager
def standby(of: Server, *, port: int | None = None) -> Iterator[Server]:
    """A standby that follows the primary and takes no writes."""
    with folder_of_its_own() as folder:
        copy(of, folder)
        with started(of.programs, folder, port=port) as server:
            yield server


def copy(of: Server, folder: Path) -> None:
    """The data of a running server, into `folder`/data, to be started as its standby."""
    of.run("pg_basebackup", "-D", f"{folder}/data", "-R", "--no-sync", "--checkpoint=fast")


@contextmanager
def pooler(before: Server, *, port: int) -> Iterator[int]:
    """PgBouncer in transaction mode before a server, as it is without any setting for prepared statements; its port."""
    settings = (
        f"[databases]\n* = host={before.folder} user=farm\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n"
        "auth_type = any\npool_mode = transaction\nunix_socket_dir =\nignore_startup_parameters = options\n"
    )
    file = before.folder / "pgbouncer.ini"
    file.write_text(settings)
    with (before.folder / "pgbouncer.log").open("wb") as log:
        path = f"{os.environ['PATH']}:/usr/sbin"
        process = subprocess.Popen(
            [str(shutil.which("pgbouncer", path=path)), str(file)], stdout=log, stderr=log, cwd="/", **ACCOUNT
        )
    try:
        _wait_for(port)
        yield port
    finally:
        process.terminate()
        process.wait(timeout=20)


def _wait_for(port: int) -> None:
    end = time.monotonic() + 20
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            assert time.monotonic() < end
            time.sleep(0.02)


def append(file: Path, lines: str) -> None:
    """Append these lines to a file of a server's folder."""
    with file.open("a") as open_file:
        open_file.write(f"\n{lines}\n")


@contextmanager
def folder_of_its_own(*, on: Path = PLACE) -> Iterator[Path]:
    """A folder that a server may write to, gone behind the block."""
    folder = Path(tempfile.mkdtemp(prefix="jobfarm-pg-", dir=on))  # a socket's path has at most 107 bytes
    if ACCOUNT:
        shutil.chown(folder, ACCOUNT["user"], ACCOUNT["group"])
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextmanager
def started(programs: Path, folder: Path, *, port: int | None = None) -> Iterator[Server]:
    """The server whose data lie in `folder`/data; with a port, also on 127.0.0.1."""
    server = Server(programs=programs, folder=folder, port=port)
    start(server)
    try:
        yield server
    finally:
        # One that a test killed does not run any more: pg_ctl says so by its exit code.
        _run(programs, "pg_ctl", "stop", "-D", f"{folder}/data", "-w", "-m", "immediate", check=False)


def start(server: Server) -> None:
    """Start it, and wait until it takes connections; a standby those that read."""
    _forget_the_dead(server.folder)
    listen = f"-c listen_addresses=127.0.0.1 -c port={server.port}" if server.port else "-c listen_addresses="
    settings = f"{listen} -c unix_socket_directories={server.folder} -c fsync=off"
    where = ("-D", f"{server.folder}/data", "-l", f"{server.folder}/log")
    try:
        _run(server.programs, "pg_ctl", "start", *where, "-w", "-o", settings)
    except subprocess.CalledProcessError as error:
        error.add_note((server.folder / "log").read_text()[-2000:])
        raise


def _forget_the_dead(folder: Path) -> None:
    """Locks of a postmaster that was killed and is not reaped yet: PostgreSQL takes it for one that runs."""
    note = folder / "data" / "postmaster.pid"
    if note.exists():
        stat = Path(f"/proc/{note.read_text().split()[0]}/stat")
        if not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] in "ZX":
            for lock in [note, *folder.glob(".s.PGSQL.*")]:
                lock.unlink()


def _run(programs: Path, name: str, *options: str, check: bool = True) -> None:
    subprocess.run(
        [programs / name, *options],
        check=check,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        cwd="/",
        **ACCOUNT,
    )
