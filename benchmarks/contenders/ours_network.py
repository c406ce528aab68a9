"""jobfarm's own client over the network: BENCH_TRANSPORT says by which way."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from rollup import Rollup

import jobfarm_worker

worker = jobfarm_worker.Worker(
    os.environ["BENCH_SITE"], os.environ["BENCH_KEY"], transport=os.environ["BENCH_TRANSPORT"], concurrency=1
)
rollup = Rollup()


@worker.handler("noop")
async def noop(job: jobfarm_worker.Job) -> None:
    """What is run."""
    rollup.job(job.payload.get("sent"))


if __name__ == "__main__":
    worker.run_forever()
