"""When the game forgets, and looks whether its pictures say what their jobs say."""

from examples.imagegame import operations
from scheduling.operations import daily, declare, interval

declare("imagegame: forget old games", daily(hour=3, minute=40), operations.forget)
declare("imagegame: pictures follow their jobs", interval(minutes=1), operations.mend)
