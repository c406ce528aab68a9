"""The states of a job and the table of moves between them. docs/states.md is drawn from this table."""

from enum import StrEnum
from typing import NamedTuple

from core.refusal import CancelVerdict


class Status(StrEnum):
    """Where a job stands. The values are what the database, the API and the pages say."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    SUCCESS = "success"
    FAILED = "failed"
    CANCELED = "canceled"
    TIMED_OUT = "timed_out"


LIVE = frozenset({Status.PENDING, Status.IN_PROGRESS})
ENDED = frozenset(Status) - LIVE


class AttemptOutcome(StrEnum):
    """How an attempt ended without success.

    LOST: its lease ran out, so its worker died or could not be heard. TIMED_OUT: it ran longer than its timeout.
    UNCONFIRMED: no call ever named its lease. That is no attempt, until it is the fifth in a row: then it is LOST.
    SUSPENDED: its handler waits for something, and is no attempt until that is there.
    """

    FAILED = "failed"
    LOST = "lost"
    TIMED_OUT = "timed_out"
    RELEASED = "released"
    CANCELED = "canceled"
    UNCONFIRMED = "unconfirmed"
    SUSPENDED = "suspended"


class Move(NamedTuple):
    """One allowed step: from where (None: it did not exist), to where, and when."""

    source: Status | None
    target: Status
    when: str


MOVES: tuple[Move, ...] = (
    Move(None, Status.PENDING, "submitted"),
    Move(Status.PENDING, Status.IN_PROGRESS, "claimed by a worker"),
    Move(Status.PENDING, Status.CANCELED, "canceled by its owner or staff"),
    Move(Status.PENDING, Status.TIMED_OUT, "expired while it waited"),
    Move(Status.IN_PROGRESS, Status.SUCCESS, "the lease holder hands in the result"),
    Move(Status.IN_PROGRESS, Status.FAILED, "the attempt failed, and it was the last one or is not retryable"),
    Move(
        Status.IN_PROGRESS, Status.PENDING, "the attempt failed, was lost or took too long and may be retried, "
        "it was released or suspended, or its lease was never confirmed",
    ),
    Move(Status.IN_PROGRESS, Status.CANCELED, "canceled by its owner or staff"),
    Move(
        Status.IN_PROGRESS, Status.TIMED_OUT, "it was lost or took too long, and its kind does not retry that or its "
        "attempts are used up",
    ),
)  # fmt: skip


def cancel_verdict(status: Status, *, confirmed_fence: int, is_suspended: bool = False) -> CancelVerdict:
    """What canceling a job in this state comes to. `confirmed_fence` is 0 while no worker ever spoke for it;
    `is_suspended`: its latest attempt is.

    A job that a worker had before (it failed, or was given back) is not "before start": a worker ran some of it.
    """
    if status is Status.PENDING:
        if is_suspended:
            return CancelVerdict.WHILE_SUSPENDED
        return CancelVerdict.BEFORE_START if confirmed_fence == 0 else CancelVerdict.BEFORE_RETRY
    return CancelVerdict.WHILE_RUNNING if status is Status.IN_PROGRESS else CancelVerdict.TOO_LATE
