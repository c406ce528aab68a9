"""When a call that went wrong is made again."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import Any

from jobfarm_client.backoff import Backoff
from jobfarm_client.effects import Fetch, Flow, Pause, Request, Send
from jobfarm_client.errors import FarmError, Refused, Unreachable

LONGEST_PAUSE_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """For how many seconds a call is repeated while the farm is away or has no room; 0: never."""

    retry_for_s: float
    rng: random.Random = field(default_factory=random.SystemRandom)

    def patience(self) -> Patience:
        """Of one call that begins now."""
        return Patience(self)


class Patience:
    """Decides after each failure of one call how long to wait, or that it is enough."""

    def __init__(self, policy: Policy) -> None:
        self._retry_for_s = policy.retry_for_s
        self._backoff = Backoff(rng=policy.rng, cap_s=LONGEST_PAUSE_S)
        self._until = time.monotonic() + policy.retry_for_s

    def succeeded(self) -> None:
        """The farm answered: the time begins anew."""
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


def repeated(request: Request, policy: Policy) -> Flow[dict[str, Any]]:
    """The JSON of the answer to a request that may arrive twice: sent again until it is answered for good."""
    answer: dict[str, Any] = yield from _until_answered(Send(request), policy)
    return answer


def fetched(request: Request, policy: Policy) -> Flow[bytes]:
    """The bytes of the answer to a request, likewise."""
    content: bytes = yield from _until_answered(Fetch(request), policy)
    return content


def _until_answered(wanted: Send | Fetch, policy: Policy) -> Flow[Any]:
    patience = policy.patience()
    while True:
        try:
            return (yield wanted)
        except FarmError as error:
            pause_s = patience.pause_s(error)
        yield Pause(pause_s)
