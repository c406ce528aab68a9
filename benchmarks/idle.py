"""Five thousand workers wait at one web process, by socket and by long poll; now and then there is one job.

.venv/bin/python -m benchmarks.idle [--quick]

What the process asks the database while nothing happens, how soon one new job is with one of them and how many it
wakes, and the memory of the process. The clients live in this process, the server in one of its own for each way.
Queries are read off pg_stat_activity, fifty times a second and from another database. Beside those for work there are
signs of life, as many with one worker as with thousands: the process's own each 5 s, LISTEN's connection is tried each
20 s, and who is connected by socket is noted each 30 s.
"""

import asyncio
import resource
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from statistics import median

import psycopg
from django.db import transaction

from benchmarks import own, results, waiting
from benchmarks.options import Options, parse
from benchmarks.results import Table
from benchmarks.waiting import Crowd
from benchmarks.web import memory_mb, server
from jobs import kinds, operations
from postgres import connections

WORKERS, WAKES, REST_S = 5_000, 20, 0.3
WINDOW_S, SETTLED_S, LOOK_S = 20.0, 2.0, 0.02
FOR_WORK = "/* jobs.claimable */"
SAME, NEVER = timedelta(seconds=1), datetime(1, 1, 1, tzinfo=UTC)
STATEMENTS = """
SELECT pid, query_start, query FROM pg_stat_activity
WHERE datname = %s AND backend_type = 'client backend' AND query_start >= %s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What one round found."""

    statements_in_5_s: tuple[float, float] | None
    wakes_s: list[float]
    woken: list[int]
    memory_mb: float


def main(options: Options) -> list[Table]:
    """Measure; a table for each way to wait."""
    workers = options.many(WORKERS, least=20)
    _allow_files(workers + 500)
    kinds.declare(operations.Kind(name="noop", queue="noop"))
    tables = []
    with own.database() as name:
        keys = _keys(workers)
        for way, wait in waiting.WAYS.items():
            table = Table(what=f"{workers:,} idle workers on one process, {way}", is_less_better=True)
            table.notes.append("The marks: one query for work in 5 s, 100 ms, one worker, 400 MB.")
            _add(
                table, _round(name, keys, wait, options), options
            )  # once: it takes a minute, and its numbers stand still
            tables.append(table)
    return tables


def _round(name: str, keys: list[str], wait: waiting.Way, options: Options) -> Found:
    with server("jobfarm.asgi:application", {"JOBFARM_TEST_DATABASE": name}) as port:
        return asyncio.run(_waited(name, keys, port, wait, options))


async def _waited(name: str, keys: list[str], port: int, wait: waiting.Way, options: Options) -> Found:
    crowd, count, window_s = Crowd(), options.many(WAKES, least=3), options.seconds(WINDOW_S, least_s=5)
    async with asyncio.TaskGroup() as group:
        tasks = []
        for number, key in enumerate(keys):
            tasks.append(group.create_task(wait.begin(crowd, port, key)))
            if number % 20 == 19:
                await asyncio.sleep(0.08)  # all at one instant is another benchmark
        await crowd.until_all_came(len(keys))
        until = crowd.began_at + wait.lasts_s - count * (REST_S + 0.1)  # before they ask anew, all is over
        statements = await asyncio.to_thread(_statements_in_5_s, name, until, window_s)
        wakes = [await _wake(crowd) for _ in range(count)]
        found = Found(
            statements_in_5_s=statements,
            wakes_s=[took_s for took_s, _ in wakes],
            woken=[woken for _, woken in wakes],
            memory_mb=memory_mb(port),
        )
        for task in tasks:
            task.cancel()
    return found


async def _wake(crowd: Crowd) -> tuple[float, int]:
    """One job: how long until a worker is told, and how many are told then and soon after."""
    crowd.calm_down()
    began = time.monotonic()
    await connections.run(_submit)
    took_s = await crowd.first_woken() - began
    await asyncio.sleep(REST_S)
    return took_s, len(crowd.woken_at)


def _submit() -> None:
    operations.submit("noop", {})


def _statements_in_5_s(name: str, until: float, window_s: float) -> tuple[float, float] | None:
    """Queries for work, and all, in 5 s, once the server has taken all of them in.

    Who polls asks anew after a minute, which is not nothing: the look is over by then. None: there was no time for one.
    """
    while len(_queries(name, SETTLED_S)) > 1:
        if time.monotonic() > until:
            return None
    fives = int(min(window_s, until - time.monotonic()) // 5)
    if fives < 1:
        return None
    # A little less: of what comes each 5 s it then holds no more than that, wherever the look begins.
    found = _queries(name, 5 * fives - 0.2)
    return sum(query.startswith(FOR_WORK) for query in found) / fives, len(found) / fives


def _queries(name: str, seconds: float) -> list[str]:
    """What the server's connections were asked during the next seconds; the pool's tries of them are no queries."""
    seen: dict[tuple[int, datetime], str] = {}
    with psycopg.connect(connections.conninfo(), dbname="postgres", autocommit=True) as looking:
        [(since,)] = looking.execute("SELECT clock_timestamp()")
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            rows = looking.execute(STATEMENTS, [name, since])
            seen |= {(pid, started): query for pid, started, query in rows if query}
            time.sleep(LOOK_S)
    return _once(seen)


def _once(seen: Mapping[tuple[int, datetime], str]) -> list[str]:
    """Each query once: one that is prepared begins twice, when it is parsed and when it is run."""
    found: list[str] = []
    before: dict[tuple[int, str], datetime] = {}
    for (pid, started), query in sorted(seen.items()):
        if started - before.get((pid, query), NEVER) > SAME:
            found.append(query)
        before[pid, query] = started
    return found


def _keys(count: int) -> list[str]:
    operations.sync()
    with transaction.atomic():
        return [operations.create_worker(f"idle{number}", queues=["noop"])[1] for number in range(count)]


def _allow_files(count: int) -> None:
    """For this process, and for the server that it starts. Raises ValueError beyond what the machine allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


def _add(table: Table, found: Found, options: Options) -> None:
    statements = dict(
        zip(("queries for work in 5 s", "all queries in 5 s"), found.statements_in_5_s or (), strict=False)
    )
    values = {
        **statements,
        "wake, median (ms)": median(found.wakes_s) * 1000,
        "wake, longest (ms)": max(found.wakes_s) * 1000,
        "workers woken by one job": max(found.woken),
        "memory (MB)": found.memory_mb,
    }
    for what, value in values.items():
        table.add(what, value)
    options.say(", ".join(f"{what} {value:.3g}" for what, value in values.items()))


if __name__ == "__main__":
    results.show(main(parse(__doc__)))
