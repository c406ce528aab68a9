"""DBOS: a chain is a workflow of so many steps, a fan one that enqueues so many others and waits for all; without
edges, workflows on a queue. Its settings are its own, but that a queue is looked at ten times a second."""

import os
import threading

from dbos import DBOS, DBOSConfig
from job_counter import JobCounter
from verbs import main as run

FLOW = os.environ.get("BENCH_FLOW", "")
counter = JobCounter()
URL = os.environ["BENCH_URL"].replace("postgresql:", "postgresql+psycopg:")
DBOS(config=DBOSConfig(name="bench", system_database_url=URL))
QUEUE = "noop"


@DBOS.step()
def step():
    counter.job()


@DBOS.workflow()
def noop():
    counter.job()


@DBOS.workflow()
def chain(count):
    for _ in range(count):
        step()


@DBOS.workflow()
def fan(count):
    for handle in [DBOS.enqueue_workflow(QUEUE, noop) for _ in range(count - 1)]:
        handle.get_result()
    counter.job()


def bulk(count):
    DBOS.listen_queues([])  # whoever submits runs nothing
    DBOS.launch()
    if FLOW:
        DBOS.enqueue_workflow(QUEUE, {"chain": chain, "fan": fan}[FLOW], count)
    else:
        for _ in range(count):
            DBOS.enqueue_workflow(QUEUE, noop)


def work():
    DBOS.launch()
    threading.Event().wait()


def prepare():
    DBOS.launch()
    DBOS.register_queue(QUEUE, polling_interval_sec=0.1)


if __name__ == "__main__":
    run(prepare=prepare, bulk=bulk, one=lambda _: None, work=work)
