"""Threads that stay, each with a connection of its own, and start every round at the same moment."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from postgres import connections

T = TypeVar("T")


class Crew:
    """`size` threads; as a block, ended at its end."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._barrier = threading.Barrier(size)

    def __enter__(self) -> "Crew":
        self._pool = ThreadPoolExecutor(self.size)
        return self

    def __exit__(self, *_: object) -> None:
        closing = threading.Barrier(self.size)
        for _n in range(self.size):
            self._pool.submit(self._leave, closing)
        self._pool.shutdown()

    def all(self, work: Callable[[int], T]) -> list[T]:
        """What `work(n)` returns in each thread n, all released by one barrier. An exception is raised
        here."""
        futures = [self._pool.submit(self._at_once, work, n) for n in range(self.size)]
        return [future.result(timeout=60) for future in futures]

    def _at_once(self, work: Callable[[int], T], n: int) -> T:
        self._barrier.wait(timeout=30)
        return work(n)

    def _leave(self, closing: threading.Barrier) -> Any:
        with connections.released():  # each thread gives back the connection that it kept
            closing.wait(timeout=30)
