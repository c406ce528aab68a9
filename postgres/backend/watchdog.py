"""Ends the waiting for a server that has frozen: soon where DATABASE_URL names another that may take its place.

The kernel of a machine whose PostgreSQL is stopped (SIGSTOP, a hung disk) goes on acknowledging what is sent to it:
neither keepalives nor tcp_user_timeout see anything, and `statement_timeout` is the server's own. So whoever waits long
has the server asked, by another connection, for the one byte that each PostgreSQL gives to everybody before any
authentication. A long statement of a living server is waited for as long as it takes (docs/adr/0072).
"""

import contextlib
import logging
import os
import socket
import threading
import time
from typing import Any, Final
from weakref import WeakKeyDictionary

import psycopg

from postgres import configuration
from postgres.backend.trips import WatchedConnection

logger = logging.getLogger("postgres")

SLOW_S: Final = 3.0  # after this long the server of a wait is looked at
LOOK_S: Final = 2.0  # in which it has to answer
LOOKS: Final = 2  # without an answer, one after the other, and it is called frozen: 8 s after it froze at the latest,
# because a cluster that is silent for 10 s is replaced (scheduling), and one that starts takes as long again
EVERY_S: Final = 1.0
# Silent for so long a sole server is called frozen: in all as late as one that vanished (configuration.KEEPALIVE).
# Nobody takes its place, so a pause costs nobody what they wait for.
ALONE_S: Final = 20.0
_SSL_REQUEST: Final = bytes.fromhex("0000000804d2162f")  # PostgreSQL's protocol, 54.7; answered with S, N or E

# A connection of an event loop waits in ways of its own, mostly for nothing: it only ends with the others.
Watchable = WatchedConnection | psycopg.AsyncConnection[Any]
Address = Any  # of a socket: (host, port, ..) or a path


class Watchdog:
    """Looks after the connections that it was given, of one process. Its thread lives as long as one of them does."""

    def __init__(
        self, *, slow_s: float = SLOW_S, look_s: float = LOOK_S, every_s: float = EVERY_S, alone_s: float = ALONE_S
    ) -> None:
        self._slow_s, self._look_s, self._every_s, self._alone_s = slow_s, look_s, every_s, alone_s
        self.begin_anew()

    def begin_anew(self) -> None:
        """In a forked child: the thread is not there, and the connections are the parent's."""
        self._lock = threading.Lock()
        self._watched: WeakKeyDictionary[Watchable, Address] = WeakKeyDictionary()
        self._alone: set[Address] = set()
        self._silences: dict[Address, list[float]] = {}  # when it gave no answer, one look after the other
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self, connection: Watchable, *, is_alone: bool = False) -> None:
        """From now on no wait of this connection outlasts its server by more than some 8 s, or 26 s where no other may
        take its place (`is_alone`): it ends with OperationalError, as if the server had closed the connection. A sole
        one behind a socket of this machine is not watched."""
        with self._lock, contextlib.suppress(OSError, psycopg.Error), _socket_of(connection) as of_it:
            server = of_it.getpeername()
            if is_alone and not isinstance(server, tuple):
                return
            self._watched[connection] = server
            (self._alone.add if is_alone else self._alone.discard)(server)
            if self._thread is None:
                self._is_over.clear()
                self._thread = threading.Thread(target=self._run, name="jobfarm-watchdog", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """Forget all connections, and end the thread: before a fork."""
        with self._lock:
            self._watched.clear()
            thread, self._thread = self._thread, None
        self._is_over.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        while not self._is_over.wait(0 if self._silences.keys() - self._alone else self._every_s):
            watched = self._open()
            if not watched:
                return
            try:
                self._look(watched)
            except Exception:  # a watchdog that dies of an unlisted error leaves all to wait for ever
                logger.exception("The watchdog of the connections failed")

    def _open(self) -> dict[Watchable, Address]:
        """Those that are not closed; without any, the next that comes starts another thread."""
        with self._lock:
            for connection in [each for each in self._watched if each.closed]:
                del self._watched[connection]
            if not self._watched and self._thread is threading.current_thread():
                self._thread = None
            return dict(self._watched)

    def _look(self, watched: dict[Watchable, Address]) -> None:
        since = time.monotonic() - self._slow_s
        late = {server for connection, server in watched.items() if getattr(connection, "waiting_since", since) < since}
        silent = [server for server in late if not is_alive(server, within_s=self._look_s)]
        silences = {server: [*self._silences.get(server, ()), time.monotonic()] for server in silent}
        frozen = {server for server, looks in silences.items() if self._is_frozen(server, looks)}
        self._silences = {server: looks for server, looks in silences.items() if server not in frozen}
        for connection, server in watched.items():
            if server in frozen:
                configuration.avoid_host(host=connection.info.host, port=connection.info.port)
                _end(connection, server)

    def _is_frozen(self, server: Address, looks: list[float]) -> bool:
        return looks[-1] - looks[0] >= self._alone_s if server in self._alone else len(looks) >= LOOKS


def is_alive(server: Address, *, within_s: float = LOOK_S) -> bool:
    """Whether a PostgreSQL, or a pooler, at this address of a socket says anything at all in that time."""
    is_host = isinstance(server, tuple)
    family = (socket.AF_INET6 if len(server) > 2 else socket.AF_INET) if is_host else socket.AF_UNIX
    to = server[:2] if family == socket.AF_INET else server
    with socket.socket(family, socket.SOCK_STREAM) as look:
        look.settimeout(within_s)
        try:
            look.connect(to)
            look.sendall(_SSL_REQUEST)
            return bool(look.recv(1))
        except OSError:
            return False


def _end(connection: Watchable, server: Address) -> None:
    """Whoever waits for it gets an error at once; whoever takes it out of the pool finds it closed."""
    with contextlib.suppress(OSError, psycopg.Error), _socket_of(connection) as of_it:
        if of_it.getpeername() == server:  # and not another that got its number meanwhile
            of_it.shutdown(socket.SHUT_RDWR)
            logger.warning("The server at %s does not answer: a connection to it is given up", server)


def _socket_of(connection: Watchable) -> socket.socket:
    return socket.socket(fileno=os.dup(connection.pgconn.socket))


_of_process = Watchdog()
watch, stop = _of_process.watch, _of_process.stop
os.register_at_fork(after_in_child=_of_process.begin_anew)
