"""A game with pictures painted by jobs."""
