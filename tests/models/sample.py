"""Functions for the model of scheduled functions. Each run of a mutation that counts leaves one row behind."""

from django.db import connection

from scheduling import operations as scheduling
from scheduling.operations import Retry, action, mutation

# No dice, and longer than any lease.
LATER = Retry(max_attempts=3, first=3600, base=1, jitter=0)


class Broken(Exception):
    """What a function of the model raises."""


def _mark(number: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO model_mark (id) VALUES (%s)", [number])


@mutation
def mark(*, number: int) -> None:
    """Leave a row."""
    _mark(number)


@mutation
def mark_and_break(*, number: int) -> None:
    """Leave a row, and raise: then there is none."""
    _mark(number)
    raise Broken


@mutation
def mark_and_schedule(*, number: int) -> None:
    """Leave a row, and schedule another mutation of the same number."""
    _mark(number)
    scheduling.run_after(0, mark, number=number)


@action()
def once(*, number: int) -> int:
    """An action that is never retried."""
    return number


@action(retry=LATER)
def tried_again(*, number: int) -> int:
    """An action that is retried when it is known that it failed."""
    return number


@action(retry=LATER, idempotent=True)
def tried_again_anyhow(*, number: int) -> int:
    """An action that is retried also when nobody knows how it ended."""
    return number
