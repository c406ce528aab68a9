"""How new the state of an event is, where its sender may leave its moment out."""

from datetime import datetime

from webhooks.domain.staleness import Version
from webhooks.handlers.registry import Event


def dated(event: Event, *moments: datetime | None, number: int = 0, rank: int = 0) -> Version:
    """The version of a state of the first of these moments that the sender says. If it says none, that of its receipt,
    as a fallback: what is not dated stands until something dated comes, and never replaces it."""
    at = next((moment for moment in moments if moment is not None), None)
    return Version(at=at or event.occurred_at, number=number, rank=rank, is_fallback=at is None)
