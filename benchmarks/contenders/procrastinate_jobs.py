"""Procrastinate: ten jobs at once in each worker, woken by NOTIFY."""

import asyncio
import os

import procrastinate
from job_counter import JobCounter
from verbs import main as run

CONNECT = os.environ["BENCH_CONNINFO"]
# How long a job takes; then the worker has its default settings.
JOB_S = float(os.environ.get("BENCH_JOB_S", "0"))
counter = JobCounter()


def _app(connector):
    app = procrastinate.App(connector=connector)

    @app.task(name="noop", pass_context=False)
    async def noop(sent=None):
        counter.job(sent)
        if JOB_S:
            await asyncio.sleep(JOB_S)

    return app, noop


def _sync():
    app, task = _app(procrastinate.SyncPsycopgConnector(conninfo=CONNECT))
    app.open()
    return app, task


class _One:
    task = None


def one(sent_at):
    if _One.task is None:
        _One.app, _One.task = _sync()
    _One.task.defer(sent=sent_at)


def bulk(count):
    _, task = _sync()
    for begin in range(0, count, 1000):
        task.batch_defer(*({"sent": None} for _ in range(min(1000, count - begin))))


async def _work():
    app, _ = _app(procrastinate.PsycopgConnector(conninfo=CONNECT))
    async with app.open_async():
        await app.run_worker_async(**({} if JOB_S else {"concurrency": 10}), install_signal_handlers=False)


def prepare():
    _sync()[0].schema_manager.apply_schema()


if __name__ == "__main__":
    run(prepare=prepare, bulk=bulk, one=one, work=lambda: asyncio.run(_work()))
