"""manage.py create_token USER [--name NAME] [--scope SCOPE ...] [--days DAYS]"""

from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandParser

from accounts import domain, operations
from accounts.management import add_person


class Command(BaseCommand):
    """Make an API token. The key is alone on the last line of what is printed."""

    help = "Create an API token for a person and print its key, only once, alone on the last line."

    def add_arguments(self, parser: CommandParser) -> None:
        add_person(parser)
        parser.add_argument("--name", default="command line", help="What the token is for (%(default)s).")

        scope_help = "What it may do; may be given several times (all: submit, read, operate and endpoints)."
        parser.add_argument("--scope", action="append", choices=domain.SCOPES, help=scope_help)
        parser.add_argument("--days", type=float, help="How many days it is valid (until it is revoked).")

        content_help = "Delete what its jobs were given and gave minutes after their end."
        parser.add_argument("--no-content", dest="keep_content", action="store_false", help=content_help)

    def handle(self, *, person: User, **options: Any) -> None:
        """Make the token; the sentence goes to stderr, so that `key=$(manage.py create_token USER)` works."""
        values = {name: options[name] for name in ("name", "days", "keep_content")}
        token, key = operations.create_token(person, scopes=options["scope"] or domain.SCOPES, **values)
        self.stderr.write(f"API token “{token.name}” of {person.get_username()}; it is not shown again:")
        self.stdout.write(key)
