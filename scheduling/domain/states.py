"""The states of a scheduled function and the table of moves between them. docs/scheduling.md shows this table."""

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """Where a scheduled function stands. The values are what the database and the pages say."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    SUCCESS = "success"
    FAILED = "failed"
    CANCELED = "canceled"
    UNKNOWN = "unknown"


LIVE = frozenset({State.PENDING, State.IN_PROGRESS})
ENDED = frozenset(State) - LIVE


class Kind(StrEnum):
    """What a function may touch (DESIGN section 2)."""

    MUTATION = "mutation"
    ACTION = "action"


class Verdict(StrEnum):
    """What a cancel came to."""

    BEFORE_START = "canceled_before_start"
    BEFORE_RETRY = "canceled_before_retry"
    WHILE_RUNNING = "canceled_while_running"
    TOO_LATE = "too_late"


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One allowed step: from where (None: it did not exist), to where, for which kinds, and when."""

    source: State | None
    target: State
    kinds: frozenset[Kind]
    when: str


_BOTH = frozenset(Kind)
_ACTION = frozenset({Kind.ACTION})
_MUTATION = frozenset({Kind.MUTATION})

MOVES: tuple[Move, ...] = (
    Move(source=None, target=State.PENDING, kinds=_BOTH, when="scheduled"),
    Move(source=None, target=State.CANCELED, kinds=_BOTH, when="scheduled by an action that was canceled"),
    Move(source=State.PENDING, target=State.CANCELED, kinds=_BOTH, when="canceled before it started"),
    Move(
        source=State.PENDING,
        target=State.SUCCESS,
        kinds=_MUTATION,
        when="its effects are committed, with this",
    ),
    Move(
        source=State.PENDING,
        target=State.FAILED,
        kinds=_MUTATION,
        when="it raised; its effects are rolled back",
    ),
    Move(source=State.PENDING, target=State.IN_PROGRESS, kinds=_ACTION, when="its start is committed"),
    Move(source=State.IN_PROGRESS, target=State.SUCCESS, kinds=_ACTION, when="it returned"),
    Move(
        source=State.IN_PROGRESS,
        target=State.FAILED,
        kinds=_ACTION,
        when="it raised, or ran past its timeout",
    ),
    Move(source=State.IN_PROGRESS, target=State.UNKNOWN, kinds=_ACTION, when="its process died"),
    Move(source=State.IN_PROGRESS, target=State.CANCELED, kinds=_ACTION, when="canceled while it ran"),
)


def may_move(source: State | None, target: State, *, kind: Kind) -> bool:
    """Whether the table has a move from `source` to `target` for functions of this kind."""
    return any(move.source == source and move.target == target and kind in move.kinds for move in MOVES)


def cancel_verdict(state: State, *, attempt: int) -> Verdict:
    """What canceling a function in this state comes to. `attempt` is 1 for the first try."""
    if state is State.PENDING:
        return Verdict.BEFORE_START if attempt == 1 else Verdict.BEFORE_RETRY
    return Verdict.WHILE_RUNNING if state is State.IN_PROGRESS else Verdict.TOO_LATE
