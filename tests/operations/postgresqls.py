"""PostgreSQL servers of the tests' own, of any version on this machine: on a socket in a folder below /tmp, as a user
without rights, ended with the block. The system's cluster is not touched."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DEBIAN_15 = Path("/usr/lib/postgresql/15/bin")
_ACCOUNT: dict[str, Any] = (
    {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A running server: its programs, and the folder with its data and its socket."""

    programs: Path
    folder: Path

    def run(self, name: str, *options: str) -> None:
        """Run one of its programs on it."""
        _run(self.programs, name, "-h", str(self.folder), "-U", "farm", *options)


def url(*servers: Server, name: str = "farm") -> str:
    """DATABASE_URL of these servers, in this order."""
    return f"postgresql:///{name}?host={','.join(str(server.folder) for server in servers)}&user=farm"


@contextmanager
def primary(programs: Path) -> Iterator[Server]:
    """A new server with an empty database `farm`."""
    with _folder() as folder:
        _run(
            programs, "initdb", "-D", f"{folder}/data", "-U", "farm", "-A", "trust", "--no-sync", "-E", "UTF8"
        )
        with _started(programs, folder) as server:
            server.run("createdb", "farm")
            yield server


@contextmanager
def standby(of: Server) -> Iterator[Server]:
    """A standby that follows the primary and takes no writes."""
    with _folder() as folder:
        of.run("pg_basebackup", "-D", f"{folder}/data", "-R", "--no-sync", "--checkpoint=fast")
        with _started(of.programs, folder) as server:
            yield server


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="jobfarm-pg-", dir="/tmp"))  # a socket's path has at most 107 bytes
    if _ACCOUNT:
        shutil.chown(folder, _ACCOUNT["user"], _ACCOUNT["group"])
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextmanager
def _started(programs: Path, folder: Path) -> Iterator[Server]:
    settings = f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off"
    control = ("-D", f"{folder}/data", "-w", "-l", f"{folder}/log")
    _run(programs, "pg_ctl", "start", *control, "-o", settings)
    try:
        yield Server(programs=programs, folder=folder)
    finally:
        _run(programs, "pg_ctl", "stop", *control, "-m", "immediate")


def _run(programs: Path, name: str, *options: str) -> None:
    subprocess.run(
        [programs / name, *options],
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        cwd="/",
        **_ACCOUNT,
    )
