"""People: how they log in, what they hold, and who is told when their rights change (ADR 0006)."""
