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
    """What Django's connection of this thread sends in the block is in the list after it."""
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
        lines = (line.split("\t") for line in file.read().decode(errors="replace").splitlines())
        sent.extend(fields[2] for fields in lines if len(fields) > 2 and fields[0] == "F")
