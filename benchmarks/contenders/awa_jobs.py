"""awa (awa-pg): fifty handlers at once in each worker."""

import asyncio
import os
from dataclasses import dataclass

import awa
from job_counter import JobCounter
from verbs import main as run

# How long a job takes; then it looks as often as it does by itself.
JOB_S = float(os.environ.get("BENCH_JOB_S", "0"))
URL = os.environ["BENCH_URL"]


@dataclass
class Noop:
    """What is run."""

    sent: float


def _prepare():
    awa.Client(URL).migrate()


def bulk(count):
    client = awa.Client(URL)
    for begin in range(0, count, 1000):
        client.insert_many_copy([Noop(sent=0.0) for _ in range(min(1000, count - begin))])


class _One:
    client = None


def one(sent_at):
    _One.client = _One.client or awa.Client(URL)
    _One.client.insert(Noop(sent=sent_at or 0.0))


async def _work():
    counter = JobCounter()
    client = awa.AsyncClient(URL)

    @client.task(Noop, queue="default")
    async def noop(job):
        counter.job(job.args.sent)
        if JOB_S:
            await asyncio.sleep(JOB_S)

    await client.start([("default", 50)], **({} if JOB_S else {"poll_interval_ms": 50}))
    await asyncio.Event().wait()


if __name__ == "__main__":
    run(prepare=_prepare, bulk=bulk, one=one, work=lambda: asyncio.run(_work()))
