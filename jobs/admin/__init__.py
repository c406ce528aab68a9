"""The administration of jobs: what it changes goes through `jobs.operations`, and into the admin's log."""

from jobs.admin import fleet, jobs, kinds

__all__ = ["fleet", "jobs", "kinds"]
