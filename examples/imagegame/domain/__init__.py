"""Rules of the game, without Django, clock and random generator of its own."""
