"""The stages of a game and the table of moves between them."""

from dataclasses import dataclass
from enum import StrEnum

MOST_PLAYERS = 8
LEAST_PLAYERS = 2
LEAST_TITLES = 4  # to choose from; what the players do not think of is made up


class Stage(StrEnum):
    """Where a game stands. A picture is named, guessed and revealed before the next one is."""

    LOBBY = "lobby"
    PAINTING = "painting"
    NAMING = "naming"
    GUESSING = "guessing"
    REVEAL = "reveal"
    OVER = "over"
    ABANDONED = "abandoned"


# At the longest; a stage ends sooner when everybody has done their part.
LASTS_S = {Stage.LOBBY: 3600.0, Stage.PAINTING: 180.0, Stage.NAMING: 60.0, Stage.GUESSING: 45.0, Stage.REVEAL: 30.0}
ENDED = frozenset({Stage.OVER, Stage.ABANDONED})
LIVE = frozenset(Stage) - ENDED
AT_THE_TABLE = (Stage.NAMING, Stage.GUESSING, Stage.REVEAL)  # a picture is on the table


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One allowed step: from where (None: it did not exist), to where, and when."""

    source: Stage | None
    target: Stage
    when: str


MOVES: tuple[Move, ...] = (
    Move(source=None, target=Stage.LOBBY, when="somebody opens it"),
    Move(source=Stage.LOBBY, target=Stage.PAINTING, when="the host begins, with two players at least"),
    Move(source=Stage.LOBBY, target=Stage.ABANDONED, when="the host leaves, or nobody begins it in time"),
    Move(source=Stage.PAINTING, target=Stage.NAMING, when="all have played a picture, or the time is up"),
    Move(source=Stage.PAINTING, target=Stage.ABANDONED, when="the time is up and nobody played a picture"),
    Move(source=Stage.NAMING, target=Stage.GUESSING, when="all others gave a title, or the time is up"),
    Move(source=Stage.GUESSING, target=Stage.REVEAL, when="all others have guessed, or the time is up"),
    Move(source=Stage.REVEAL, target=Stage.NAMING, when="there is another picture"),
    Move(source=Stage.REVEAL, target=Stage.OVER, when="it was the last picture"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a move is decided by: how many `pictures` were played, how many are `remaining` after the one on the table.

    `titles` and `guesses` are those of players for that one; its true title does not count.
    """

    stage: Stage
    players: int
    pictures: int = 0
    remaining: int = 0
    titles: int = 0
    guesses: int = 0


def may_move(source: Stage | None, target: Stage) -> bool:
    """Whether the table has a move from `source` to `target`."""
    return any(move.source == source and move.target == target for move in MOVES)


def following(facts: Facts, *, is_pushed: bool) -> Stage | None:
    """Where the game goes now; None: it stays.

    `is_pushed` says that its time is up, or that the host waits for nobody: then it leaves every live stage. A lobby is
    left for painting by its host alone; when its time is up it is abandoned.
    """
    others = facts.players - 1  # everybody but whose picture it is
    match facts.stage:
        case Stage.LOBBY:
            return Stage.ABANDONED if is_pushed else None
        case Stage.PAINTING:
            return _after_painting(facts, is_pushed=is_pushed)
        case Stage.NAMING:
            return Stage.GUESSING if is_pushed or facts.titles >= others else None
        case Stage.GUESSING:
            return Stage.REVEAL if is_pushed or facts.guesses >= others else None
        case Stage.REVEAL:
            return (Stage.NAMING if facts.remaining else Stage.OVER) if is_pushed else None
        case _:
            return None


def _after_painting(facts: Facts, *, is_pushed: bool) -> Stage | None:
    if facts.pictures >= facts.players or (is_pushed and facts.pictures):
        return Stage.NAMING
    return Stage.ABANDONED if is_pushed else None
