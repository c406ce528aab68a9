"""Handlers as a user would write them, for the tests of the command line."""

from __future__ import annotations

import asyncio
import time

from jobfarm_worker import Handlers, Job

handlers = Handlers()


@handlers.handler("wait")
async def wait(job: Job) -> str:
    """Take as long as the payload says."""
    job.progress(0.1, "Waiting")
    await asyncio.sleep(job.payload)
    return "waited"


@handlers.handler("deaf")
def deaf(job: Job) -> None:
    """Hear no stop."""
    time.sleep(job.payload)
