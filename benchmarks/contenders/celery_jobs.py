"""Celery with Redis, results off, one process a worker."""

import os

from celery import Celery
from job_counter import JobCounter
from verbs import main as run

app = Celery("bench", broker=os.environ["BENCH_REDIS"])
app.conf.update(
    task_ignore_result=True, worker_prefetch_multiplier=100, broker_connection_retry_on_startup=True
)
counter = JobCounter()


@app.task(name="noop", ignore_result=True)
def noop(sent=None):
    counter.job(sent)


def bulk(count):
    with app.producer_pool.acquire(block=True) as producer:
        for _ in range(count):
            noop.apply_async(producer=producer)


def one(sent_at):
    noop.delay(sent_at)


def work():
    name = f"w{os.environ.get('BENCH_WORKER', '0')}@bench"
    app.worker_main(
        ["worker", "--pool=solo", "--loglevel=ERROR", "--without-gossip", "--without-mingle", "-n", name]
    )


if __name__ == "__main__":
    run(prepare=lambda: None, bulk=bulk, one=one, work=work)
