"""The administration of jobs: what it changes goes through `jobs.operations`, and into the admin's log."""

from jobs.admin import flows, history, jobs, kinds, queues, usage, workers

__all__ = ["flows", "history", "jobs", "kinds", "queues", "usage", "workers"]
