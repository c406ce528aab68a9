"""The tasks of a running worker, which end with it, and the threads for plain handlers."""

import asyncio
import contextlib
import contextvars
import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

_Call = tuple[Callable[[], Any], Callable[[Any], None], str]


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
        """Cancel them all, and wait for so long at most until they have ended; for others no loop waits."""
        for task in (tasks := set(self._running)):
            task.cancel()
        if tasks:
            _, deaf = await asyncio.wait(tasks, timeout=within_s)
            for task in deaf:
                asyncio.tasks._unregister_task(task)  # noqa: SLF001 (documented: "Extending")

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:
            self._on_error(error)


class DaemonThreads(ThreadPoolExecutor):
    """For `asyncio.to_thread`, whose threads otherwise keep a process alive that has given its jobs back. As many calls
    run at once as in a loop's own, and the others wait without a thread."""

    def __init__(self) -> None:
        super().__init__()
        self._started, self._most = 0, min(32, (os.cpu_count() or 1) + 4)
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if self._started < self._most:
            threading.Thread(target=self._serve, daemon=True).start()
            self._started += 1
        future: Future[Any] = Future()
        self._calls.put((future, partial(fn, *args, **kwargs)))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002 (waits for none)
        for _ in range(self._started):
            self._calls.put(None)

    def _serve(self) -> None:
        while (entry := self._calls.get()) is not None:
            future, call = entry
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except BaseException as error:
                    future.set_exception(error)
            del future, call, entry  # they hold what it returned


class Threads:
    """As many daemon threads as calls run at once: they can block, but not keep the process alive. Of one event loop,
    on whose thread every method is called.

    To wake the loop costs more than a short call: what ends until it looks is taken in together.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._ended: deque[tuple[Callable[[Any], None], Any]] = deque()
        self._is_woken = False
        self._idle = 0
        self._is_closed = False

    def start(self, call: Callable[[], Any], on_end: Callable[[Any], None], *, name: str) -> None:
        """Run `call`, which does not raise, in a thread that has this name meanwhile; `on_end` gets what it returns, on
        the loop."""
        if self._idle:
            self._idle -= 1
        else:
            threading.Thread(target=self._serve, daemon=True).start()
        self._calls.put((call, on_end, name))

    def close(self) -> None:
        """Let threads end, those that run a call after it."""
        self._is_closed = True
        for _ in range(self._idle):
            self._calls.put(None)

    def _serve(self) -> None:
        thread = threading.current_thread()
        while (entry := self._calls.get()) is not None:
            call, on_end, thread.name = entry
            self._ended.append((on_end, call()))
            del call, on_end, entry  # they hold what the job returned
            if not self._is_woken:
                self._is_woken = True
                with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits for it any more
                    self._loop.call_soon_threadsafe(self._take_in)

    def _take_in(self) -> None:
        self._is_woken = False  # before looking: what ends from here on wakes it again
        while self._ended:
            on_end, value = self._ended.popleft()
            self._idle += 1
            if self._is_closed:
                self._calls.put(None)
            on_end(value)
