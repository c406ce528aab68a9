"""manage.py login_link USER [--minutes N] [--url URL] [--without-second-factor]"""

from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError, CommandParser

from accounts import operations
from accounts.management import add_person
from core.commands import own_url


class Command(BaseCommand):
    help = "Print a link that logs a person in, once, alone on the last line."

    def add_arguments(self, parser: CommandParser) -> None:
        add_person(parser)
        minutes_help = "How many minutes it is valid (%(default)s: a day)."
        parser.add_argument("--minutes", type=float, default=operations.DAY_MIN, help=minutes_help)
        factor_help = "Take their second factors away: of a lost device."
        parser.add_argument("--without-second-factor", action="store_true", help=factor_help)
        parser.add_argument("--url", default=own_url(), help="How people reach this site (%(default)s).")

    def handle(self, *, person: User, **options: Any) -> None:
        minutes: float = options["minutes"]
        if not 0 < minutes <= 30 * operations.DAY_MIN:
            raise CommandError("A link is valid for more than 0 minutes and at most 43200, which are 30 days.")
        if options["without_second_factor"] and operations.forget_second_factors(person):
            self.stderr.write(f"Took the second factors of {person.get_username()} away.")
        path = operations.one_time_link(person, minutes=minutes)
        self.stderr.write(f"Logs {person.get_username()} in, once, within {minutes:g} minutes:")
        self.stdout.write(options["url"].rstrip("/") + path)
