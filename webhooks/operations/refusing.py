"""Counting what was refused: a line for each source, reason and hour, and nothing of the request itself."""

from collections.abc import Sequence

from django.db import transaction

from webhooks.domain.names import Source
from webhooks.operations import announcing
from webhooks.queries import inbox


def count(
    source: Source, *, reason: str, address: str | None, size: int | None, header_names: Sequence[str]
) -> None:
    """Count a request that was refused for this reason, and keep where the last such came from."""
    with transaction.atomic():
        inbox.count_refusal(source, reason=reason, address=address, size=size, header_names=header_names)
        announcing.refused(source)
