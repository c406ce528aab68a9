"""`manage.py backup`: everything that a farm is, in one folder."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from jobfarm import backups
from postgres.errors import PostgresError


class Command(BaseCommand):
    """Write a backup while the farm runs."""

    help = "Write the database, the secret key and the result files into a new folder. The farm may go on running."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Where to."""
        parser.add_argument("folder", type=Path, help="a folder that does not exist yet")

    def handle(self, *, folder: Path, **_: Any) -> None:
        """Write it, and say what is in it."""
        try:
            note = backups.make(folder)
        except (backups.BackupError, PostgresError, OSError) as error:
            raise CommandError(str(error)) from None
        files = "with the result files" if note.with_files else "without result files, which lie in a bucket"
        self.stdout.write(f"{folder} holds the farm of {note.made_at:%Y-%m-%d %H:%M:%S} UTC, {files}.")
        self.stdout.write("It holds the secret key too: keep it where only operators read.")
