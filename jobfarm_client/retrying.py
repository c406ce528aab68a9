"""When a call that went wrong is made again."""

import random
import time
from dataclasses import dataclass, field

from jobfarm_client.backoff import Backoff
from jobfarm_client.errors import FarmError, Refused, Unreachable

LONGEST_PAUSE_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """For how many seconds a call is repeated while the farm is away or has no room; 0: never."""

    retry_for_s: float
    rng: random.Random = field(default_factory=random.SystemRandom)

    def patience(self) -> "Patience":
        return Patience(self)


class Patience:
    """Decides after each failure of one call how long to wait, or that it is enough."""

    def __init__(self, policy: Policy) -> None:
        self._retry_for_s = policy.retry_for_s
        self._backoff = Backoff(rng=policy.rng, cap_s=LONGEST_PAUSE_S)
        self._until = time.monotonic() + policy.retry_for_s

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
