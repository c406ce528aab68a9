"""How long to wait before trying again."""

import math
import random


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
