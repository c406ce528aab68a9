"""Pages of the game, and what their forms do."""
