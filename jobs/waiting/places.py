"""How many requests of one caller wait in this process at once: each holds a connection, of which all have so many."""

import json
from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from jobs.errors import TooManyOpen
from jobs.waiting.upstream import Answer

COME_AGAIN_S = 5


class Places:
    """Those that are taken, by whose they are. Of one event loop."""

    def __init__(self) -> None:
        self._taken: Counter[Hashable] = Counter()

    @contextmanager
    def one(self, whose: Hashable, *, most: int, of: str) -> Iterator[Answer | None]:
        """Hold a place for the block, which is given None; or the refusal, where `whose` has as many as they may.

        `of` says whose quota it is, in the words of `TooManyOpen`.
        """
        if self._taken[whose] >= most:
            yield _refusal(TooManyOpen(of=of, quota=most, used=self._taken[whose], more=1, retry_after=COME_AGAIN_S))
            return
        self._taken[whose] += 1
        try:
            yield None
        finally:
            self._taken[whose] -= 1
            self._taken += Counter()  # without those who have none


def _refusal(error: TooManyOpen) -> Answer:
    headers = {"Content-Type": "application/json", **error.headers}
    return Answer(
        status=error.http_status,
        headers=tuple((name.lower().encode(), value.encode()) for name, value in headers.items()),
        body=json.dumps(error.body).encode(),
    )
