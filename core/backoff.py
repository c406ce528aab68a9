"""How long to wait before something that failed is retried."""

import random
from dataclasses import dataclass

LONGEST_S = 5 * 366 * 86400  # of any wait


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """How long to wait, in seconds: `first_s * base**(failures - 1)`, at most `cap_s`, spread by `jitter`.

    `jitter` 0.5 means: uniformly between half and one and a half times of that, still at most the cap. A pair is the
    two factors themselves: (0.25, 1) waits between a quarter of it and all of it. Raises ValueError for numbers that
    make no sense.
    """

    first_s: float = 1.0
    base: float = 2.0
    cap_s: float = 3600.0
    jitter: float | tuple[float, float] = 0.5

    def __post_init__(self) -> None:
        least, most = self._factors
        if not (self.first_s >= 0 and 1 <= self.base <= LONGEST_S and self.cap_s >= 0 and 0 <= least <= most):
            raise ValueError(f"a backoff needs waits from 0, a base from 1, a jitter 0 to 1, got {self}")

    def delay_s(self, failures: int, *, rng: random.Random) -> float:
        """Seconds to wait after failure number `failures` (1 is the first)."""
        return min(self.plain_s(failures) * rng.uniform(*self._factors), self.cap_s)

    def plain_s(self, failures: int) -> float:
        # Past any cap long before a float overflows (1e308), which neither 1000**64 nor LONGEST_S**32 does.
        steps = min(failures - 1, 64 if self.base <= 1000 else 32)
        return min(self.first_s * self.base**steps, self.cap_s)

    @property
    def _factors(self) -> tuple[float, float]:
        return self.jitter if isinstance(self.jitter, tuple) else (1 - self.jitter, 1 + self.jitter)
