"""The database's clock: the one clock that all processes of a farm share, on however many machines."""

from datetime import UTC, datetime

from django.db import connections


def now(*, using: str = "default") -> datetime:
    """The moment at which the database answers, aware, in UTC.

    It is clock_timestamp() and not now(), which stands still at the beginning of the transaction: what waits for a lock
    and then compares a lease would compare it with the past. Inside an SQL statement prefer statement_timestamp(): it
    is as fresh at the statement's start, and unlike clock_timestamp() it may be used to search an index."""
    with connections[using].cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        moment: datetime = cursor.fetchone()[0]
    return moment.astimezone(UTC)
