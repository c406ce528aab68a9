"""Template tags of the jobs app."""
