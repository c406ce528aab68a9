"""What the clusters of the chaos run: a mutation that writes a row, an action that writes a line to a file."""

import time
from pathlib import Path

from django.db import connection

from scheduling.operations import action, mutation

MADE = "CREATE TABLE chaos_ledger (n bigint NOT NULL)"  # no key: a second row must be able to show


@mutation
def write_row(*, n: int) -> None:
    """Leave one row."""
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO chaos_ledger (n) VALUES (%s)", [n])


@action(timeout=60)
def write_line(*, n: int, path: str, seconds: float) -> None:
    """Leave one line, and take a while."""
    with Path(path).open("ab", buffering=0) as ledger:
        ledger.write(f"{n}\n".encode())
    time.sleep(seconds)
