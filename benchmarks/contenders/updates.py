"""What the scheduled functions of both contenders do: one UPDATE of a row of their own, by Django's connection.

Plain Django: it runs in the environments of the peers. The row remembers when, by the database's clock.
"""

from django.db import connection

MOST = 20_000  # rows, so that the table is one that is read by its index
TABLE = "CREATE TABLE bench_account (id bigint PRIMARY KEY, changed_at timestamptz)"
RESET = (
    "TRUNCATE bench_account",
    f"INSERT INTO bench_account (id) SELECT generate_series(1, {MOST})",
    "VACUUM (ANALYZE) bench_account",
)
CHANGED = "SELECT count(*), min(changed_at), max(changed_at) FROM bench_account WHERE changed_at IS NOT NULL"


def make_table() -> None:
    """The table, with nothing in it."""
    with connection.cursor() as cursor:
        cursor.execute(TABLE)


def update(n: int) -> None:
    """Change row `n`."""
    with connection.cursor() as cursor:
        cursor.execute("UPDATE bench_account SET changed_at = clock_timestamp() WHERE id = %s", [n])
