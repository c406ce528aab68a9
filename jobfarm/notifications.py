"""Whether notifications of this farm arrive: the half of the database that a pooler may swallow."""

import uuid

import psycopg
from psycopg import sql

from postgres import connections, statements


def is_round_trip_done(*, within_s: float) -> bool:
    """Send a notification to ourselves, the way all messages of the farm go: by Django's connection, to one that
    listens by itself. Whether it arrived within so many seconds.

    False behind a pooler in transaction mode when DATABASE_DIRECT_URL does not lead past it, and when that leads to
    another database. Raises psycopg.Error when the listening side cannot connect.
    """
    channel = f"jobfarm_doctor_{uuid.uuid4().hex}"
    with psycopg.connect(connections.direct_conninfo(), autocommit=True) as listener:
        listener.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        statements.load("jobfarm", "hello").run({"channel": channel})
        channels = [notify.channel for notify in listener.notifies(timeout=within_s, stop_after=1)]
        listener.execute("UNLISTEN *")  # a pooler may give this session to others
    return channels == [channel]
