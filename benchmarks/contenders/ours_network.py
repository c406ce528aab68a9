"""jobfarm's own client over the network: BENCH_TRANSPORT says by which way."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from job_counter import JobCounter

import jobfarm_worker

worker = jobfarm_worker.Worker(
    os.environ["BENCH_SITE"], os.environ["BENCH_KEY"], transport=os.environ["BENCH_TRANSPORT"], concurrency=1
)
counter = JobCounter()


@worker.handler("noop")
async def noop(job: jobfarm_worker.Job) -> None:
    """What is run."""
    counter.job(job.payload.get("sent"))


if __name__ == "__main__":
    worker.run_forever()
