"""Titles that the game makes up, so that two players have something to choose from too."""

import random
from collections.abc import Sequence

from examples.imagegame.domain.prompts import are_alike

_WHO = ("a lighthouse", "an old whale", "a clockwork fox", "two moons", "a paper dragon", "the last baker in town",
        "a sleepy tiger", "a parade of snails", "an astronaut", "a very small giant", "grandmother's teapot",
        "a choir of frogs")  # fmt: skip
_DOING = ("waiting for the rain", "in a field of glass", "learning to swim", "at the edge of the map",
          "on a bus at night", "made of autumn leaves", "underneath the ice", "selling stars by the pound",
          "lost in a library", "dancing with its shadow", "behind a waterfall", "in the year 3000")  # fmt: skip


def made_up(count: int, *, rng: random.Random, unlike: Sequence[str]) -> list[str]:
    """So many titles, none like another or like one of `unlike`."""
    pairs = [f"{who} {doing}" for who in _WHO for doing in _DOING]
    chosen: list[str] = []
    for title in rng.sample(pairs, len(pairs)):
        if len(chosen) == count:
            break
        if not any(are_alike(title, other) for other in [*unlike, *chosen]):
            chosen.append(title)
    return chosen
