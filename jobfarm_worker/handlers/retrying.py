"""When to ask an OpenAI-compatible server once more.

Waits of 1, 10 and 20 seconds plus up to 100 ms of jitter, after 408, 409, 429, 5xx and lost connections.
A server that sends `x-should-retry` decides for itself; one that sends `retry-after` or `retry-after-ms` is given that
long instead, up to two minutes: a longer wait is the farm's, which has the slot for another job meanwhile.
"""

import asyncio
import contextlib
import math
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

from jobfarm_worker.errors import Failed
from jobfarm_worker.handlers.servers import BrokenStreamError, ServerError, StatusError, UnansweredError

DELAYS_S = (1.0, 10.0, 20.0)
JITTER_S = 0.1
LONGEST_WAIT_S = 120.0
AGAIN = frozenset({408, 409, 429})
T = TypeVar("T")
_RNG = random.SystemRandom()


def is_worth_retrying(error: Exception) -> bool:
    """Whether the same question may be answered when it is sent again."""
    if isinstance(error, StatusError):
        should_retry = error.headers.get("x-should-retry", "").lower()
        if should_retry in {"true", "false"}:
            return should_retry == "true"
        return error.status in AGAIN or error.status >= 500
    return isinstance(error, UnansweredError | BrokenStreamError)


def sentence(error: Exception) -> str:
    """The message to the people who wait for the answer."""
    if isinstance(error, StatusError):
        return f"The model server answered {error.status}: {error.message}"
    return f"The model server failed: {error}"


async def retried(
    request: Callable[[], Awaitable[T]],
    *,
    may_retry: Callable[[], bool] = lambda: True,
    delays_s: Sequence[float] = DELAYS_S,
) -> T:
    """Await `request()`, again after a failure that may pass, while `may_retry` allows it.

    Raises Failed with the last error; it is retryable for the farm exactly when it may pass.
    """
    delays = iter(delays_s)
    while True:
        try:
            return await request()
        except ServerError as error:
            passing = is_worth_retrying(error)
            delay_s = next(delays, None)
            if not passing or delay_s is None or not may_retry():
                raise Failed(sentence(error), retryable=passing) from error
            delay_s = _requested_wait_s(error) or delay_s
            if delay_s > LONGEST_WAIT_S:
                raise Failed(_too_long(error, delay_s)) from error
        await asyncio.sleep(delay_s + _RNG.uniform(0, JITTER_S))


def _requested_wait_s(error: Exception) -> float | None:
    if not isinstance(error, StatusError):
        return None
    now = datetime.now(UTC)  # noqa: TID251 (the edge to the model server: nobody above knows of its dates)
    return retry_after_s(error.headers, now=now)


def _too_long(error: Exception, delay_s: float) -> str:
    reason = f"It asks to wait {delay_s:.0f} s, longer than the {LONGEST_WAIT_S:.0f} s that a worker waits."
    return f"{sentence(error)} {reason}"


def retry_after_s(headers: Mapping[str, str], *, now: datetime) -> float | None:
    """The seconds that an answer with these headers (names in lower case) asks to wait; None when it does not.

    A date is compared with the answer's own, or with `now` where it has none.
    """
    for name, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        with contextlib.suppress(ValueError):
            seconds = float(headers.get(name, "")) * unit_s
            return seconds if 0 < seconds < math.inf else None
    at, since = _moment(headers.get("retry-after")), _moment(headers.get("date")) or now
    return None if at is None or at <= since else (at - since).total_seconds()


def _moment(text: str | None) -> datetime | None:
    try:
        at = parsedate_to_datetime(text or "")
    except ValueError:
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)
