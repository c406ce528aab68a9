"""How much one attempt, one job, one owner and the farm may have, and what a process knows of that meanwhile."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

FRESH_S: Final = 5.0  # for so long a reading of what is used is good, with what this process let in since
MOST_READINGS: Final = 10_000  # of owners, in one process
NEARLY: Final = 0.9  # of a quota in all: the doctor warns beyond


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """So many of a resource (`resource`) may come `of` one attempt, job or owner, or of the farm; `used` are there."""

    resource: str
    of: str
    quota: int
    used: int

    def has_room_for(self, more: int) -> bool:
        return self.used + more <= self.quota

    @property
    def is_nearly_reached(self) -> bool:
        return self.used > self.quota * NEARLY


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """How many more bytes fit: into the farm, and of those owners who have little room left."""

    farm: int
    owners: Mapping[int, int]


@dataclass(slots=True)
class _Reading:
    used: int
    at_s: float
    spared_until_s: float
    since: int = 0


@dataclass(slots=True)
class Ledger:
    """What each owner used when it was last read, and what this process let in since. Times are of one clock.

    Several threads may use one: a number that is lost between two of them is that of one call, until the next reading.
    """

    _readings: dict[int, _Reading] = field(default_factory=dict)

    def is_fresh(self, owner: int, *, now_s: float) -> bool:
        reading = self._readings.get(owner)
        return reading is not None and now_s - reading.at_s < FRESH_S

    def is_spared(self, owner: int, *, now_s: float) -> bool:
        """Whether what this owner uses was too much to count again so soon."""
        reading = self._readings.get(owner)
        return reading is not None and now_s < reading.spared_until_s

    def read(self, owner: int, used: int, *, now_s: float, spared_until_s: float = 0.0) -> None:
        """Note that so much is used at this moment, what was let in before included."""
        if len(self._readings) >= MOST_READINGS:
            self._readings = {key: one for key, one in self._readings.items() if now_s - one.at_s < FRESH_S}
        self._readings[owner] = _Reading(used, now_s, spared_until_s)

    def read_of_before(self, owner: int, used: int, *, now_s: float) -> None:
        """Note that so much was used some seconds ago: what was let in since the reading before may be missing."""
        before = self._readings.get(owner) or _Reading(0, 0.0, 0.0)
        self.read(owner, used + before.since, now_s=now_s, spared_until_s=before.spared_until_s)

    def add(self, owner: int, more: int) -> None:
        """Note that so much was let in; of an owner that was never read nothing is noted."""
        if (reading := self._readings.get(owner)) is not None:
            reading.since += more

    def used(self, owner: int) -> int:
        """What is known to be used; 0 of an owner that was never read."""
        reading = self._readings.get(owner)
        return 0 if reading is None else reading.used + reading.since

    def near(self, *, most: int) -> list[int]:
        """Owners that are known to use more than `most`."""
        return [owner for owner, one in tuple(self._readings.items()) if one.used + one.since > most]

    def forget(self) -> None:
        self._readings = {}


def first_without_room(requested: Iterable[tuple[Quota, int]]) -> tuple[Quota, int] | None:
    """Of quotas and how many more of each are to come, the first that has no room for them."""
    return next(((quota, more) for quota, more in requested if not quota.has_room_for(more)), None)
