"""Many scheduled mutations due at once: alone, beside one that runs all the while, and before a million of next year.

.venv/bin/python -m benchmarks.backlog [--quick] [--rounds 3]

One cluster of two workers, on a database of its own. A rate is that of the backlog, from the first to the last by the
database's clock. Meanwhile functions are scheduled to run at once, one each 50 ms: how long each waits for its start.
Each function changes a row of its own: rows that are changed again and again beside a transaction of minutes collide
(docs/scheduling.md, "Long mutations").
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import quantiles
from typing import Any

from benchmarks import results
from benchmarks.options import Options, parse, scaled, scaled_s
from benchmarks.own import database
from benchmarks.peers import ROOT
from benchmarks.results import Table

DUE, WAITING = 50_000, 1_000_000
PACE_S = 0.05
CHUNK = 5_000
LEAST = 100  # so that some are scheduled meanwhile, whose waits are measured
ALONE, LONG, NEXT_YEAR = "alone", "beside a mutation that runs all the while", "before 1,000,000 of next year"
UPDATE = "benchmarks.contenders.mutations.update"
FILL = """
WITH born AS (
    INSERT INTO scheduling_scheduledfunction (function, kind, queue, priority, args, status, attempt, run_at)
    SELECT 'benchmarks.contenders.mutations.update', 'mutation', 'default', 0, '{"n": 1}', 'pending', 1,
           now() + interval '1 year' + n * interval '1 s'
    FROM generate_series(1, %s) AS n RETURNING id, kind, queue, priority, run_at)
INSERT INTO scheduling_due (function_id, kind, queue, priority, run_at, next_at)
SELECT id, kind, queue, priority, run_at, run_at FROM born
"""
END_LONG = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE query LIKE '%%bench_wait%%' AND pid <> pg_backend_pid()
"""
WAITS = """
SELECT extract(epoch FROM started_at - run_at)::float8 FROM scheduling_scheduledfunction
WHERE function = 'tests.scheduling.integration.sample.nothing' AND id >= %s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One round of one way."""

    rate: float
    waits_s: list[float]
    writes: float


def main(options: Options) -> list[Table]:
    """Measure; a table of rates, and one of waits."""
    rates = Table(what="50,000 mutations due at once (functions/s)", floor=ALONE, ours=LONG, mark=0.8)
    waits = Table(what="Meanwhile: run_after(0) to its start, p99 (ms)", ours=LONG, is_less_better=True)
    with database() as name:
        _prepare()
        for _ in range(options.rounds):
            for way in (ALONE, LONG, NEXT_YEAR):
                seen = _round(name, way, options)
                rates.add(way, seen.rate)
                waits.add(way, 1000 * quantiles(seen.waits_s, n=100)[98])
                options.say(
                    f"{way}: {seen.rate:,.0f}/s, fresh p50 {1000 * quantiles(seen.waits_s, n=2)[0]:.0f} ms, "
                    f"p99 {waits.values[way][-1]:.0f} ms of {len(seen.waits_s)}; "
                    f"{seen.writes:.2f} writes of the queue for each function"
                )
    return [rates, waits]


def _round(name: str, way: str, options: Options) -> Seen:
    _empty()
    if way == NEXT_YEAR:
        _run(FILL, options.many(WAITING))
        _run("VACUUM (ANALYZE) scheduling_due, scheduling_scheduledfunction")
    with _cluster(name):
        return _drained(options.many(DUE, least=LEAST), is_beside_a_long_one=way == LONG)


def _drained(count: int, *, is_beside_a_long_one: bool) -> Seen:
    from scheduling import operations as scheduling  # noqa: PLC0415 (Django has to be set up first)

    long = scheduling.run_after(0, "benchmarks.contenders.mutations.wait") if is_beside_a_long_one else None
    if long is not None:
        time.sleep(scaled_s(2.0))
    before = _writes()
    first = _schedule(count)
    over = threading.Event()
    thread = threading.Thread(target=_keep_scheduling, args=(over,))
    thread.start()
    last = first + count
    while _one("SELECT count(*) FROM scheduling_due WHERE function_id BETWEEN %s AND %s", first, last - 1):
        time.sleep(0.25)
    over.set()
    thread.join()
    if long is not None:
        _run(END_LONG)
        scheduling.cancel(long)
    took = _one(
        "SELECT extract(epoch FROM max(ended_at) - min(started_at))::float8 FROM scheduling_scheduledfunction"
        " WHERE id BETWEEN %s AND %s", first, last - 1
    )  # fmt: skip
    return Seen(rate=count / took, waits_s=_waits(since=last), writes=(_writes() - before) / count)


def _schedule(count: int) -> int:
    """So many that are due at one instant, when this commits; the id of the first. They lie side by side."""
    from django.db import transaction  # noqa: PLC0415

    from postgres import clock  # noqa: PLC0415
    from scheduling.operations.functions import insert, new  # noqa: PLC0415

    moment = clock.now()
    with transaction.atomic():
        made = [
            insert([new(UPDATE, {"n": 1 + n}, run_at=moment) for n in range(at, min(at + CHUNK, count))])
            for at in range(0, count, CHUNK)
        ]
    return int(made[0][0].pk)


def _keep_scheduling(over: threading.Event) -> None:
    from django.db import connection  # noqa: PLC0415

    from scheduling import operations as scheduling  # noqa: PLC0415

    while not over.wait(PACE_S):
        scheduling.run_after(0, "tests.scheduling.integration.sample.nothing")
    connection.close()


def _waits(*, since: int) -> list[float]:
    """How long each of the fresh ones waited, once all have run."""
    while None in (waits := [row[0] for row in _run(WAITS, since)]):
        time.sleep(0.1)
    return waits


def _writes() -> float:
    """Inserts, updates and deletes of the queue so far."""
    time.sleep(scaled_s(2.0, least_s=1.1))  # sessions say what they did once a second
    return float(
        _one("SELECT n_tup_ins + n_tup_upd + n_tup_del FROM pg_stat_user_tables WHERE relname = 'scheduling_due'")
    )


def _prepare() -> None:
    from benchmarks.contenders import updates  # noqa: PLC0415

    updates.make_table()


def _empty() -> None:
    from benchmarks.contenders import updates  # noqa: PLC0415

    _run("TRUNCATE scheduling_due, scheduling_scheduledfunction, scheduling_cluster")
    for statement in updates.RESET:
        _run(statement)
    most = scaled(DUE, least=LEAST)
    _run("INSERT INTO bench_account (id) SELECT generate_series(%s::int, %s::int)", updates.MOST + 1, most)
    _run("VACUUM (ANALYZE) bench_account")


def _one(statement: str, *values: Any) -> float:
    return float(_run(statement, *values)[0][0] or 0)


def _run(statement: str, *values: Any) -> list[tuple[float, ...]]:
    from django.db import connection  # noqa: PLC0415

    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return list(cursor.fetchall()) if cursor.description else []


@contextmanager
def _cluster(name: str) -> Iterator[None]:
    from scheduling import operations as scheduling  # noqa: PLC0415

    environment = os.environ | {"JOBFARM_TEST_DATABASE": name, "SCHEDULING_GUARDS": "0"}
    command = [sys.executable, "manage.py", "cluster", "--mutations", "--workers", "2"]
    process = subprocess.Popen(command, cwd=ROOT, env=environment)
    try:
        while "mutations" in scheduling.health().missing_roles():
            time.sleep(0.1)
        time.sleep(scaled_s(1.0, least_s=0.2))
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


if __name__ == "__main__":
    results.show(main(parse(__doc__)))
