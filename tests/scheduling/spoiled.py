"""A cron that is due, and a row of one or of a function whose arguments cannot be read."""

from django.db import connection
from django.test import Client

from postgres import clock
from scheduling import registry
from scheduling.models import Cron
from tests import farm
from tests.scheduling.integration import sample

UNREADABLE = "1" + "0" * 5000  # a number that jsonb holds, and Python refuses to read


def due_cron(name: str, **columns: object) -> Cron:
    """A person's cron that is due now, of a function that can be called."""
    plain = {"function": registry.dotted_name(sample.say), "args": {"word": "hi"}, "schedule": "every 60 s"}
    more = {"missed": "once", "overlap": "skip", "next_at": clock.now()}
    return Cron.objects.create(name=name, source="person", **plain | more | columns)


def spoil(table: str, key: str, value: str | int) -> None:
    """Give this row arguments that cannot be read."""
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE {table} SET args = %s::jsonb WHERE {key} = %s", [f'{{"word": {UNREADABLE}}}', value])


def root() -> Client:
    """The browser of an administrator."""
    client = Client()
    client.force_login(farm.user("root", is_staff=True, is_superuser=True))
    return client
