"""Threads for plain handlers: each is kept for the next one, since to start a thread costs as much as a short job."""

import asyncio
import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

_Call = tuple[Callable[[], Any], Callable[[Any], None], str]


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
