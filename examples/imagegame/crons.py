"""When the game deletes old games, and checks that its pictures agree with their jobs."""

from examples.imagegame import operations
from scheduling.operations import daily, declare, interval

declare("imagegame: forget old games", daily(hour=3, minute=40), operations.forget)
declare("imagegame: pictures follow their jobs", interval(minutes=15), operations.mend)
