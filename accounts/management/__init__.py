"""Commands about people."""

from argparse import ArgumentTypeError

from django.contrib.auth.models import User
from django.core.management.base import CommandParser

from accounts import queries


def add_person(parser: CommandParser) -> None:
    parser.add_argument("person", metavar="USER", type=_person, help="The person's username.")


def _person(username: str) -> User:
    person = queries.person(username)
    if person is None:
        raise ArgumentTypeError(
            f"There is no user {username!r}: create one in the administration, or with the command `createsuperuser`."
        )
    return person
