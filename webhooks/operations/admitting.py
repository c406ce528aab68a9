"""Asking the limit of a source and an address, several requests at a time."""

from dataclasses import dataclass
from datetime import timedelta

from ratelimits import operations as ratelimits
from webhooks import limits
from webhooks.domain.names import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """How many requests may go on; or, if none may, after how long to ask again."""

    count: int
    retry_after: timedelta = timedelta(0)


def admit(source: Source, address: str, wanted: int) -> Admission:
    """Take so many tokens of the source's limit for this address; one, if that many are not left."""
    name = limits.BY_SOURCE[source]
    if wanted > 1 and ratelimits.limit(name, key=address, count=wanted):
        return Admission(count=wanted)
    answer = ratelimits.limit(name, key=address)
    if answer:
        return Admission(count=1)
    return Admission(count=0, retry_after=answer.retry_after or timedelta(seconds=1))
