"""When to ask an OpenAI-compatible server once more.

Waits of 1, 10 and 20 seconds plus up to 100 ms of jitter, after 408, 409, 429, 5xx and lost connections;
a server that sends `x-should-retry` decides for itself.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import openai

from jobfarm_worker.errors import Failed

DELAYS_S = (1.0, 10.0, 20.0)
JITTER_S = 0.1
AGAIN = frozenset({408, 409, 429})
T = TypeVar("T")


class BrokenStreamError(Exception):
    """The answer broke off before the model said that it had finished."""

    def __init__(self, why: str) -> None:
        super().__init__(f"{self.__doc__} {why}".strip())


def is_worth_retrying(error: Exception) -> bool:
    """Whether the same question may be answered if asked again."""
    if isinstance(error, openai.APIStatusError):
        told = error.response.headers.get("x-should-retry", "").lower()
        if told in {"true", "false"}:
            return told == "true"
        return error.status_code in AGAIN or error.status_code >= 500
    return isinstance(error, openai.APIConnectionError | BrokenStreamError)


def sentence(error: Exception) -> str:
    """What to tell the people who wait for the answer."""
    if isinstance(error, openai.APIStatusError):
        return f"The model server answered {error.status_code}: {error.message}"
    return f"The model server failed: {error}"


async def retried(
    ask: Callable[[], Awaitable[T]],
    *,
    may_retry: Callable[[], bool],
    rng: random.Random,
    delays_s: Sequence[float] = DELAYS_S,
) -> T:
    """Await `ask()`, again after a failure that may pass, while `may_retry` allows it.

    Raises Failed with the last error; it is retryable for the farm exactly when it may pass.
    """
    delays = iter(delays_s)
    while True:
        try:
            return await ask()
        except (openai.APIError, BrokenStreamError) as error:
            passing = is_worth_retrying(error)
            delay_s = next(delays, None)
            if not passing or delay_s is None or not may_retry():
                raise Failed(sentence(error), retryable=passing) from error
        await asyncio.sleep(delay_s + rng.uniform(0, JITTER_S))
