"""What a new ceiling does to the slots of a queue, for every small queue there is."""

import itertools

from jobs.domain import ceilings

NUMBERS = 5
CEILINGS = 6


def _slots() -> list[tuple[set[int], set[int]]]:
    """Every way to hold and to leave free some of the slots 0 to 4."""
    ways = itertools.product(["held", "free", "none"], repeat=NUMBERS)
    return [
        ({n for n, way in enumerate(how) if way == "held"}, {n for n, way in enumerate(how) if way == "free"})
        for how in ways
    ]


def _moved(held: set[int], free: set[int], ceiling: int) -> tuple[set[int], set[int]]:
    """The held and the free numbers after the move, written one after the other as statements would."""
    move = ceilings.move(held=held, free=free, ceiling=ceiling)
    held, free = set(held), free - move.removed
    for n, number in move.renumbered.items():
        assert number not in held | free, "two slots have one number for a moment"
        of = held if n in held else free
        of.remove(n)
        of.add(number)
    for n in move.added:
        assert n not in held | free
        free.add(n)
    return held, free


class TestEveryMove:
    def test_leaves_the_numbers_below_the_ceiling_and_the_held_ones_that_found_none(self) -> None:
        for (held, free), ceiling in itertools.product(_slots(), range(CEILINGS)):
            held_then, free_then = _moved(held, free, ceiling)
            assert len(held_then) == len(held)
            assert set(range(ceiling)) <= held_then | free_then
            assert len(held_then | free_then) == max(ceiling, len(held))
            assert all(n < ceiling for n in free_then)

    def test_moves_nothing_when_the_ceiling_stays(self) -> None:
        move = ceilings.move(held={0, 2}, free={1}, ceiling=3)
        assert move == ceilings.Move(removed=frozenset(), renumbered={}, added=[])

    def test_gives_the_numbers_below_to_those_beyond(self) -> None:
        move = ceilings.move(held={1, 4}, free={0, 2, 3}, ceiling=2)
        assert move == ceilings.Move(removed=frozenset({0, 2, 3}), renumbered={4: 0}, added=[])
