"""The app `metering`."""

from django.apps import AppConfig


class MeteringConfig(AppConfig):
    """What jobs use, and budgets. Its `hooks.py` registers the meter of jobs, in every process."""

    name = "metering"
    verbose_name = "Usage and budgets"
