"""The states of a scheduled function and the table of moves between them. docs/scheduling.md shows this table."""

from dataclasses import dataclass
from enum import StrEnum

from core.verdicts import CancelVerdict


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
    """What a function may touch (DESIGN section 2)."""

    MUTATION = "mutation"
    ACTION = "action"


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One allowed step: from where (None: it did not exist), to where, for which kinds, and when."""

    source: Status | None
    target: Status
    kinds: frozenset[Kind]
    when: str


_BOTH = frozenset(Kind)
_ACTION = frozenset({Kind.ACTION})
_MUTATION = frozenset({Kind.MUTATION})

MOVES: tuple[Move, ...] = (
    Move(source=None, target=Status.PENDING, kinds=_BOTH, when="scheduled"),
    Move(source=None, target=Status.CANCELED, kinds=_BOTH, when="scheduled by an action that was canceled"),
    Move(source=Status.PENDING, target=Status.CANCELED, kinds=_BOTH, when="canceled before it started"),
    Move(source=Status.PENDING, target=Status.SUCCESS, kinds=_MUTATION, when="its effects are committed, with this"),
    Move(source=Status.PENDING, target=Status.FAILED, kinds=_MUTATION, when="it raised; its effects are rolled back"),
    Move(source=Status.PENDING, target=Status.IN_PROGRESS, kinds=_ACTION, when="its start is committed"),
    Move(source=Status.IN_PROGRESS, target=Status.SUCCESS, kinds=_ACTION, when="it returned"),
    Move(source=Status.IN_PROGRESS, target=Status.FAILED, kinds=_ACTION, when="it raised, or ran past its timeout"),
    Move(source=Status.IN_PROGRESS, target=Status.UNKNOWN, kinds=_ACTION, when="its process died"),
    Move(source=Status.IN_PROGRESS, target=Status.CANCELED, kinds=_ACTION, when="canceled while it ran"),
)


def may_move(source: Status | None, target: Status, *, kind: Kind) -> bool:
    """Whether the table has a move from `source` to `target` for functions of this kind."""
    return any(move.source == source and move.target == target and kind in move.kinds for move in MOVES)


def cancel_verdict(status: Status, *, attempt: int) -> CancelVerdict:
    """What canceling a function in this state comes to. `attempt` is 1 for the first try."""
    if status is Status.PENDING:
        return CancelVerdict.BEFORE_START if attempt == 1 else CancelVerdict.BEFORE_RETRY
    return CancelVerdict.WHILE_RUNNING if status is Status.IN_PROGRESS else CancelVerdict.TOO_LATE
