"""How often web processes note that the farm hears its workers, and what follows from a gap. Durations in seconds."""

from typing import Final

MOST_S: Final = 5.0
LEAST_S: Final = 0.25


def beat_s(lease_s: float) -> float:
    """How often it is noted: twelve times in a lease, and as often as a process may ask the database (5 s) at most."""
    return min(MOST_S, max(LEAST_S, lease_s / 12))


def gap_s(lease_s: float) -> float:
    """How long nobody may have noted it until that is a gap: a quarter of a lease, and four beats at least."""
    return max(lease_s / 4, 4 * beat_s(lease_s))


def grace_s(heartbeat_s: float) -> float:
    """How long leases stand at least after the farm hears again: every worker has one heartbeat, and a margin."""
    return heartbeat_s + min(5.0, heartbeat_s)
