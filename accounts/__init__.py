"""People: how they log in, what they hold, and what reacts when their rights change (ADR 6)."""
