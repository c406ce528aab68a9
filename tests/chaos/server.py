"""A PostgreSQL of the chaos's own, which may be stopped at once, killed, and run out of disk."""

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
from psycopg import sql

from postgres.embedded import DATABASE, PORT, ROLE, location
from postgres.embedded.server import Server

# Enough for the cluster and its log of a few minutes; what is left is filled to see what a full disk does.
DISK_MB = 700
LOG_MB = 128


class Postgres:
    """One server, on a disk of its own where this user may mount one."""

    def __init__(self, data: Path) -> None:
        self.place = location(data)
        self.has_own_disk = _mount(self.place.home, megabytes=DISK_MB)
        self._server = Server.at(self.place)
        self.start()
        with self.superuser() as connection:
            connection.execute(sql.SQL("ALTER SYSTEM SET max_wal_size = {}").format(f"{LOG_MB}MB"))
            connection.execute(sql.SQL("ALTER ROLE {} SET statement_timeout = '60s'").format(sql.Identifier(ROLE)))

    @property
    def socket(self) -> Path:
        """Where it listens."""
        return self.place.socket_folder / f".s.PGSQL.{PORT}"

    @property
    def direct_url(self) -> str:
        """Its address for whoever is spared the network."""
        return f"postgresql://{ROLE}@/{DATABASE}?host={self.place.socket_folder}&port={PORT}"

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        self._server.up()

    def stop(self) -> None:
        """As for an update of it (`-m fast`): sessions are cut off, and what is in memory is written."""
        self._server.stop()

    def stop_at_once(self) -> None:
        """As when the power fails, but for what the kernel has: no checkpoint, sessions are cut off."""
        self._server._run("pg_ctl", "stop", "-D", str(self.place.cluster), "-m", "immediate", "-w")

    def kill_backend(self, number: int) -> None:
        """SIGKILL for one session's process: the server ends all sessions and recovers."""
        with self.superuser() as connection:
            query = "SELECT pid FROM pg_stat_activity WHERE usename = %s ORDER BY pid"
            pids = [pid for (pid,) in connection.execute(query, [ROLE]).fetchall()]
        if pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pids[number % len(pids)], signal.SIGKILL)

    def terminate_sessions(self) -> int:
        """End all sessions of the farm; how many there were."""
        with self.superuser() as connection:
            query = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = %s"
            [ended] = connection.execute(query, [ROLE]).fetchone() or [0]
        return int(ended)

    @contextlib.contextmanager
    def superuser(self) -> Iterator["psycopg.Connection[tuple[int, ...]]"]:
        """A connection that may do anything."""
        with psycopg.connect(self._server._conninfo(), autocommit=True) as connection:
            yield connection

    def remove(self) -> None:
        """Stop it, and leave nothing behind."""
        self._server.stop()
        if self.has_own_disk:
            subprocess.run(["umount", "--lazy", str(self.place.home)], check=True)
        shutil.rmtree(self.place.home, ignore_errors=True)
        for lock in (self.place.start_lock, self.place.users_lock):
            lock.unlink(missing_ok=True)


class Disk:
    """A folder that can be filled to the last byte, where this user may mount one."""

    def __init__(self, folder: Path, *, megabytes: int | None = None) -> None:
        """`megabytes`: mount a disk of that size there; None: it is one already."""
        self._ballast = folder / "ballast"
        self._folder = folder
        self._is_ours = megabytes is not None
        self.is_there = megabytes is None or _mount(folder, megabytes=megabytes)

    def fill(self) -> None:
        """Leave no byte free."""
        with self._ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(b"\0" * 4096)

    def empty(self) -> None:
        """Give the room back."""
        self._ballast.unlink(missing_ok=True)

    def remove(self) -> None:
        """Take the disk away."""
        self.empty()
        if self._is_ours and self.is_there:
            subprocess.run(["umount", "--lazy", str(self._folder)], check=True)


def _mount(folder: Path, *, megabytes: int) -> bool:
    """A disk in memory; False where only root may."""
    folder.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0700", "chaos", str(folder)]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False
