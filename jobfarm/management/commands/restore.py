from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from core.commands import MANAGE
from jobfarm import backups
from postgres.errors import PostgresError


class Command(BaseCommand):
    help = f"Fill an empty farm from the folder that `{MANAGE} backup` wrote, of this version or an earlier one."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("folder", type=Path, help=f"a folder that `{MANAGE} backup` wrote")

    def handle(self, *, folder: Path, **_: Any) -> None:
        try:
            note = backups.restore(folder)
            call_command("migrate", interactive=False, verbosity=0)
            backups.prove(folder, note)
        except (backups.BackupError, PostgresError, OSError) as error:
            raise CommandError(str(error)) from None
        self.stdout.write(f"This is the farm of {note.made_at:%Y-%m-%d %H:%M:%S} UTC again. Start it.")
