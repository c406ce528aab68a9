"""How much one attempt and one job may hand in."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """So many of something (`what`) may come `of` one attempt or one job; `used` are there."""

    what: str
    of: str
    quota: int
    used: int

    def has_room_for(self, more: int) -> bool:
        """Whether so many more fit."""
        return self.used + more <= self.quota


def first_without_room(asked: Iterable[tuple[Quota, int]]) -> tuple[Quota, int] | None:
    """Of quotas and how many more of each are to come, the first that has no room for them."""
    return next(((quota, more) for quota, more in asked if not quota.has_room_for(more)), None)
