"""Run one handler and return how it ended."""

import asyncio
import functools
import traceback
from collections.abc import Awaitable, Callable, Generator
from contextlib import suppress
from typing import Any

from jobfarm_worker.errors import Failed
from jobfarm_worker.job import Job
from jobfarm_worker.outbox import Outbox
from jobfarm_worker.protocol import JobResult, Wait, size_of_json, storable
from jobfarm_worker.registry import Handler

LONGEST_ERROR = 20_000  # characters; the end of a traceback matters most


def perform(function: Handler, job: Job) -> JobResult:
    """Run a plain handler to its end: its value, or how it failed. One that calls sys.exit() ends its attempt alone."""
    try:
        if job.is_in_parts:
            job.payload = job.whole_payload()
        return _success(function(job))
    except BaseException as error:
        return _failed(error)


async def perform_async(function: Handler, job: Job, outbox: Outbox) -> JobResult:
    """Run an async handler to its end; canceled only from outside."""
    try:
        if job.is_in_parts:
            job.payload = await job.whole_payload()
        return _success(await Throttled(function(job), outbox))
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return _failed(error)
    except (GeneratorExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        return _failed(error)


def failure(error: str, *, retryable: bool = True) -> JobResult:
    """A failed attempt with what people and the log shall read, cut to its end when it is very long."""
    error = storable(error)[-LONGEST_ERROR:]
    return JobResult(success=False, error=error, retryable=retryable, size=len(error))


def _success(result: Any) -> JobResult:
    try:
        if isinstance(result, Wait):
            return JobResult(success=False, wait=result, size=size_of_json(result.fields))
        return JobResult(success=True, result=result, size=size_of_json(result))
    except ValueError as error:
        return failure(str(error))


def _failed(error: BaseException) -> JobResult:
    text = "".join(traceback.format_exception(error))
    if not isinstance(error, Failed):
        return failure(text)
    with suppress(Exception):  # its class is an application's, and may have no text
        text = str(error)
    return failure(text, retryable=error.retryable)


class Throttled:
    """A coroutine that goes on, wherever it has awaited something, only once there is room for what it writes."""

    def __init__(self, work: Awaitable[Any], outbox: Outbox) -> None:
        self._work: Any = work.__await__()  # of a coroutine: with `send` and `throw`
        self._outbox = outbox

    def __await__(self) -> Generator[Any, Any, Any]:
        """Its result. What is thrown into it meanwhile, a cancellation above all, it gets where it waits."""
        go_on: Callable[[], Any] = functools.partial(self._work.send, None)
        while True:
            try:
                awaited = go_on()
            except StopIteration as end:
                return end.value
            try:
                value = yield awaited
                if self._outbox.is_full:
                    yield from self._outbox.until_room().__await__()
                go_on = functools.partial(self._work.send, value)
            except BaseException as error:
                go_on = functools.partial(self._work.throw, error)
