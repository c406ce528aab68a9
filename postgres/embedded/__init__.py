"""The embedded PostgreSQL: started at the first connection, stopped by the last process that used it.

Who uses it is known to the kernel: each process holds a shared lock on one file, and a killed process holds
nothing. Who leaves and can make its lock exclusive is the last, and stops the server.
docs/adr/0002-embedded-postgresql.md has the reasons. A farm whose database is another one has a note of that in its
data folder: a command that is started there without DATABASE_URL works on no embedded database that nobody uses."""

import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.utils.asyncio import async_unsafe

from postgres.deadline import at_exit
from postgres.embedded.places import DATABASE, PORT, ROLE, Location, Lock, location
from postgres.embedded.server import Server, bin_folder
from postgres.errors import DatabaseElsewhere, NoFarm, ServerReleased

__all__ = [
    "DATABASE", "PORT", "ROLE", "Location", "bin_folder", "ensure", "forbid_new", "location", "release", "require",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Hold:
    """What a process that uses the server keeps: its place among the users."""

    server: Server
    users: Lock


class _Process:
    def __init__(self) -> None:
        self.begin_anew()

    def begin_anew(self) -> None:
        """A forked child begins with no share."""
        self.guard = threading.RLock()  # re-entrant: a signal's handler may call release() while we hold it
        self.holds: dict[Path, _Hold] = {}
        self.is_leaving = False
        self.will_leave = False


_process = _Process()
_may_be_new = threading.Event()  # also in forked children
_may_be_new.set()


def forbid_new() -> None:
    """From now on this process, and those forked from it, make no new database: a command that is to work on a farm
    has been started beside it. `ensure` then raises NoFarm."""
    _may_be_new.clear()


def require() -> None:
    """Raise NoFarm or DatabaseElsewhere if `ensure` would, and start nothing."""
    if configured := settings.DATABASES["default"].get("EMBEDDED"):
        _check(Path(configured))


def _check(data: Path) -> None:
    check_mark(data)
    if not _may_be_new.is_set() and not location(data).cluster.exists():
        raise NoFarm(data=data)


def ensure(data: Path | None = None) -> None:
    """Make sure that the server whose files lie under `data` runs, and that it goes on as long as this process does.

    Without `data`: the server of the default database, and nothing at all if that is not an embedded one. Once it runs,
    a call costs some 100 microseconds; it is started anew if it was killed. Raises EmbeddedError, and django's
    SynchronousOnlyOperation if it would have to start or attach on an event loop's thread."""
    if data is None:
        configured = settings.DATABASES["default"].get("EMBEDDED")
        if not configured:
            return
        data = Path(configured)
    hold = _process.holds.get(data)
    if hold is None or hold.server.pid is None:
        _attach(data)


def release() -> None:
    """Give back every server this process uses; the last user of a server stops it, and waits until it has stopped.

    Runs by itself when the interpreter ends. A process that ends on a signal without that (SIGTERM's default action)
    must call it in its handler, or its server stays until the next command ends. May be called twice; ensure() takes it
    again."""
    with _process.guard:
        while _process.holds:
            _, hold = _process.holds.popitem()
            try:
                if hold.users.make_exclusive():
                    hold.server.stop()
            finally:
                hold.users.release()


@async_unsafe(
    "The embedded PostgreSQL is not started on an event loop's thread, which would stand still for a second: "
    "open the first connection in another thread, for example with postgres.connections.run()."
)
def _attach(data: Path) -> None:
    with _process.guard:
        if _process.is_leaving:
            raise ServerReleased
        hold = _process.holds.get(data)
        if hold is not None and hold.server.pid is not None:
            return
        _check(data)
        if not _process.will_leave:
            _process.will_leave = True
            at_exit(_leave)
        _process.holds[data] = _take(Server.at(location(data)), hold)


def _take(server: Server, before: _Hold | None) -> _Hold:
    """Take our share of the users' lock, unless we have it from `before`, and start the server if it does not run."""
    with Lock.exclusive(server.location.start_lock):
        users = before.users if before else Lock.shared(server.location.users_lock)
        try:
            server.up()
        except BaseException:
            if before is None:
                users.release()
            raise
    return _Hold(server=server, users=users)


def _leave() -> None:
    _process.is_leaving = True
    release()


os.register_at_fork(after_in_child=_process.begin_anew)

MARK_FILE: Final = "external_database"


def write_mark(data: Path, server: Mapping[str, Any]) -> None:
    """Note in `data` the server of this entry of DATABASES, without user and password. A folder that cannot be written
    stays without."""
    host, port = server["HOST"] or "the local socket", server["PORT"] or "5432"
    note = f'"{server["NAME"]}" at {host}, port {port}'
    path = data / MARK_FILE
    with suppress(OSError):
        if path.exists() and path.read_text() == note:
            return
        data.mkdir(parents=True, exist_ok=True)
        draft = data / f"{MARK_FILE}.{os.getpid()}"
        draft.write_text(note)
        draft.replace(path)


def check_mark(data: Path) -> None:
    path = data / MARK_FILE
    with suppress(FileNotFoundError, NotADirectoryError):
        raise DatabaseElsewhere(data=data, database=path.read_text().strip(), mark=path)
