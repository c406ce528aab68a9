"""What a connection sends to PostgreSQL, as libpq traces it: which messages, and how often it waits for an answer."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection
from psycopg.pq import Trace


class Sent(list[str]):
    """The names of the messages of this side, in order: Query, Parse, Bind, Sync and more."""

    @property
    def round_trips(self) -> int:
        """How often an answer was asked for: by a plain query, or at the end of what went together."""
        return self.count("Query") + self.count("Sync")


@contextmanager
def traced() -> Iterator[Sent]:
    """What Django's connection of this thread sends in the block is in the list after it.

    Without the statement by which a process hastens crons: it comes once in ten seconds.
    """
    connection.ensure_connection()
    raw: Any = connection.connection
    raw.settle()
    sent = Sent()
    with tempfile.TemporaryFile() as file:
        raw.pgconn.trace(file.fileno())
        raw.pgconn.set_trace_flags(Trace.SUPPRESS_TIMESTAMPS)
        try:
            yield sent
        finally:
            raw.settle()
            raw.pgconn.untrace()
        file.seek(0)
        lines = file.read().decode(errors="replace").splitlines()
        fields = [line.split("\t", 3) for line in lines if "/* scheduling.hasten */" not in line]
        sent.extend(each[2] for each in fields if len(each) > 2 and each[0] == "F")
