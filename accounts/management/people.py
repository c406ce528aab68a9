"""What the commands about people have in common."""

from abc import ABC, abstractmethod
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from accounts import queries
from accounts.errors import AccountsError
from postgres import reachability


class PersonCommand(BaseCommand, ABC):
    """A command about one person, named by username. Says refusals in one sentence, with exit status 1."""

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username", metavar="USER", help="The person's username.")

    def handle(self, *, username: str, **options: Any) -> None:
        """Find the person and do it. Raises CommandError."""
        try:
            self.handle_person(_person(username), options)
        except AccountsError as refusal:
            raise CommandError(refusal.message) from refusal
        except DatabaseError as error:
            sentence = reachability.explain_unreachable(error)
            if sentence is None:
                raise
            raise CommandError(sentence) from error

    @abstractmethod
    def handle_person(self, person: User, options: dict[str, Any]) -> None:
        """What the command does."""


def _person(username: str) -> User:
    person = queries.person(username)
    if person is None:
        raise CommandError(
            f"There is no user {username!r}: create one in the administration, or with the command `createsuperuser`."
        )
    return person
