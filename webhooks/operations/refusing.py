"""Counting what was refused: a line for each source, reason and hour, and nothing of the request itself."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db import transaction

from webhooks.domain.names import Source
from webhooks.operations import announcing
from webhooks.queries import inbox


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Requests of a source that were refused for one reason; where the last of them came from, its announced size and
    the names of its headers."""

    source: Source
    reason: str
    address: str | None
    size: int | None
    header_names: Sequence[str]
    times: int = 1


def count(refusals: Sequence[Refused]) -> None:
    """Count them, each line once, in one order: two processes count the same lines."""
    with transaction.atomic():
        for one in sorted(refusals, key=lambda one: (one.source, one.reason)):
            inbox.count_refusal(
                one.source, reason=one.reason, address=one.address, size=one.size,
                header_names=one.header_names, times=one.times,
            )  # fmt: skip
        for source in {one.source for one in refusals}:
            announcing.refused(source)
