"""What a list of jobs is narrowed to. Texts, as an address and a live query carry them; an empty one means any."""

from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from jobs.domain.states import ENDED, LIVE, Status

AGES: Final = {
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(days=7),
    "month": timedelta(days=30),
}
LONGEST_TEXT: Final = 200
_UNHAPPY: Final = frozenset({Status.FAILED, Status.CANCELED, Status.TIMED_OUT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """`owner`, `group` and `worker` are names. `age` is one of AGES; `since` and `until` bound the time of submission,
    in UTC as ISO 8601 says it ("2026-09-30T14:05"). `text` is looked for in payloads and errors."""

    status: str = ""
    kind: str = ""
    queue: str = ""
    worker: str = ""
    owner: str = ""
    group: str = ""
    age: str = ""
    since: str = ""
    until: str = ""
    text: str = ""

    @classmethod
    def of(cls, values: dict[str, Any]) -> "Filters":
        """Those that `as_dict` wrote; names that are not known any more are left out."""
        known = {field.name for field in fields(cls)}
        return cls(**{name: str(value) for name, value in values.items() if name in known})

    def as_dict(self) -> dict[str, str]:
        """What is narrowed, and nothing else: for an address, or to keep."""
        return {name: value for name, value in asdict(self).items() if value}

    @property
    def named(self) -> frozenset[str]:
        """Which of them are set."""
        return frozenset(self.as_dict())

    @property
    def is_one_unhappy_status(self) -> bool:
        """Whether an index of its own leads to what matches the status."""
        return self.status in _UNHAPPY

    @property
    def is_live(self) -> bool:
        """Whether only jobs are wanted that wait or run: seldom many, and all of them in small indexes."""
        return self.status in LIVE

    @property
    def is_ended(self) -> bool:
        """Whether only jobs are wanted that have ended."""
        return self.status in ENDED

    def at(self, now: datetime) -> "Filters":
        """The same for good: what "of the last hour" means is said by the moment at which somebody asked."""
        if self.age not in AGES:
            return replace(self, age="")
        aged = now - AGES[self.age]
        since = moment(self.since)
        return replace(self, age="", since=(aged if since is None else max(aged, since)).isoformat())


def moment(text: str) -> datetime | None:
    """The moment that a text says, in UTC where it names no zone; None for what is none."""
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        return None
    return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed
