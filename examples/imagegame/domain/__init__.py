"""Rules of the game, without Django, clock and dice of its own."""
