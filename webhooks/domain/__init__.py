"""Rules of the inbox that need no database."""
