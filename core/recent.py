"""What a process remembers for some seconds of rows that it read, for statements that look whether they are the same
still (docs/adr/0115)."""

import time
from typing import Generic, TypeVar

T = TypeVar("T")


class Outdated(Exception):
    """What was remembered of a row is not so any more."""


class Recent(Generic[T]):
    """Values by key, each for `for_s` seconds; at most `most` of them: with one more, all are forgotten."""

    def __init__(self, *, for_s: float, most: int = 10_000) -> None:
        self.for_s, self.most = for_s, most
        self._kept: dict[str, tuple[T, float]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: str) -> T | None:
        """What was kept under this key, if that is not too long ago."""
        kept = self._kept.get(key)
        return kept[0] if kept is not None and time.monotonic() <= kept[1] else None

    def keep(self, key: str, value: T) -> None:
        if len(self._kept) >= self.most:
            self._kept.clear()
        self._kept[key] = value, time.monotonic() + self.for_s

    def clear(self) -> None:
        self._kept.clear()
