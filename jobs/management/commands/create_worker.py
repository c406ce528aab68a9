"""`manage.py create_worker NAME --queue Q`: a key for a machine that works."""

from argparse import ArgumentParser
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError

from jobs import operations
from jobs.errors import JobsError


class Command(BaseCommand):
    """Make a worker and print its key, alone on the last line: it is shown this once."""

    help = "Create a worker; its key is the last line of the output and is never shown again."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--queue", action="append", required=True, help="home queue; repeat for more, in order")
        parser.add_argument("--steal", action="append", default=[], help="queue to take from when idle; * for any")
        parser.add_argument("--owner", help="user whose jobs, and whose groups' jobs, it serves (everybody's)")

    def handle(self, *, name: str, queue: list[str], steal: list[str], owner: str | None, **_: Any) -> None:
        try:
            worker, key = operations.create_worker(name, queues=queue, steals=steal, owner=_user(owner))
        except JobsError as error:
            raise CommandError(error.message) from None
        self.stdout.write(f"Worker {worker.pk} ({worker.name}) serves {', '.join(queue)}. Its key, shown only once:")
        self.stdout.write(key)


def _user(name: str | None) -> User | None:
    if name is None:
        return None
    try:
        return User.objects.get(username=name)
    except User.DoesNotExist:
        raise CommandError(f"There is no user {name!r}.") from None
