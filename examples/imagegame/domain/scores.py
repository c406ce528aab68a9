"""Who gets how much for a picture: the points of the game that this one follows."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

FOR_BEING_KNOWN = 1000  # whose picture it is, for each who chose its true title
FOR_MISLEADING = 500  # who made a title up, for each who fell for it
FOR_KNOWING = 200  # who chose the true title


@dataclass(frozen=True, slots=True, kw_only=True)
class Title:
    """A title of a picture and the people who chose it. `author` None: the game made it up."""

    author: int | None
    is_true: bool
    chosen_by: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A player's rank, from 1, and points; players with equal points share a rank."""

    rank: int
    player: int
    points: int


def of_picture(titles: Iterable[Title]) -> Counter[int]:
    """The points that one picture brought, by player."""
    points: Counter[int] = Counter()
    for title in titles:
        each = FOR_BEING_KNOWN if title.is_true else FOR_MISLEADING
        if title.author is not None and title.chosen_by:
            points[title.author] += each * len(title.chosen_by)
        if title.is_true:
            points.update(dict.fromkeys(title.chosen_by, FOR_KNOWING))
    return points


def table(players: Iterable[int], points: Mapping[int, int]) -> list[Score]:
    """All players, the best first; of several with as many points, in the order of `players`."""
    ranked = sorted(players, key=lambda player: -points.get(player, 0))
    scores = [points.get(player, 0) for player in ranked]
    return [
        Score(rank=scores.index(score) + 1, player=player, points=score)
        for player, score in zip(ranked, scores, strict=True)
    ]
