"""Moments of PostgreSQL that Python has not: infinities, and years before 1 and after 9999. Somebody may write them."""

from datetime import UTC, datetime
from typing import Final

from psycopg import DataError
from psycopg.abc import Buffer
from psycopg.types.datetime import TimestamptzLoader

FIRST: Final = datetime(2, 1, 1, tzinfo=UTC)  # a year from the calendar's end: so is what is counted on from there
LAST: Final = datetime(9999, 1, 1, tzinfo=UTC)


class MomentLoader(TimestamptzLoader):
    """Django's for UTC, but such moments are FIRST or LAST: a row that has one keeps no page from the others."""

    timezone = UTC  # Django asks for it

    def load(self, data: Buffer) -> datetime:
        try:
            return super().load(data).replace(tzinfo=UTC)
        except DataError:
            text = bytes(data)
            return FIRST if text.startswith(b"-") or text.endswith(b"BC") else LAST


def is_none(moment: datetime) -> bool:
    """Whether this is how a moment is read that Python has not."""
    return moment in {FIRST, LAST}
