"""What the workers of the chaos run: it leaves a line outside the farm for each run it begins.

This module is imported by workers. CHAOS_CLOCK_OFF_S sets the clock of their machine wrong, as far as Python tells it.
"""

import os
import time
import uuid
from pathlib import Path
from typing import Any

from jobfarm_worker.job import Job
from tests.histories import worker_calls

if "CHAOS_CALLS" in os.environ:
    worker_calls.record(Path(os.environ["CHAOS_CALLS"]), worker=os.environ["CHAOS_WORKER"])
_OFF_S = float(os.environ.get("CHAOS_CLOCK_OFF_S", "0"))
_true_time = time.time
if _OFF_S:
    time.time = lambda: _true_time() + _OFF_S
CONTENT = b"made by run "


def work(job: Job) -> dict[str, Any]:
    """Note the run, be busy for a while, report, write, perhaps make a file; the result names the run."""
    run = uuid.uuid4().hex
    _note(f"{job.id} {job.fence} {run}")
    for step in range(3):
        job.progress((step + 1) / 3, f"step {step + 1}")
        job.write(f"{step}.")
        job.pause(job.payload["seconds"] / 3)
    if job.payload["file"]:
        job.file("made.txt", CONTENT + run.encode())
    return {"n": job.payload["n"], "run": run}


def _note(line: str) -> None:
    with Path(os.environ["CHAOS_RUNS"]).open("ab", buffering=0) as ledger:
        ledger.write(f"{line}\n".encode())
