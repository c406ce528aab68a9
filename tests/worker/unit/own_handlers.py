"""Handlers as a user would write them, for the tests of the command line."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import multiprocessing
import os
import signal
import sys
import time
from typing import Any

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


@handlers.handler("resign")
async def resign(_: Job) -> None:
    """Stop the worker while this is what its loop runs."""
    os.kill(os.getpid(), signal.SIGTERM)


@handlers.handler("deaf")
def deaf(job: Job) -> None:
    """Hear no stop."""
    time.sleep(job.payload)


@handlers.handler("deaf thread")
async def deaf_thread(job: Job) -> None:
    """Hear no stop, in a thread of the loop's own."""
    await asyncio.to_thread(time.sleep, job.payload)


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
    """How a forked process ended that was asked to."""
    forking = multiprocessing.get_context("fork")
    there, here = forking.Pipe()
    child = forking.Process(target=_sleep, args=[here, job.payload])
    child.start()
    there.recv()
    child.terminate()
    child.join(job.payload / 2)
    code = child.exitcode
    child.kill()
    return code


@handlers.handler("go on twice")
def go_on_twice(_: Job) -> int:
    """How a forked process ended that calls sys.exit() here."""
    if (child := os.fork()) == 0:
        sys.exit(3)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@handlers.handler("return twice")
async def return_twice(_: Job) -> int:
    """How a forked process ended that comes back from here."""
    if (child := os.fork()) == 0:
        return 7
    process = await asyncio.to_thread(os.waitid, os.P_PID, child, os.WEXITED)
    return -1 if process is None else process.si_status


def _sleep(here: Any, seconds: float) -> None:
    here.send("It sleeps.")
    time.sleep(seconds)
