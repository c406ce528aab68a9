"""What can be done with pictures and games. Each function is one use case, in one transaction."""

from examples.imagegame.operations.games import again, begin, find, go_on, join, leave, open_game
from examples.imagegame.operations.moves import guess, name, play
from examples.imagegame.operations.progress import deadline
from examples.imagegame.operations.submissions import change, follow, mend, prepared, start, withdraw

__all__ = [
    "again",
    "begin",
    "change",
    "deadline",
    "find",
    "follow",
    "go_on",
    "guess",
    "join",
    "leave",
    "mend",
    "name",
    "open_game",
    "play",
    "prepared",
    "start",
    "withdraw",
]
