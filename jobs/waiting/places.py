"""How many requests of one caller wait in this process at once: each holds a connection, of which all have so many."""

from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Final

from jobs.errors import TooManyOpen

COME_AGAIN_S: Final = 5


class Places:
    """Those that are taken, by whose they are. Of one event loop."""

    def __init__(self) -> None:
        self._taken: Counter[Hashable] = Counter()

    @contextmanager
    def one(self, whose: Hashable, *, most: int, of: str) -> Iterator[None]:
        """Hold a place for the block. Raises TooManyOpen where `whose` has as many as they may; `of` says whose quota
        it is, in its words."""
        if self._taken[whose] >= most:
            raise TooManyOpen(of=of, quota=most, used=self._taken[whose], more=1, retry_after=COME_AGAIN_S)
        self._taken[whose] += 1
        try:
            yield
        finally:
            self._taken[whose] -= 1
            self._taken += Counter()  # without those who have none
