"""A primary and its standby on 127.0.0.1: killed or frozen, failed over, and put together again the other way round."""

import contextlib
import random
import shutil
import signal
import socket
from typing import Any

import psycopg

from postgres import embedded, probe
from postgres.probe import Verdict
from tests.chaos.crew import until
from tests.operations import postgresqls
from tests.operations.postgresqls import Server

FOLLOWS_WITHIN_S = 60.0
PROBED_WITHIN_S = 3.0
CLIENTS = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
FOLLOWS = "SELECT count(*) = 1 FROM pg_stat_replication WHERE state = 'streaming'"
IN_STEP = "SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'"
# Commits do not wait for the disk, here as in all tests; they do wait for the standby. The log that a standby may still
# need is kept, and a session that a lost server left behind holds no locks for long.
SETTINGS = "max_connections = 200\nwal_keep_size = '256MB'\nsynchronous_commit = on\nmax_wal_size = '256MB'"


class Pair:
    """Two servers, of which one takes writes. `is_synchronous`: its commits wait for the other."""

    def __init__(self, *, is_synchronous: bool) -> None:
        self.is_synchronous = is_synchronous
        self._struck_with = signal.SIGCONT
        self._stack = contextlib.ExitStack()
        first, second = _ports()
        programs = embedded.bin_folder()
        primary = postgresqls.primary(programs, configuration=SETTINGS, port=first)
        self.primary = self._stack.enter_context(primary)
        self.standby = self._stack.enter_context(postgresqls.standby(self.primary, port=second))
        self.url = postgresqls.url(self.primary, self.standby)  # the order stays, whoever is the primary
        self._pair_up()

    def strike(self, number: signal.Signals) -> None:
        """SIGKILL or SIGSTOP for all processes of the primary."""
        self._struck_with = number
        self.primary.signal(number)

    def promote(self) -> None:
        """The standby takes writes, and goes on alone."""
        self.standby.control("promote")
        self.primary, self.standby = self.standby, self.primary

    def wake(self) -> Verdict:
        """The old primary comes back as a primary, beside the new one, with nobody to stop it: what comes of a write
        to it."""
        if self._struck_with == signal.SIGSTOP:
            self.standby.signal(signal.SIGCONT)
        else:  # somebody starts it as it was
            postgresqls.start(self.standby)
        return probe.probe(postgresqls.url(self.standby), within_s=PROBED_WITHIN_S)

    def rejoin(self) -> None:
        """The old primary ends for good, and is made anew as the standby of the new one."""
        self.standby.signal(signal.SIGKILL)
        if not until(lambda: not self._listens(self.standby), within_s=FOLLOWS_WITHIN_S):
            raise TimeoutError("the old primary does not end")
        shutil.rmtree(self.standby.folder / "data")
        for left in self.standby.folder.glob(".s.PGSQL.*"):  # it names a process that may not be reaped yet
            left.unlink()
        postgresqls.copy(self.primary, self.standby.folder)
        postgresqls.start(self.standby)
        self._pair_up()

    def remove(self) -> None:
        """End both, and leave nothing behind."""
        for server in (self.primary, self.standby):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                server.signal(signal.SIGCONT)
        self._stack.close()

    def sessions(self, server: Server) -> int:
        """How many clients it has, without the one who asks."""
        return int(self._ask(server, CLIENTS)) - 1

    def _pair_up(self) -> None:
        """Wait until the standby follows, and have commits wait for it; its own settings say nothing of that."""
        if not until(lambda: self._ask(self.primary, FOLLOWS), within_s=FOLLOWS_WITHIN_S):
            raise TimeoutError(f"the standby does not follow; its log is {self.standby.folder}/log")
        if self.is_synchronous:
            self._ask(self.primary, "ALTER SYSTEM SET synchronous_standby_names = '*'")
            self._ask(self.primary, "SELECT pg_reload_conf()")
            if not until(lambda: self._ask(self.primary, IN_STEP), within_s=FOLLOWS_WITHIN_S):
                raise TimeoutError("the standby is not synchronous")

    def _listens(self, server: Server) -> bool:
        with socket.socket() as look:
            return look.connect_ex(("127.0.0.1", server.port or 0)) == 0

    def _ask(self, server: Server, query: str) -> Any:
        with psycopg.connect(postgresqls.url(server), autocommit=True, connect_timeout=5) as connection:
            cursor = connection.execute(query)
            row = cursor.fetchone() if cursor.description else None
            return row[0] if row else None


def _ports() -> list[int]:
    """Two that nobody listens on, below those that the kernel gives to whoever connects: one who tries again and again
    while a server is away would meet itself there, and the server find its port taken."""
    found: list[int] = []
    for port in random.sample(range(15_000, 32_000), 1000):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found.append(port)
        if len(found) == 2:
            break
    return found
