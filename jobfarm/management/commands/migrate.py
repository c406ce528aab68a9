"""`manage.py migrate`: Django's own, on tables that are in use."""

from functools import partial
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.core.management.commands import migrate

from jobfarm import administration
from postgres import reachability, schema
from postgres.errors import LockedOut


class Command(migrate.Command):
    """Migrations come one after the other, however many machines begin at once, and none waits for a lock so long that
    those behind it feel it (docs/adr/0034). The database of a later version is left alone. Groups of operators that
    nobody changed get the rights that are new."""

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--attempts", type=int, default=schema.ATTEMPTS,
            help="How often to try while others hold a lock that is needed, three seconds apart.",
        )  # fmt: skip

    def handle(self, *args: Any, attempts: int = schema.ATTEMPTS, **options: Any) -> None:
        """Migrate; each migration is a transaction, so a second try goes on where the first stopped."""
        step = partial(super().handle, *args, **options)
        try:
            with schema.changing(using=options["database"]):
                look = partial(reachability.later_version, options["database"])
                if sentence := schema.patiently(look, attempts=attempts, report=self.stderr.write):
                    raise CommandError(f"{sentence} Nothing was migrated.")
                unchanged = administration.unchanged_groups()
                schema.patiently(step, attempts=attempts, report=self.stderr.write)
                administration.extend(unchanged)
        except LockedOut as error:
            raise CommandError(str(error)) from None
