"""A new job on its way to the statement that stores it, and what its numbers, its key and its moments may be."""

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from jobs.domain.labels import Requirement
from jobs.errors import InvalidValue


class JobRecord(NamedTuple):
    """A new job as it is stored. What comes after `traceparent` is not stored: it decides about the job before.

    The statements of a submit take their columns from here (`jobs.queries.submits`): a field before `run_at` is the
    column of that name, as it is.
    """

    kind: str
    queue: str
    priority: int
    max_attempts: int
    timeout_s: float | None
    retry_when_lost: bool
    retry_on_timeout: bool
    owner_id: int | None = None
    group_id: int | None = None
    token_id: int | None = None
    unique_key: str | None = None
    retry_of_id: int | None = None
    requirement_id: int | None = None
    limit_name: str | None = None
    limit_key: str | None = None
    limit_count: float | None = None
    is_metered: bool = False

    run_at: datetime | None = None
    expires_at: datetime | None = None
    expires_s: float | None = None
    limit_wait_s: float | None = None
    payload: str = "null"  # its JSON
    traceparent: str | None = None

    may_wait: bool = False
    files: Mapping[str, UUID] | None = None
    wanted: Requirement | None = None
    is_choice: bool = False  # what is wanted is not its kind's alone


STORED: Final = JobRecord._fields[: JobRecord._fields.index("may_wait")]
COLUMNS: Final = JobRecord._fields[: JobRecord._fields.index("run_at")]
# Those that stand on the live row too.
OF_LIVE: Final = ("kind", "queue", "timeout_s", "owner_id", "group_id", "requirement_id", "is_metered")


def check(new: JobRecord) -> None:
    """Raise InvalidValue unless the numbers, the key and the moments of this new job are within their bounds."""
    if not -100 <= new.priority <= 100:
        raise InvalidValue(field="priority", why=f"a whole number from -100 to 100, got {new.priority}")
    if not 1 <= new.max_attempts <= 1000:
        raise InvalidValue(field="max_attempts", why=f"from 1 to 1000, got {new.max_attempts}")
    if new.timeout_s is not None and not (math.isfinite(new.timeout_s) and 0 < new.timeout_s <= 5 * 366 * 86400):
        raise InvalidValue(field="timeout_s", why=f"positive and under five years, got {new.timeout_s}")
    if new.unique_key is not None:
        _check_key(new.unique_key)
    for field, moment in (("run_at", new.run_at), ("expires_at", new.expires_at)):
        if moment is not None:
            _check_time(field, moment)


def _check_key(unique_key: str) -> None:
    if not 1 <= len(unique_key) <= 200 or "\x00" in unique_key:
        raise InvalidValue(field="unique_key", why="1 to 200 characters, none of them NUL")
    if not unique_key.isprintable():
        raise InvalidValue(field="unique_key", why="printable characters only")


def _check_time(field: str, moment: datetime) -> None:
    if moment.tzinfo is None:
        raise InvalidValue(field=field, why="it needs a time zone")
    if not 2000 <= moment.year <= 2200:  # whatever the clock says: nothing that a person meant lies outside
        raise InvalidValue(field=field, why=f"a year from 2000 to 2200, got {moment.year}")
