"""Applications on the farm, to play with and to read."""
