"""What can be done with pictures and games. Each function is one use case, in one transaction."""

from examples.imagegame.operations.keeping import forget
from examples.imagegame.operations.moving import deadline
from examples.imagegame.operations.opening import again, begin, find, go_on, join, leave, open_game
from examples.imagegame.operations.painting import change, follow, mend, prepared, start, withdraw
from examples.imagegame.operations.playing import guess, name, play

__all__ = [
    "again",
    "begin",
    "change",
    "deadline",
    "find",
    "follow",
    "forget",
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
