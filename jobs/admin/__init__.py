"""The administration of jobs: what it changes goes through `jobs.operations`, and into the admin's log."""

from jobs.admin import history, jobs, kinds, queues, workers

__all__ = ["history", "jobs", "kinds", "queues", "workers"]
