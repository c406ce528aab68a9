import random
from dataclasses import dataclass

from core.backoff import Backoff


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often an action is tried, and how long it waits in between; seconds throughout.

    After failure number n it waits `base**n`, or `first * base**(n - 1)` where `first` says another beginning, and
    up to `jitter` times that longer; at most `cap`. By default 2 to 3 s, then 4 to 6, 8 to 12, 16 to 24.
    `max_attempts` counts the first one too. Raises ValueError for numbers that make no sense.
    """

    max_attempts: int = 5
    base: float = 2.0
    first: float | None = None
    cap: float = 3600.0
    jitter: float = 0.5

    def __post_init__(self) -> None:
        if self.max_attempts < 1:
            raise ValueError(f"max_attempts must be at least 1, not {self.max_attempts}")
        self._backoff()

    def delay_s(self, failures: int, *, rng: random.Random) -> float:
        """Seconds to wait after failure number `failures` (1 is the first)."""
        return self._backoff().delay_s(failures, rng=rng)

    def _backoff(self) -> Backoff:
        if not 0 <= self.jitter <= 1:
            raise ValueError(f"a retry needs 0 <= jitter <= 1, not {self.jitter}")
        first = self.base if self.first is None else self.first
        return Backoff(first_s=first, base=self.base, cap_s=self.cap, jitter=(1, 1 + self.jitter))


def delay_before_next_s(
    retry: Retry | None, *, attempt: int, known: bool, idempotent: bool, rng: random.Random
) -> float | None:
    """Seconds until the next try after attempt number `attempt` ended badly; None if there is none.

    `known` says that it failed, and is not merely unheard of: an action of unknown outcome may have done its work,
    so it is retried only if it was declared idempotent.
    """
    if retry is None or attempt >= retry.max_attempts or not (known or idempotent):
        return None
    return retry.delay_s(attempt, rng=rng)
