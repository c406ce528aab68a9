"""Results of checks of the farm: findings, how bad they are, and what keeps a result for a moment, for all who ask."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Generic, TypeVar

T = TypeVar("T")


class Level(IntEnum):
    """How bad it is. `STARTING`: it would be bad later; the farm has only just been started."""

    FINE = 0
    STARTING = 1
    WARNING = 2
    ERROR = 3


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check: a sentence, what to do if it is not fine, and the name of the page on which that is done
    (`page_of` is what its address holds).

    /health/ready shows strangers the sentences of its checks and never a remedy: hosts are named in remedies alone.
    """

    sentence: str
    remedy: str = ""
    level: Level = Level.WARNING
    page: str = ""
    page_of: str = ""


Check = Callable[[], Iterator[Finding]]


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
