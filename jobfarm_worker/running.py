"""Handlers: which function runs which kind of job, and how a run of one ended."""

import asyncio
import functools
import inspect
import os
import sys
import traceback
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from jobfarm_worker.errors import BadOption, Failed
from jobfarm_worker.job import Job
from jobfarm_worker.outbox import Outbox
from jobfarm_worker.protocol import JobResult, Wait, size_of_json, storable

LONGEST_ERROR = 20_000  # characters; the end of a traceback matters most
Handler = Callable[..., Any]
"""Takes the Job, returns the result (JSON); an async function runs on the loop, a plain one in a thread.

One that serves models has an attribute `models`: an async function which returns their names. They are announced to the
farm, again and again, and the farm gives this worker the jobs for them.
"""

HandlerT = TypeVar("HandlerT", bound=Handler)


class Handlers(dict[str, Handler]):
    """Handlers by kind, to be included in a worker or named on the command line (`module:handlers`)."""

    def handler(self, kind: str) -> Callable[[HandlerT], HandlerT]:
        """Decorator: this function runs jobs of this kind; raises BadOption if the kind has one already."""

        def register(function: HandlerT) -> HandlerT:
            self.add(kind=kind, function=function)
            return function

        return register

    def add(self, *, kind: str, function: Handler) -> None:
        """Let `function` run jobs of this kind; raises BadOption if the kind is taken."""
        if not callable(function):
            raise BadOption(f"The handler of {kind!r} is not a function.")
        if kind in self:
            raise BadOption(f"Two handlers were given for the kind {kind!r}.")
        self[kind] = function

    def include(self, other: "Handlers") -> None:
        """Take over all handlers of another set; raises BadOption for a kind that both have."""
        for kind, function in other.items():
            self.add(kind=kind, function=function)

    @property
    def serve_models(self) -> bool:
        return any(hasattr(function, "models") for function in self.values())

    async def models(self) -> list[str]:
        """The models that the handlers serve now, each once."""
        return await self._named("models")

    async def loaded(self) -> list[str]:
        """The models that are in memory now, each once, of the handlers that can tell."""
        return await self._named("loaded")

    async def _named(self, source: str) -> list[str]:
        sources = [getattr(function, source) for function in self.values() if hasattr(function, source)]
        return list(dict.fromkeys([name for names in sources for name in await names()]))

    async def cache_used(self) -> float | None:
        """Which share of the cache of prompts is in use, of the fullest server, where one can tell."""
        shares = [await function.cache_used() for function in self.values() if hasattr(function, "cache_used")]
        return max((share for share in shares if share is not None), default=None)


def is_async(function: Handler) -> bool:
    """Whether it is an async function, also behind a partial or as `__call__`."""
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def perform(function: Handler, job: Job) -> JobResult:
    """Run a plain handler to its end: its value, or how it failed. One that calls sys.exit() ends its attempt alone."""
    try:
        if job.is_in_parts:
            job.payload = job.whole_payload()
        with _in_this_process():
            return _success(function(job))
    except BaseException as error:
        return _failed(error)


async def perform_async(
    function: Handler, job: Job, outbox: Outbox, *, run_by: asyncio.Task[None] | None = None
) -> JobResult:
    """Run an async handler to its end; canceled only once its job is stopped. Where `run_by`, the worker's own task, is
    canceled at the same moment, as all tasks of a loop that ends, its job is given back."""
    try:
        if job.is_in_parts:
            job.payload = await job.whole_payload()
        with _in_this_process():
            return _success(await Throttled(function(job), outbox))
    except asyncio.CancelledError as error:
        if outbox.stopped:
            raise
        if run_by is not None and run_by.cancelling():
            outbox.is_released = True
        return _failed(error)  # its own, or of what it awaited
    except (GeneratorExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        return _failed(error)


@contextmanager
def _in_this_process() -> Iterator[None]:
    """A process that a handler forked ends here, with the status of its sys.exit(): the worker goes on in one alone."""
    process = os.getpid()
    try:
        yield
    finally:
        if os.getpid() != process:
            status = getattr(sys.exc_info()[1], "code", sys.exc_info()[1])
            os._exit(status if isinstance(status, int) else status is not None)


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
