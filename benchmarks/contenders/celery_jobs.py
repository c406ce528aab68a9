"""Celery with Redis, results off, one process a worker."""

import os
import time

from celery import Celery
from job_counter import JobCounter
from verbs import main as run

# How long a job takes; then the worker has its default settings.
JOB_S = float(os.environ.get("BENCH_JOB_S", "0"))
app = Celery("bench", broker=os.environ["BENCH_REDIS"])
app.conf.update(
    task_ignore_result=True, broker_connection_retry_on_startup=True,
    **({} if JOB_S else {"worker_prefetch_multiplier": 100}),
)  # fmt: skip
counter = JobCounter()


@app.task(name="noop", ignore_result=True)
def noop(sent=None):
    counter.job(sent)
    if JOB_S:
        time.sleep(JOB_S)


def bulk(count):
    with app.producer_pool.acquire(block=True) as producer:
        for _ in range(count):
            noop.apply_async(producer=producer)


def one(sent_at):
    noop.delay(sent_at)


def work():
    name = f"w{os.environ.get('BENCH_WORKER', '0')}@bench"
    tuned = [] if JOB_S else ["--pool=solo", "--without-gossip", "--without-mingle"]
    app.worker_main(["worker", *tuned, "--loglevel=ERROR", "-n", name])


if __name__ == "__main__":
    run(prepare=lambda: None, bulk=bulk, one=one, work=work)
