"""What a request to a receiver comes to, and when a message that was not taken is sent again."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Final

# Standard Webhooks 1.0 ("Deliverability and reliability"): so many seconds after each failed attempt, 75 hours in all.
WAITS_S: Final = (5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400)
MOST_ATTEMPTS: Final = len(WAITS_S) + 1
JITTER: Final = 0.1  # up to a tenth longer, so that what failed together does not come together
LONGEST_RETRY_AFTER_S: Final = 86_400.0
_ASKS_TO_WAIT: Final = frozenset({429, 503})


def wait_s(*, attempts: int, retry_after_s: float | None, rng: random.Random) -> float | None:
    """Seconds until the next attempt after so many failed ones (1 is the first); None when that was the last. Not
    sooner than the receiver asked for (`retry_after_s`)."""
    if attempts >= MOST_ATTEMPTS:
        return None
    plain: float = WAITS_S[attempts - 1] * (1 + rng.uniform(0, JITTER))
    return max(plain, retry_after_s or 0.0)


def retry_after_s(status: int, headers: Mapping[str, str], *, now: datetime) -> float | None:
    """How long a receiver asks to be left alone: the Retry-After of a 429 or 503 (RFC 9110, 10.2.3), in seconds or as a
    date, a day at most; None if it does not, or nobody can read it. `headers` are named in lower case."""
    value = headers.get("retry-after", "").strip()
    if status not in _ASKS_TO_WAIT or not value:
        return None
    seconds = float(value) if value.isascii() and value.isdecimal() else _until(value, now=now)
    return None if seconds is None else min(max(seconds, 0.0), LONGEST_RETRY_AFTER_S)


def _until(value: str, *, now: datetime) -> float | None:
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, OverflowError):  # a receiver writes what it likes: a year of twenty digits, say
        return None
    return None if moment.tzinfo is None else (moment - now).total_seconds()


KEPT_BYTES: Final = 4096  # of an answer; no more of it is read


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a request came to. `status` None: there was no answer, and `error` is the reason, without the address
    itself, whose path may be a secret."""

    status: int | None = None
    error: str = ""
    duration_ms: int = 0
    body: bytes = field(default=b"", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def is_accepted(self) -> bool:
        return self.status is not None and 200 <= self.status < 300

    @property
    def text(self) -> str:
        return self.body.decode(errors="replace").replace("\x00", "�")

    def retry_after_s(self, *, now: datetime) -> float | None:
        return None if self.status is None else retry_after_s(self.status, self.headers, now=now)
