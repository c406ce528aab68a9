"""Threads for plain handlers: each is kept for the next one, since to start a thread costs as much as a short job."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Any

Ended = tuple[Any, BaseException | None]
_Call = Callable[[], None]


class Threads:
    """As many daemon threads as calls run at once: they can block, but not keep the process alive. Of one event loop,
    on whose thread every method is called."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._idle = 0
        self._is_closed = False

    async def run(self, function: Callable[..., Any], *arguments: Any, name: str) -> Any:
        """What `function` returns or raises, in a thread that has this name meanwhile, and the caller's context."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[Ended] = loop.create_future()
        context = contextvars.copy_context()

        def settle(result: Ended) -> None:
            self._take_back()
            if not ended.done():
                ended.set_result(result)

        def call() -> None:
            threading.current_thread().name = name
            result = _attempted(context, function, arguments)
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits for it any more
                loop.call_soon_threadsafe(settle, result)

        self._start(call)
        result, error = await ended
        if error is not None:
            raise error
        return result

    def close(self) -> None:
        """Let threads end, those that run a call after it."""
        self._is_closed = True
        for _ in range(self._idle):
            self._calls.put(None)

    def _start(self, call: _Call) -> None:
        if self._idle:
            self._idle -= 1
        else:
            threading.Thread(target=self._serve, daemon=True).start()
        self._calls.put(call)

    def _take_back(self) -> None:
        self._idle += 1
        if self._is_closed:
            self._calls.put(None)

    def _serve(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
            del call  # it holds what the job returned


def _attempted(context: contextvars.Context, function: Callable[..., Any], arguments: Any) -> Ended:
    try:
        return context.run(function, *arguments), None
    except BaseException as error:  # whatever it is, it belongs to whoever waits
        return None, error
