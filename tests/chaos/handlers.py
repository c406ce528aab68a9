"""What the workers of the chaos run: it leaves a line outside the farm for each run it begins.

This module is imported by workers. CHAOS_CLOCK_OFF_S sets the clock of their machine wrong, as far as Python tells it.
"""

import os
import time
import uuid
from datetime import UTC, datetime
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
STAGES = ("children", "signal", "signal by key", "moment")
CHILDREN_FROM = 10_000_000  # what their numbers are beyond those of their parents


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


def wait(job: Job) -> Any:
    """Wait for two children, a signal, one by a key and a moment; a checkpoint says how far it is. Then work."""
    stage, n = job.last_checkpoint["stage"] if job.last_checkpoint else 0, job.payload["n"]
    if stage == len(STAGES):
        return work(job)
    _note(f"{job.id} {job.fence} {uuid.uuid4().hex}")
    children = [_child(job, place) for place in range(2)] if stage == 0 else None
    job.checkpoint({"stage": stage + 1, "fence": job.fence})
    match STAGES[stage]:
        case "children":
            return job.wait_for(children)
        case "signal":
            return job.wait_for(signal="go", timeout=job.payload["timeout"])
        case "signal by key":
            return job.wait_for(signal="event", signal_key=f"chaos-{n}", timeout=job.payload["timeout"])
    return job.sleep(datetime.fromtimestamp(_true_time() + 0.5, tz=UTC))


def _child(job: Job, place: int) -> Any:
    n = job.payload["n"] + CHILDREN_FROM * (place + 1)
    return job.submit("again", {"n": n, "name": f"job-{n}-of-the-chaos", "seconds": 0.1, "file": False})


def _note(line: str) -> None:
    with Path(os.environ["CHAOS_RUNS"]).open("ab", buffering=0) as ledger:
        ledger.write(f"{line}\n".encode())
