"""Attempts of all jobs, by the moment at which they ended."""

from datetime import datetime, timedelta
from typing import Final

from postgres import halving

_DISORDER: Final = timedelta(
    minutes=1
)  # between the moment that an attempt's row says, and when it was written


def first_since(moment: datetime) -> int:
    """An id below which no attempt ended at this moment or later; at most a minute's worth of ids too low."""
    return _first_since(moment - _DISORDER)


def end_before(moment: datetime) -> int:
    """An id from which on every attempt ended at this moment or later; at most a minute's worth too high."""
    return _first_since(moment + _DISORDER)


def _first_since(moment: datetime) -> int:
    return halving.first_id_since("jobs_attempt", "ended_at", moment)
