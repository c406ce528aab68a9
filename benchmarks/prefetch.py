"""Jobs of 1 ms and of 50 ms with our worker, over HTTP and the socket: one call a job, and with prefetch.

.venv/bin/python -m benchmarks.prefetch [--quick] [--rounds 3]

The worker has default settings but for `prefetch=0` where that is switched off. All take turns, a slice each in every
round. A job of 1 ms is an async handler that sleeps so long: one slot runs some 800 of them a second at most.
"""

import asyncio
import itertools
import os
import time

from benchmarks import own, results
from benchmarks.options import Options, parse
from benchmarks.results import Table
from benchmarks.web import server
from jobfarm_worker import Job, Worker
from jobfarm_worker.farm import Transport
from jobfarm_worker.prefetching import MOST_READY
from jobs import kinds, operations
from jobs.models import Job as Row

SLICE_S = 5.0
MARKS = {0.001: 8.0, 0.05: 1.0}
TRANSPORTS: tuple[Transport, ...] = ("http", "ws")
CALL, AHEAD = "one call a job", "prefetch"


def main(options: Options) -> list[Table]:
    """Measure; a table for each length of job and transport, in jobs a second."""
    kinds.declare(operations.Kind(name="noop", queue="noop"))
    pairs = list(itertools.product(MARKS, TRANSPORTS))
    tables = {pair: _table(*pair) for pair in pairs}
    with own.database() as name:
        operations.sync()
        _, key = operations.create_worker("bench", queues=["noop"])
        with server("jobfarm.asgi:application", {"JOBFARM_TEST_DATABASE": name}) as port:
            for number in range(-1, options.rounds):  # the first warms the server up
                for (seconds, transport), table in tables.items():
                    _refill(options)
                    for who, most in ((CALL, 0), (AHEAD, MOST_READY)):
                        worker = Worker(f"http://127.0.0.1:{port}", key, transport=transport, prefetch=most)
                        rate = asyncio.run(_rate(worker, seconds, SLICE_S / (4 if options.quick else 1)))
                        if number >= 0:
                            table.add(who, rate)
                            options.say(f"{seconds * 1000:g} ms, {transport}, {who}: {rate:,.0f}/s")
    return list(tables.values())


def _table(seconds: float, transport: str) -> Table:
    what = f"One worker, jobs of {seconds * 1000:g} ms, {transport} (jobs/s)"
    mark = MARKS[seconds] if transport == "http" else None
    return Table(what=what, floor=CALL, ours=AHEAD, mark=mark)


def _refill(options: Options) -> None:
    """More than can be done in a slice; what is left over waits for the next."""
    missing = (3_000 if options.quick else 8_000) - Row.objects.filter(queue="noop", status="pending").count()
    for begin in range(0, max(0, missing), 1000):
        operations.submit_many(
            [operations.NewJob(kind="noop", payload={"n": begin + n}) for n in range(1000)]
        )


async def _rate(worker: Worker, seconds: float, slice_s: float) -> float:
    """Jobs a second that the farm has the results of, from the first on."""

    @worker.handler("noop")
    async def noop(_job: Job) -> None:
        await asyncio.sleep(seconds)

    working = asyncio.create_task(worker.run())
    while not worker.board.endings["success"]:  # noqa: ASYNC110 (the board has no event)
        await asyncio.sleep(0.001)
    began_s, before = time.monotonic(), worker.board.endings["success"]
    await asyncio.sleep(slice_s)
    done, took_s = worker.board.endings["success"] - before, time.monotonic() - began_s
    worker.stop()
    await working
    return done / took_s


if __name__ == "__main__":
    os.environ.setdefault("LOG_LEVEL", "ERROR")
    results.show(main(parse(__doc__)))
