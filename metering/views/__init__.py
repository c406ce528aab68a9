"""The page of usage, and its rows as a file."""
