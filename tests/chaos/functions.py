"""What the clusters of the chaos run: a mutation that writes a row, an action that writes a line to a file."""

import json
import time
from pathlib import Path

from django.db import connection

from scheduling.operations import action, mutation

MADE = """
CREATE TABLE IF NOT EXISTS chaos_ledger (n bigint NOT NULL);  -- no key: a second row must be able to show
CREATE TABLE IF NOT EXISTS chaos_list (key text PRIMARY KEY, entries bigint[] NOT NULL);
CREATE TABLE IF NOT EXISTS chaos_read (n bigint NOT NULL, appended text NOT NULL, reads jsonb NOT NULL);
"""
LISTS = 4
_READ = "SELECT key, entries FROM chaos_list WHERE key = ANY (%s)"
_APPEND = """
INSERT INTO chaos_list (key, entries) VALUES (%s, ARRAY[%s::bigint])
ON CONFLICT (key) DO UPDATE SET entries = chaos_list.entries || excluded.entries
"""


@mutation
def write_row(*, n: int) -> None:
    """Leave one row; and read two lists, append to one of them, and leave what was read."""
    mine, other = (f"{n // 100}.{place % LISTS}" for place in (n, n // LISTS))
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO chaos_ledger (n) VALUES (%s)", [n])
        cursor.execute(_READ, [[mine, other]])
        reads = {mine: list[int](), other: list[int]()} | dict(cursor.fetchall())
        cursor.execute(_APPEND, [mine, n])
        cursor.execute("INSERT INTO chaos_read VALUES (%s, %s, %s)", [n, mine, json.dumps(reads)])


@action(timeout=60)
def write_line(*, n: int, path: str, seconds: float) -> None:
    """Leave one line, and take a while."""
    with Path(path).open("ab", buffering=0) as ledger:
        ledger.write(f"{n}\n".encode())
    time.sleep(seconds)
