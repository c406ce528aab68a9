"""What the mutations of `functions.write_row` that committed had read and appended, and the lists at the end."""

import json

from django.db import connection

from tests.histories.history import Call


def read() -> tuple[list[Call], dict[str, list[int]]]:
    """A call for each mutation that committed, and what each list holds."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT n, appended, reads FROM chaos_read")
        calls = [_mutation(*row) for row in cursor.fetchall()]
        cursor.execute("SELECT key, entries FROM chaos_list")
        return calls, dict(cursor.fetchall())


def _mutation(n: int, appended: str, reads: str) -> Call:
    more = {"id": f"mutation {n}", "reads": list(json.loads(reads).items()), "appends": [(appended, n)]}
    return Call(call="mutation", process="cluster", began=0.0, ended=0.0, more=more)
