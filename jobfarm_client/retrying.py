"""When a call that went wrong is made again."""

import random
import time

from jobfarm_client.backoff import Backoff
from jobfarm_client.errors import FarmError, Refused, Unreachable

LONGEST_PAUSE_S = 10.0


class Patience:
    """Decides after each failure of one call how long to wait, or that it is enough: while the farm is away or has no
    room, a call is repeated for `retry_for_s` seconds; 0: never."""

    def __init__(self, retry_for_s: float, *, rng: random.Random) -> None:
        self._retry_for_s = retry_for_s
        self._backoff = Backoff(rng=rng, cap_s=LONGEST_PAUSE_S)
        self._until = time.monotonic() + retry_for_s

    def succeeded(self) -> None:
        self._backoff.succeeded()
        self._until = time.monotonic() + self._retry_for_s

    def pause_s(self, error: FarmError) -> float:
        """Seconds to wait before the same call is made again, as the farm has it in Retry-After or longer.

        Raises the error where the same call would go wrong again, or not well in time.
        """
        if not (isinstance(error, Unreachable) or (isinstance(error, Refused) and error.is_for_now)):
            raise error
        wanted_s = error.retry_after_s if isinstance(error, Refused) else 0.0
        pause_s = max(wanted_s, self._backoff.failed())
        if time.monotonic() + pause_s >= self._until:
            raise error
        return pause_s
