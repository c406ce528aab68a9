"""PgQueuer on asyncpg and uvloop, a hundred jobs a batch."""

import asyncio
import json
import os
from datetime import timedelta

import asyncpg
import uvloop
from job_counter import JobCounter
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries
from verbs import main as run

# How long a job takes; then the worker has its default settings.
JOB_S = float(os.environ.get("BENCH_JOB_S", "0"))


async def _driver() -> AsyncpgDriver:
    return AsyncpgDriver(await asyncpg.connect())  # libpq's variables say where


async def _prepare() -> None:
    await Queries(await _driver()).install()


async def _bulk(count: int) -> None:
    queries = Queries(await _driver())
    for begin in range(0, count, 1000):
        size = min(1000, count - begin)
        await queries.enqueue(["noop"] * size, [b"{}"] * size, [0] * size)


async def _work() -> None:
    counter = JobCounter()
    workers = PgQueuer(await _driver())

    @workers.entrypoint("noop")
    async def noop(job):
        counter.job(json.loads(job.payload or b"{}").get("sent"))
        if JOB_S:
            await asyncio.sleep(JOB_S)

    await workers.run(**({} if JOB_S else {"dequeue_timeout": timedelta(seconds=5), "batch_size": 100}))


class _One:
    runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    queries = None


async def _queries() -> Queries:
    return Queries(await _driver())


def one(sent_at):
    _One.queries = _One.queries or _One.runner.run(_queries())
    _One.runner.run(_One.queries.enqueue("noop", json.dumps({"sent": sent_at}).encode()))


if __name__ == "__main__":
    run(
        prepare=lambda: uvloop.run(_prepare()),
        bulk=lambda count: uvloop.run(_bulk(count)),
        one=one,
        work=lambda: uvloop.run(_work()),
    )
