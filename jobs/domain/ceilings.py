"""How the slots of a queue follow its ceiling. Slots are known by their numbers, which are unique in a queue."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """What a new ceiling changes: in this order, no two slots ever have the same number."""

    removed: frozenset[int]
    renumbered: Mapping[int, int]
    added: Sequence[int]


def move(*, held: Iterable[int], free: Iterable[int], ceiling: int) -> Move:
    """Leave numbers 0 to `ceiling` - 1, and beyond them slots that are held and find no number below.

    There are as many slots then as the ceiling says, or as jobs hold one where those are more: a claim that was under
    way, and takes a slot by what it saw before, takes one of these. A held slot is never removed: whoever ends its job
    looks for it.
    """
    held, free = set(held), set(free)
    surplus = max(0, len(held) + len(free) - max(ceiling, len(held)))
    removed = frozenset(sorted(free, reverse=True)[:surplus])
    kept = (held | free) - removed
    gaps = [n for n in range(ceiling) if n not in kept]
    beyond = sorted(n for n in kept if n >= ceiling)
    return Move(removed=removed, renumbered=dict(zip(beyond, gaps, strict=False)), added=gaps[len(beyond) :])
