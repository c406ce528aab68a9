"""jobfarm's own client over the network: BENCH_TRANSPORT says by which way, BENCH_SLOTS how many plain handlers run."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from job_counter import JobCounter

import jobfarm_worker

SLOTS = int(os.environ.get("BENCH_SLOTS", "0"))
worker = jobfarm_worker.Worker(
    os.environ["BENCH_SITE"], os.environ["BENCH_KEY"], transport=os.environ["BENCH_TRANSPORT"], concurrency=SLOTS or 1
)
counter = JobCounter()


def plain(job: jobfarm_worker.Job) -> None:
    """What is run in a thread."""
    counter.job(job.payload.get("sent"))


async def noop(job: jobfarm_worker.Job) -> None:
    """What is run on the loop."""
    counter.job(job.payload.get("sent"))


worker.handler("noop")(plain if SLOTS else noop)

if __name__ == "__main__":
    worker.run_forever()
