"""The tasks of a running worker: they end with it, and an error of one of them ends it."""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import Any


async def first(*awaitables: Any, timeout_s: float | None = None) -> None:
    """Wait until one of them is done or the time is up. Coroutines are canceled then, futures of others left alone."""
    futures = {asyncio.ensure_future(each) for each in awaitables}
    own = futures - set(awaitables)
    try:
        await asyncio.wait(futures, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in own:
            task.cancel()
        await asyncio.gather(*own, return_exceptions=True)


class Tasks:
    """Keeps each task until it is done; an event loop alone would forget it."""

    def __init__(self, on_error: Callable[[Exception], None]) -> None:
        self._on_error = on_error
        self._running: set[asyncio.Task[None]] = set()

    def start(
        self, work: Coroutine[Any, Any, None], *, context: contextvars.Context | None = None
    ) -> asyncio.Task[None]:
        task = asyncio.create_task(self._guarded(work), context=context)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def cancel(self, *, within_s: float) -> None:
        """Cancel them all, and wait for so long at most until they have ended."""
        for task in (tasks := set(self._running)):
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=within_s)

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:
            self._on_error(error)
