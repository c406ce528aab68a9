"""Deferred functions and crons, in the caller's transaction, run by django-q2. Enter by `scheduling.operations`."""
