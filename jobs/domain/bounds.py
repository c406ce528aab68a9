"""What the numbers, the key and the moments of a new job may be."""

import math
from datetime import datetime
from typing import Any

from jobs.errors import InvalidValue


def check_values(new: Any) -> None:
    """Raise InvalidValue unless the numbers, the key and the moments of this new job are within their bounds."""
    if new.priority is not None and not -100 <= new.priority <= 100:
        raise InvalidValue(field="priority", why=f"a whole number from -100 to 100, got {new.priority}")
    if new.max_attempts is not None and not 1 <= new.max_attempts <= 1000:
        raise InvalidValue(field="max_attempts", why=f"from 1 to 1000, got {new.max_attempts}")
    if new.timeout_s is not None and not (math.isfinite(new.timeout_s) and 0 < new.timeout_s <= 5 * 366 * 86400):
        raise InvalidValue(field="timeout_s", why=f"positive and under five years, got {new.timeout_s}")
    _check_key(new.unique_key)
    for field in ("run_at", "expires_at"):
        _check_time(field, getattr(new, field))


def _check_key(unique_key: str | None) -> None:
    if unique_key is not None and (not 1 <= len(unique_key) <= 200 or "\x00" in unique_key):
        raise InvalidValue(field="unique_key", why="1 to 200 characters, none of them NUL")
    if unique_key is not None and not unique_key.isprintable():
        raise InvalidValue(field="unique_key", why="printable characters only")


def _check_time(field: str, moment: datetime | None) -> None:
    if moment is None:
        return
    if moment.tzinfo is None:
        raise InvalidValue(field=field, why="it needs a time zone")
    if not 2000 <= moment.year <= 2200:  # whatever the clock says: nothing that a person meant lies outside
        raise InvalidValue(field=field, why=f"a year from 2000 to 2200, got {moment.year}")
