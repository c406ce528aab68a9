"""The life of a delivery: its states, and when one that failed is tried again."""

import random
from datetime import timedelta
from enum import StrEnum

from core.backoff import Backoff


class Status(StrEnum):
    RECEIVED = "received"
    PROCESSED = "processed"
    IGNORED = "ignored"
    FAILED = "failed"
    DEAD = "dead"
    REJECTED = "rejected"


class Outcome(StrEnum):
    PROCESSED = "processed"
    IGNORED = "ignored"
    REJECTED = "rejected"
    FAILED = "failed"


class StartOutcome(StrEnum):
    STARTED = "started"
    SKIPPED = "skipped"  # a job with the same unique key had not ended
    FAILED = "failed"
    SENT = "sent"  # a signal, to whom it concerns


ENDED_WELL = frozenset({Status.PROCESSED, Status.IGNORED})
# An attempt to process it is still to come by itself; a dead one, and one that was rejected, waits for a person.
WAITING = frozenset({Status.RECEIVED, Status.FAILED})
# By a person, when a handler was mended since; one that failed also by its sender, who sent it again.
REPLAYABLE = frozenset(Status) - {Status.RECEIVED}


def is_replayable(status: str, *, tries: int) -> bool:
    """Whether an attempt can change anything: a body that was rejected before any attempt cannot be read at all."""
    return status in REPLAYABLE and (status != Status.REJECTED or tries > 0)


def next_wait(*, after: int, attempts: int, first_s: float, rng: random.Random) -> timedelta | None:
    """How long to wait after this attempt (1 is the first) of so many failed; None when it was the last. Each wait is
    four times as long, up to a tenth shorter at random, and at most an hour: 1, 4, 16 and 60 minutes of 5 attempts."""
    if after >= attempts:
        return None
    backoff = Backoff(first_s=first_s, base=4, cap_s=3600, jitter=(0.9, 1))
    return timedelta(seconds=backoff.delay_s(after, rng=rng))
