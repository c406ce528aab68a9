import os

from django.apps import AppConfig


class HistoriesConfig(AppConfig):
    """Added to a farm by JOBFARM_APPS, it has each process write into the file RECORDED_INTO what it is asked."""

    name = "tests.histories"

    def ready(self) -> None:
        """Record from now on, also in what is forked from this process."""
        from tests.histories import recorder

        recorder.record(os.open(os.environ["RECORDED_INTO"], os.O_WRONLY | os.O_CREAT | os.O_APPEND))
