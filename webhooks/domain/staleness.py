"""Which of two states of one resource is the newer: one text for each state, and the greater text wins.

Deliveries come late, twice and out of order. If each column keeps, of all states that ever said something of it, what
the one with the greatest key says, then a row ends the same whatever the order was (docs/adr/0023 says what each
sender's key is made of, and why it is compared for each column).
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
KEY_LENGTH = 62
LARGEST = 10**20 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """How new a state is, by the sender's own account; what is named first counts first.

    `is_fallback`: it stands in until a better one comes, and never replaces one that is none: the sender does not say
    when it was, or what follows counts whatever its moment. `at`: the sender's moment, of the state or of the event.
    `number`: a counter of the sender's that only rises. `rank`: what the event means, for states of the same moment
    (closing comes after opening). `first_wins`: the earliest state stays, for what can happen only once.
    """

    at: datetime
    number: int = 0
    rank: int = 0
    is_fallback: bool = False
    first_wins: bool = False


def key(version: Version, columns: Mapping[str, Any]) -> str:
    """The text that sorts, byte by byte, as the states do: always KEY_LENGTH characters, digits and dots first.

    States that their sender does not tell apart are ordered by a digest of what they say, so that every order of
    delivery chooses the same one; the same state has the same key, so that it never replaces itself.
    """
    moment = _bounded((version.at - EPOCH) // timedelta(microseconds=1))
    if version.first_wins:
        moment = LARGEST - moment
    rank = min(max(version.rank, 0), 9)
    return f"{not version.is_fallback:d}.{moment:020d}.{_bounded(version.number):020d}.{rank}.{digest(columns)}"


def digest(columns: Mapping[str, Any]) -> str:
    """Sixteen hexadecimal digits that stand for these values. Moments are equal if they are the same instant."""
    text = json.dumps(columns, sort_keys=True, separators=(",", ":"), default=_text)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _bounded(number: int) -> int:
    return min(max(number, 0), LARGEST)


def _text(value: Any) -> str:
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else str(value)
