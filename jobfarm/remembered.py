"""What this process has read a moment ago, for all who ask."""

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Remembered(Generic[T]):
    """A result that this process keeps for some seconds, for all callers."""

    def __init__(self, compute: Callable[[], T], *, for_s: float) -> None:
        self._compute, self._for_s = compute, for_s
        self._lock = threading.Lock()
        self._until = 0.0
        self._answer: T | None = None

    def __call__(self) -> T:
        with self._lock:
            if self._answer is None or time.monotonic() >= self._until:
                self._answer = self._compute()
                self._until = time.monotonic() + self._for_s
            return self._answer

    def forget(self) -> None:
        self._until = 0.0
