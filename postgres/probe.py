"""Whether the database takes writes now, answered in a bounded time whatever is wrong with it.

A server that cannot write answers every SELECT: one that is read-only, whose disk is full, or whose commits wait for a
synchronous standby that is not there. `statement_timeout` does not end that last wait (PostgreSQL, 27.2.8: it can be
canceled, with the transaction committed here alone). So the probe has a connection of its own, speaks libpq without
waiting, and is gone at its deadline: no thread and no connection of the pool stays behind. Of several hosts all are
tried at once: one that is frozen would else use up the time of the one that took its place.
"""

import time
from enum import StrEnum
from typing import Final

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from postgres import configuration, connections, descriptors, statements
from postgres.errors import PostgresError

WITHIN_S: Final = 1.8  # for /health/ready, which answers within 2 s
_READ_ONLY: Final = "25006"
_DISK_FULL: Final = "53100"


class Verdict(StrEnum):
    WRITABLE = "writable"
    READ_ONLY = "read_only"
    DISK_FULL = "disk_full"
    STALLED = "stalled"  # connected, and the commit did not end in time
    FROZEN = "frozen"  # its address takes connections, and nobody answers them in time
    AWAY = "away"  # no connection, or it broke


def probe(conninfo: str | None = None, *, within_s: float = WITHIN_S) -> Verdict:
    """Write and commit a few bytes, within so many seconds (looking up a host's name not counted): in the database of
    Django, past a pooler, unless another is named.

    Nothing is left of it but a record in the write-ahead log. Raises InvalidDatabaseUrl.
    """
    deadline = time.monotonic() + within_s
    parameters = conninfo_to_dict(conninfo or connections.direct_conninfo())
    attempts: list[pq.abc.PGconn] = [
        pq.PGconn.connect_start(make_conninfo(**one).encode()) for one in configuration.each_host(parameters)
    ]
    try:
        pgconn = _first_connected(attempts, deadline)
        if pgconn is not None:
            return _written(pgconn, deadline)
        return Verdict.FROZEN if any(map(_is_ignored, attempts)) else Verdict.AWAY
    except psycopg.Error:
        return Verdict.AWAY
    finally:
        for attempt in attempts:
            attempt.finish()


def takes_writes() -> bool:
    """Whether the database of Django does."""
    try:
        return probe() is Verdict.WRITABLE
    except PostgresError:  # the embedded server is away
        return False


def _first_connected(attempts: list[pq.abc.PGconn], deadline: float) -> pq.abc.PGconn | None:
    """None when all have failed, or the time is over."""
    waits: dict[pq.abc.PGconn, int] = dict.fromkeys(attempts, pq.PollingStatus.WRITING)
    ready = list(attempts)
    while waits:
        for attempt in ready:
            waits[attempt] = attempt.connect_poll()
            if waits[attempt] == pq.PollingStatus.OK:
                return attempt
            if waits[attempt] == pq.PollingStatus.FAILED:
                del waits[attempt]
        ready = _ready(waits, deadline) if waits else []
        if not ready:
            return None
    return None


def _is_ignored(attempt: pq.abc.PGconn) -> bool:
    """Whether the kernel took the connection, for somebody who says nothing."""
    return attempt.status not in {pq.ConnStatus.BAD, pq.ConnStatus.STARTED}


def _ready(waits: dict[pq.abc.PGconn, int], deadline: float) -> list[pq.abc.PGconn]:
    """Those whose socket has what they wait for, before the deadline."""
    if (remaining_s := deadline - time.monotonic()) <= 0:
        return []
    sockets = {attempt: attempt.socket for attempt in waits}
    reads = [sockets[attempt] for attempt, wait in waits.items() if wait == pq.PollingStatus.READING]
    writes = [sockets[attempt] for attempt, wait in waits.items() if wait == pq.PollingStatus.WRITING]
    ready = descriptors.ready(reads, to_write=writes, within_s=remaining_s)
    return [attempt for attempt, of_it in sockets.items() if of_it in ready]


def _written(pgconn: pq.abc.PGconn, deadline: float) -> Verdict:
    pgconn.nonblocking = 1
    pgconn.send_query(statements.load("postgres", "probe").sql.encode())
    while pgconn.flush():
        if not _ready({pgconn: pq.PollingStatus.WRITING}, deadline):
            return _abandoned(pgconn)
    verdict = Verdict.WRITABLE
    while True:
        while pgconn.is_busy():
            if not _ready({pgconn: pq.PollingStatus.READING}, deadline):
                return _abandoned(pgconn)
            pgconn.consume_input()
        result = pgconn.get_result()
        if result is None:
            return verdict
        verdict = _of(result, verdict)


def _abandoned(pgconn: pq.abc.PGconn) -> Verdict:
    """The server's process waits no longer for us. The cancel is not waited for: it is one more thing that may hang."""
    cancel = pgconn.cancel_conn()
    cancel.start()
    until = time.monotonic() + 0.1
    while cancel.poll() in {pq.PollingStatus.READING, pq.PollingStatus.WRITING} and time.monotonic() < until:
        descriptors.ready([cancel.socket], to_write=[cancel.socket], within_s=0.01)
    cancel.finish()
    return Verdict.STALLED


def _of(result: pq.abc.PGresult, so_far: Verdict) -> Verdict:
    if result.status != pq.ExecStatus.FATAL_ERROR:
        return so_far
    state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
    return {_READ_ONLY: Verdict.READ_ONLY, _DISK_FULL: Verdict.DISK_FULL}.get(state, Verdict.AWAY)
