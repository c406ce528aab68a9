from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from jobfarm import backups
from postgres.errors import PostgresError


class Command(BaseCommand):
    help = "Write the database, the secret key and the result files into a new folder. The farm may keep running."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("folder", type=Path, help="a folder that does not exist yet; with --keep any")
        keep_help = "write a new folder in this one, named by date and time, and keep the newest N"
        parser.add_argument("--keep", type=int, metavar="N", help=keep_help)

        files_help = "leave out the result files, for instance where their bucket has its own copies"
        parser.add_argument("--without-files", action="store_true", help=files_help)

    def handle(self, *, folder: Path, keep: int | None, without_files: bool, **_: Any) -> None:
        if keep is not None and keep < 1:
            raise CommandError("--keep must be at least 1.")
        try:
            if keep is None:
                note = backups.make(folder, with_files=not without_files)
            else:
                folder, note = backups.add(folder, keep=keep, with_files=not without_files)
        except (backups.BackupError, PostgresError, OSError) as error:
            raise CommandError(str(error)) from None
        files = "with" if note.with_files else "without"
        self.stdout.write(f"{folder} holds the farm of {note.made_at:%Y-%m-%d %H:%M:%S} UTC, {files} its result files.")
        self.stdout.write("It holds the secret key too: keep it where only operators read.")
