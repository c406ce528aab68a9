"""When a delivery that failed is retried."""

import random
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from core.backoff import Backoff

LONGEST: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """`attempts` in all; the wait after the n-th is `first * base ** (n - 1)` and up to a `jitter` of that, at most an
    hour. The defaults wait 1, 4, 16 and 60 minutes."""

    attempts: int = 5
    first: timedelta = timedelta(minutes=1)
    base: float = 4.0
    jitter: float = 0.1

    def wait(self, *, after: int, rng: random.Random) -> timedelta | None:
        """How long to wait after this attempt (1 is the first) failed; None when it was the last."""
        if after >= self.attempts:
            return None
        most = LONGEST.total_seconds()
        backoff = Backoff(first_s=self.first.total_seconds(), base=self.base, cap_s=most)
        seconds = backoff.plain_s(after)
        # Taken off rather than added where it would pass the hour, so that those at the cap do not come in step.
        spread = seconds * rng.uniform(0, self.jitter)
        return timedelta(seconds=seconds + spread if seconds + spread <= most else most - spread)
