"""Handlers as a user would write them, for the tests of the command line."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import multiprocessing
import time

from jobfarm_worker import Handlers, Job

handlers = Handlers()


@handlers.handler("wait")
async def wait(job: Job) -> str:
    """Take as long as the payload says."""
    job.progress(0.1, "Waiting")
    await asyncio.sleep(job.payload)
    return "waited"


@handlers.handler("talk")
def talk(job: Job) -> None:
    """Say something in the log."""
    logging.getLogger("own").warning("The model has %s layers", job.payload)


@handlers.handler("deaf")
def deaf(job: Job) -> None:
    """Hear no stop."""
    time.sleep(job.payload)


@handlers.handler("count")
def count(job: Job) -> list[int]:
    """Keep by which claim each step was done, of as many as the payload says."""
    steps = job.last_checkpoint or []
    while len(steps) < job.payload:
        job.pause(0.05)
        steps.append(job.fence)
        job.checkpoint(steps)
        if job.stopping:
            job.release()
    return list(steps)


@handlers.handler("stubborn")
async def stubborn(job: Job) -> None:
    """Hear no cancellation."""
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(job.payload)


@handlers.handler("fork")
def fork(job: Job) -> int | None:
    """How a forked process ended that was told to."""
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=[job.payload])
    child.start()
    child.terminate()
    child.join(job.payload / 2)
    code = child.exitcode
    child.kill()
    return code
