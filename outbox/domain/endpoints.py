from collections.abc import Sequence
from dataclasses import dataclass, field

from outbox.domain import schemes
from outbox.domain.events import ALL, OF_PEOPLE, PATTERNS
from outbox.errors import BadEndpoint

LONGEST_NAME = 100
LEAST_PER_MINUTE = 0.001  # some more than one a day


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """An endpoint as its owner wants it. Raises BadEndpoint, and BadUrl for an address that cannot be sent to."""

    name: str
    url: str = field(repr=False)
    events: Sequence[str] = ("job.*",)
    kinds: Sequence[str] = ()
    with_result: bool = False
    per_minute: float | None = None

    def __post_init__(self) -> None:
        schemes.check(self.url)
        unknown = sorted(set(self.events) - set(PATTERNS))
        if not self.name.strip() or len(self.name) > LONGEST_NAME or "\x00" in self.name:
            raise BadEndpoint(field="name", reason=f"from 1 to {LONGEST_NAME} characters")
        if unknown or not self.events:
            raise BadEndpoint(field="events", reason=f"there is no type {unknown[0]}" if unknown else "name one")
        if any(not 0 < len(kind) <= 100 or "\x00" in kind for kind in self.kinds) or len(self.kinds) > 100:
            raise BadEndpoint(field="kinds", reason="at most 100 names of kinds")
        if self.per_minute is not None and not LEAST_PER_MINUTE <= self.per_minute <= 1e9:
            raise BadEndpoint(field="per_minute", reason=f"a number of at least {LEAST_PER_MINUTE}")

    def for_member(self) -> None:
        """Raise BadEndpoint for events that are nobody's own: they go to endpoints of the whole farm."""
        of_farm = [one for one in self.events if one not in {ALL, *OF_PEOPLE}]
        if of_farm:
            raise BadEndpoint(field="events", reason=f"{of_farm[0]} goes to endpoints of the whole farm alone")
