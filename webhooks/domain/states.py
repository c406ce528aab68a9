"""The life of a delivery: its states, and which may follow which."""

from enum import StrEnum


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


_TRIED = frozenset({Status.PROCESSED, Status.IGNORED, Status.REJECTED, Status.FAILED, Status.DEAD})
MOVES: dict[Status, frozenset[Status]] = {
    Status.RECEIVED: _TRIED,
    # Its next attempt, or a replay by a person or by the sender, who sent it again.
    Status.FAILED: _TRIED | {Status.RECEIVED},
    Status.DEAD: frozenset({Status.RECEIVED}),
    # A person may replay what is over, when a handler was mended since.
    Status.PROCESSED: frozenset({Status.RECEIVED}),
    Status.IGNORED: frozenset({Status.RECEIVED}),
    # The same when its handler rejected it; one that was rejected on arrival stays so (`is_replayable`).
    Status.REJECTED: frozenset({Status.RECEIVED}),
}
ENDED_WELL = frozenset({Status.PROCESSED, Status.IGNORED})
# An attempt to process it is still to come by itself; a dead one, and one that was rejected, waits for a person.
WAITING = frozenset(status for status, nexts in MOVES.items() if Status.PROCESSED in nexts)
REPLAYABLE = frozenset(status for status, nexts in MOVES.items() if Status.RECEIVED in nexts)


def is_replayable(status: str, *, tries: int) -> bool:
    """Whether an attempt can change anything: a body that was rejected before any attempt cannot be read at all."""
    return status in REPLAYABLE and (status != Status.REJECTED or tries > 0)
