"""Attempts of all jobs, by the moment at which they ended."""

from datetime import datetime, timedelta
from typing import Final

from django.db.models import Exists, OuterRef

from jobs.models import OutputChunk
from postgres import halving

_DISORDER: Final = timedelta(
    minutes=1
)  # between the moment that an attempt's row says, and when it was written


def wrote() -> Exists:
    """Whether the attempt of a row wrote any output, to annotate."""
    pieces = OutputChunk.objects.filter(job_id=OuterRef("job_id"), attempt=OuterRef("number"), seq=0)
    return Exists(pieces)


def first_since(moment: datetime) -> int:
    """An id below which no attempt ended at this moment or later; at most a minute's worth of ids too low."""
    return _first_since(moment - _DISORDER)


def end_before(moment: datetime) -> int:
    """An id from which on every attempt ended at this moment or later; at most a minute's worth too high."""
    return _first_since(moment + _DISORDER)


def _first_since(moment: datetime) -> int:
    return halving.first_id_since("jobs_attempt", "ended_at", moment)
