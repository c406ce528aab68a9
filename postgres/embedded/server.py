"""One PostgreSQL server: making its cluster, starting, asking, stopping. Whoever starts it holds the start lock."""

import os
import shlex
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from psycopg import pq
from psycopg.conninfo import make_conninfo

from postgres import deadline
from postgres.embedded import binaries, cluster, folders, postmaster
from postgres.embedded.accounts import Account, account_for
from postgres.embedded.places import PORT, ROOT_FOLDER, SUPERUSER, Location
from postgres.errors import ServerFailed, ServerSilent, UnusableFolder

START_S = 60  # recovery after a crash may take as long; the same for the checkpoint at the end
ORPHANS_S = 15  # how long the children of a killed server may take to notice that it is gone
PING_S = 5  # for one attempt to connect, or a second less: libpq counts whole ones
HURRIED_PING_S = 2  # of who has a deadline: the shortest that libpq knows
PAUSE_S = 0.05
_ORPHANS = "pre-existing shared memory block"  # PostgreSQL's words when they have not noticed yet


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
            return cls(location=location, account=_account_with_folders(location), bin=binaries.bin_folder())
        except OSError as error:
            reason = error.strerror or str(error)
            raise UnusableFolder(folder=error.filename or location.home, reason=reason) from error

    def up(self) -> int:
        """Make sure that it runs and has our role and database; the number of its process. Raises EmbeddedError."""
        if not self._answers():
            self._make_cluster()
            self._start()
        cluster.provide(self._conninfo())
        return postmaster.pid(self.location.cluster, uid=self.account.uid) or 0

    def stop(self) -> None:
        """Stop it, ending its sessions, and wait until it has stopped; one that is frozen stops when it goes on, and is
        not waited for. Nothing if it does not run."""
        if postmaster.pid(self.location.cluster, uid=self.account.uid) is not None:
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
            pid = postmaster.pid(self.location.cluster, uid=self.account.uid)
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
            cluster.refuse_other_major(self.location.cluster)
            return
        unfinished = cluster.new_beside(self.location.cluster)
        done = self._run("initdb", "-D", str(unfinished), *cluster.initdb_options())
        if done.returncode != 0:
            raise ServerFailed(verb="make its cluster", cluster=self.location.cluster, output=_tail(done.stdout))
        unfinished.rename(self.location.cluster)

    def _start(self) -> None:
        """Until it runs: one that was killed may have orphans, and a farm that was killed may have left a
        pg_ctl that starts it as well, and is faster."""
        cluster.drop_large_logs(self.location.cluster)
        deadline = time.monotonic() + ORPHANS_S
        while output := self._try_to_start():
            if self._answers():
                return
            if _ORPHANS not in output or time.monotonic() > deadline:
                raise ServerFailed(verb="start", cluster=self.location.cluster, output=_tail(output))
            time.sleep(PAUSE_S)

    def _try_to_start(self) -> str:
        """Empty when it runs, else its output."""
        postmaster.drop_stale_notes(self.location, uid=self.account.uid)
        log = self.location.home / "startup.log"
        log.unlink(missing_ok=True)
        logged = cluster.Logged.until_now(self.location.cluster)
        switches = ("-k", str(self.location.socket_folder), "-p", str(PORT), *cluster.FIXED)
        where, wait = ("-D", str(self.location.cluster)), ("-w", "-t", str(START_S))
        done = self._run("pg_ctl", "start", *where, *wait, "-l", str(log), "-o", shlex.join(switches))
        if done.returncode == 0:
            return ""
        startup_log = log.read_text(errors="replace") if log.exists() else ""
        return f"{done.stdout}\n{startup_log}\n{logged.since()}"

    def _run(self, program: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run one of PostgreSQL's programs as its user, in a session of its own: Ctrl-C is for us, not for it."""
        return subprocess.run(
            [str(self.bin / program), *arguments],
            cwd=self.location.home,
            env={"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            umask=0o077,
            start_new_session=True,
            check=False,
            **self.account.credentials,
        )

    def _conninfo(self) -> str:
        """As PostgreSQL's superuser, who still gets in when all other connections are taken."""
        return make_conninfo(
            host=str(self.location.socket_folder), port=PORT, user=SUPERUSER, dbname="postgres", connect_timeout=PING_S
        )


def _account_with_folders(location: Location) -> Account:
    if os.geteuid() == 0:
        folders.roots_own(ROOT_FOLDER)
    else:
        location.home.parent.mkdir(parents=True, exist_ok=True)
    account = account_for(location.home)
    for folder in {location.home, location.socket_folder}:
        folders.private(folder, uid=account.uid, gid=account.gid)
    return account


def _tail(output: str) -> str:
    return " / ".join(line.strip() for line in output.splitlines()[-8:] if line.strip())
