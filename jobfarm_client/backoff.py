"""How long to wait before trying again, and when it is enough."""

import math
import random
import time

from jobfarm_client.errors import FarmError, Refused, Unreachable

LONGEST_PAUSE_S = 10.0  # between the tries of one call of a client


def delay_s(failures: int, *, rng: random.Random, base_s: float = 0.5, cap_s: float = 30.0) -> float:
    """Seconds to wait after this many failures in a row (1 or more): exponential, with full jitter.

    Full jitter (anything between 0 and the ceiling) spreads the workers of a farm that came back
    most evenly; the ceiling doubles from `base_s` and never passes `cap_s`.
    """
    doublings = min(max(failures, 1) - 1, 30)  # 2.0 ** 1100 would overflow after a long night offline
    return rng.uniform(0.0, min(cap_s, base_s * 2.0**doublings))


class Backoff:
    """Counts failures in a row and names the pause after each."""

    def __init__(self, *, rng: random.Random, base_s: float = 0.5, cap_s: float = 30.0) -> None:
        self._rng = rng
        self._base_s = base_s
        self._cap_s = cap_s
        self._failures = 0

    def failed(self, *, within_s: float = math.inf) -> float:
        """Count one more failure; returns the seconds to wait now, at most `within_s` of them."""
        self._failures += 1
        cap_s = min(self._cap_s, within_s)
        return delay_s(self._failures, rng=self._rng, base_s=self._base_s, cap_s=cap_s)

    def succeeded(self) -> None:
        self._failures = 0


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
