"""Since when the farm is reachable without a gap: time in which it was not does not count against a lease."""

from typing import Final

_LONGEST_BEAT_S: Final = 5.0  # an idle process queries the database about once in 5 s
_SHORTEST_BEAT_S: Final = 0.25
_BEATS_A_GAP: Final = 4


def beat_s(lease_s: float) -> float:
    """How often a web process notes that it is reachable, in seconds."""
    return min(_LONGEST_BEAT_S, max(_SHORTEST_BEAT_S, lease_s / 12))


def gap_s(lease_s: float) -> float:
    """After so many seconds without a note the farm counts as unreachable.

    A shorter absence goes unnoticed. It does no harm: a worker that reports three times a lease has two thirds of it
    left, and this is a third at most.
    """
    return max(lease_s / 4, _BEATS_A_GAP * beat_s(lease_s))


def grace_s(heartbeat_s: float) -> float:
    """How long after an absence the farm takes no lease back: one heartbeat interval, and a margin for its way."""
    return heartbeat_s + min(5.0, heartbeat_s)
