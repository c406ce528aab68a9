"""How often people may ask for pictures, open games and try codes. Guests, who cost nothing to make, get less."""

from datetime import timedelta

from ratelimits.operations import TokenBucket, declare

_MINUTE = timedelta(minutes=1)

# Some eight seconds are painted for each: who waits for one picture before asking for the next meets no limit.
PAINT = declare("imagegame/picture", TokenBucket(8, _MINUTE, capacity=4))
PAINT_AS_GUEST = declare("imagegame/picture of a guest", TokenBucket(3, _MINUTE, capacity=2))
OPEN = declare("imagegame/game", TokenBucket(4, _MINUTE, capacity=3))
JOIN = declare("imagegame/join", TokenBucket(1, timedelta(seconds=1), capacity=10))
