"""Scheduled functions, crons, clusters and django-q2's own rows in the admin: to look at, and to act on."""

from scheduling.admin import clusters, crons, functions

__all__ = ["clusters", "crons", "functions"]
