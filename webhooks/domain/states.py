"""The life of a delivery: its states, and which may follow which."""

from enum import StrEnum


class Status(StrEnum):
    """Where a delivery stands."""

    RECEIVED = "received"
    PROCESSED = "processed"
    IGNORED = "ignored"
    FAILED = "failed"
    DEAD = "dead"
    REJECTED = "rejected"


class Outcome(StrEnum):
    """How one attempt to process a delivery ended."""

    PROCESSED = "processed"
    IGNORED = "ignored"
    FAILED = "failed"


# A failed delivery waits for its next attempt; a dead one, and one that was rejected, waits for a person.
WAITING = frozenset({Status.RECEIVED, Status.FAILED})
SETTLED = frozenset({Status.PROCESSED, Status.IGNORED})

_TRIED = frozenset({Status.PROCESSED, Status.IGNORED, Status.FAILED, Status.DEAD})
MOVES: dict[Status, frozenset[Status]] = {
    Status.RECEIVED: _TRIED,
    # Its next attempt, or a replay by a person or by the sender, who sent it again.
    Status.FAILED: _TRIED | {Status.RECEIVED},
    Status.DEAD: frozenset({Status.RECEIVED}),
    # A person may replay what is over, when a handler was mended since.
    Status.PROCESSED: frozenset({Status.RECEIVED}),
    Status.IGNORED: frozenset({Status.RECEIVED}),
    Status.REJECTED: frozenset(),
}


def may_move(*, old: Status, new: Status) -> bool:
    """Whether a delivery may go from one state to another."""
    return new in MOVES[old]
