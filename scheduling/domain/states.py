"""The states of a scheduled function. docs/scheduling.md has the table of moves between them."""

from enum import StrEnum

from core.refusal import CancelVerdict


class Status(StrEnum):
    """Where a scheduled function stands. The values are what the database and the pages say."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    SUCCESS = "success"
    FAILED = "failed"
    CANCELED = "canceled"
    UNKNOWN = "unknown"


LIVE = frozenset({Status.PENDING, Status.IN_PROGRESS})
ENDED = frozenset(Status) - LIVE


class Kind(StrEnum):
    MUTATION = "mutation"
    ACTION = "action"


def cancel_verdict(status: Status, *, attempt: int) -> CancelVerdict:
    """What canceling a function in this state comes to. `attempt` is 1 for the first try."""
    if status is Status.PENDING:
        return CancelVerdict.BEFORE_START if attempt == 1 else CancelVerdict.BEFORE_RETRY
    return CancelVerdict.WHILE_RUNNING if status is Status.IN_PROGRESS else CancelVerdict.TOO_LATE
