"""The administration of jobs: what it changes goes through `jobs.operations`, and into the admin's log."""

from jobs.admin import bulks, history, jobs, kinds, queues, usage, workers

__all__ = ["bulks", "history", "jobs", "kinds", "queues", "usage", "workers"]
