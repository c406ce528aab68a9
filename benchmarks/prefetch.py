"""Jobs of 1 ms and of 50 ms with our worker, over HTTP and the socket: one call a job, and with prefetch.

.venv/bin/python -m benchmarks.prefetch [--quick] [--rounds 3] [--only PgQueuer,pg-boss] [--without-peers]

The worker has default settings but for `prefetch=0` where that is switched off. All take turns, a slice each in every
round. A job of 1 ms is an async handler that sleeps so long: one slot runs some 800 of them a second at most.
Then the peers: one process of each one's own worker, beside the database, with its default settings; how many jobs it
runs at once is part of these.
"""

import asyncio
import itertools
import os
import time

from benchmarks import own, results
from benchmarks.arena import Place, Workers, places
from benchmarks.options import Options, parse
from benchmarks.peers import install
from benchmarks.results import Table
from benchmarks.web import server
from jobfarm_worker import Job, Worker
from jobfarm_worker.farm import Transport
from jobfarm_worker.options import MOST_READY
from jobs import kinds, operations
from jobs.models import Job as Row

SLICE_S = 5.0
MARKS = {0.001: 8.0, 0.05: 1.0}
TRANSPORTS: tuple[Transport, ...] = ("http", "ws")
PEERS = ("PgQueuer", "graphile-worker", "pg-boss", "awa", "Procrastinate", "Celery")
PEERS_RUN = "One worker of each peer with its default settings, beside the database, jobs of {ms:g} ms (jobs/s)"
PEER_JOBS = {0.001: 2_000, 0.05: 500}
PEER_WITHIN_S = 60.0
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
                        rate = asyncio.run(_rate(worker, seconds, options.seconds(SLICE_S)))
                        if number >= 0:
                            table.add(who, rate)
                            options.say(f"{seconds * 1000:g} ms, {transport}, {who}: {rate:,.0f}/s")
    return [*tables.values(), *_of_peers(options)]


def _of_peers(options: Options) -> list[Table]:
    peers = [peer for peer in options.peers if peer.name in PEERS]
    for peer in peers:
        install(peer)
    tables = {seconds: Table(what=PEERS_RUN.format(ms=seconds * 1000)) for seconds in MARKS}
    with places(peers) as prepared:
        for _ in range(options.rounds if peers else 0):
            for place, (seconds, table) in itertools.product(prepared.values(), tables.items()):
                _add(place, seconds, table, options)
    return [table for table in tables.values() if table.values]


def _add(place: Place, seconds: float, table: Table, options: Options) -> None:
    """A worker has so many jobs to drain; one that needs too long for them counts with what it had done."""
    jobs = options.many(PEER_JOBS[seconds], least=50)
    place.run("bulk", jobs)
    with Workers(place, how_many=1, more={"BENCH_JOB_S": str(seconds)}) as workers:
        try:
            counted = workers.drained(jobs, within_s=PEER_WITHIN_S)
        except TimeoutError as late:
            table.notes.append(f"{late} within {PEER_WITHIN_S:g} s.")
            return
    took_s = max(one["last"] for one in counted) - min(one["first"] for one in counted)
    table.add(place.contender.name, jobs / took_s)
    options.say(f"{seconds * 1000:g} ms, {place.contender.name}: {jobs / took_s:,.0f}/s")


def _table(seconds: float, transport: str) -> Table:
    what = f"One worker, jobs of {seconds * 1000:g} ms, {transport} (jobs/s)"
    mark = MARKS[seconds] if transport == "http" else None
    return Table(what=what, floor=CALL, ours=AHEAD, mark=mark)


def _refill(options: Options) -> None:
    """More than can be done in a slice; what is left over waits for the next."""
    missing = options.many(8_000, least=3_000) - Row.objects.filter(queue="noop", status="pending").count()
    for begin in range(0, max(0, missing), 1000):
        operations.submit_many([operations.NewJob(kind="noop", payload={"n": begin + n}) for n in range(1000)])


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
