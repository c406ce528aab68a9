"""A new job on its way to the statement that stores it.

What its numbers, its key, its moments and its tags may be; which gives way of two with one unique_key, and when the one
that stays runs; and when jobs may start that reserved tokens of a limit together.
"""

import math
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final, NamedTuple, Self
from uuid import UUID

from core.large_json import Path
from core.values import words
from jobs.domain.flows import Condition
from jobs.domain.labels import Requirement
from jobs.errors import InvalidValue
from ratelimits.domain import Config, FixedWindow

# The run_at of a job that waits behind another: no claim is as late, and Python and browsers know the moment.
BEHIND: Final = datetime(9000, 1, 1, tzinfo=UTC)
LONGEST_DEBOUNCE_S: Final = 30 * 86400.0
# Columns of a JobRecord that stand on the live row too.
OF_LIVE: Final = (
    "kind", "queue", "timeout_s", "owner_id", "group_id", "requirement_id", "key_id", "in_flow", "is_metered"
)  # fmt: skip
JITTER_SHARE = 0.1  # of the wait, so that those who waited do not all start in the same millisecond
JITTER_MOST_S = 5.0
MOST_TAGS: Final = 10  # of a job
LONGEST_TAG: Final = 64
MOST_TAGGED: Final = 5_000  # jobs of a tag, the newest, among which one page chooses
# Letters and digits of any language and a few signs; no comma, which stands between tags, and nothing that an address,
# a header or an array of PostgreSQL writes in another way.
TAG: Final = re.compile(rf"[\w.:/@+#=-]{{1,{LONGEST_TAG}}}")


class OnConflict(StrEnum):
    """What becomes of a new job while a living one has its unique_key."""

    REFUSE = "refuse"
    REPLACE = "replace"
    AFTER = "after"


@dataclass(frozen=True, slots=True, kw_only=True)
class Debounce:
    """A job runs once none like it came for `quiet_s`, at the latest `at_most_s` after the first."""

    quiet_s: float
    at_most_s: float

    @classmethod
    def of(cls, times: Any) -> Self:
        """Of `{"quiet": 10, "at_most": 120}`, in seconds. Raises InvalidValue."""
        if not isinstance(times, Mapping) or times.keys() != {"quiet", "at_most"}:
            raise InvalidValue(field="debounce", why='quiet and at_most, such as {"quiet": 10, "at_most": 120}')
        for name, value in times.items():
            if not (type(value) in (int, float) and math.isfinite(value) and 0 < value <= LONGEST_DEBOUNCE_S):
                raise InvalidValue(field="debounce", why=f"{name} is a number of seconds up to 30 days, got {value!r}")
        if times["quiet"] > times["at_most"]:
            raise InvalidValue(field="debounce", why="at_most is no less than quiet")
        return cls(quiet_s=times["quiet"], at_most_s=times["at_most"])

    def run_at(self, *, first: datetime, now: datetime) -> datetime:
        """When it runs if no other comes."""
        return min(now + timedelta(seconds=self.quiet_s), first + timedelta(seconds=self.at_most_s))


def on_conflict(name: Any, *, is_debounced: bool) -> OnConflict | None:
    """What is asked for, None where that is a refusal; a debounced job waits behind the one that runs. Raises
    InvalidValue."""
    names = [one.value for one in OnConflict]
    if name is not None and name not in names:
        raise InvalidValue(field="on_conflict", why=f"one of {', '.join(names)}")
    if is_debounced and name not in {None, OnConflict.AFTER}:
        raise InvalidValue(field="on_conflict", why="with debounce it is after")
    wanted = OnConflict.AFTER if is_debounced else OnConflict(name or OnConflict.REFUSE)
    return None if wanted is OnConflict.REFUSE else wanted


class KeyScope(NamedTuple):
    """Whose a concurrency key is: a kind's, of which so many jobs with it run at a time (None: as its row says), or
    (without one) a queue's."""

    kind: str
    queue: str
    bound: int | None


class JobRecord(NamedTuple):
    """A new job as it is stored. What comes after `tags` is not stored: it decides about the job before.

    The statements of a submit take their columns from here (`jobs.queries.submits`): a field before `run_at` is the
    column of that name, as it is.
    """

    kind: str
    queue: str
    priority: int
    max_attempts: int
    timeout_s: float | None
    retry_when_lost: bool
    retry_on_timeout: bool
    owner_id: int | None = None
    group_id: int | None = None
    token_id: int | None = None
    unique_key: str | None = None
    concurrency_key: str | None = None
    retry_of_id: int | None = None
    flow_id: int | None = None
    requirement_id: int | None = None
    limit_name: str | None = None
    limit_key: str | None = None
    limit_count: float | None = None
    is_metered: bool = False

    run_at: datetime | None = None
    expires_at: datetime | None = None
    expires_s: float | None = None
    limit_wait_s: float | None = None
    key_id: int | None = None
    in_flow: bool = False
    payload: str = "null"  # its JSON
    traceparent: str | None = None
    tags: str | None = None  # as PostgreSQL writes an array

    may_wait: bool = False
    keep_content: bool = True
    redact: str = ""
    name: str | None = None  # of its flow, as all up to `place_id` are
    after: tuple[int, ...] = ()  # jobs
    after_places: tuple[int, ...] = ()  # and places in the call
    condition: Condition = Condition.SUCCESS
    place_id: int | None = None  # of an earlier job, whose place it takes
    files: Mapping[str, UUID] | None = None
    places: Mapping[str, Sequence[Path]] | None = None  # of those files that are parts of the payload
    wanted: Requirement | None = None
    key_scope: KeyScope | None = None
    is_choice: bool = False  # what is wanted is not its kind's alone
    on_conflict: OnConflict | None = None  # none: it is refused
    debounce: Debounce | None = None
    may_cancel: bool = True  # whether it may replace what came with another token
    kind_version: str | None = None  # those that rows have to have which were remembered (docs/adr/0115)
    token_version: str | None = None
    person_version: str | None = None
    checks_queue: bool = False  # whether the statement that stores it looks whether there is its queue

    @property
    def keeps_all(self) -> bool:
        """Whether what it is given and gives is neither deleted nor redacted after its end."""
        return self.keep_content and not self.redact


STORED: Final = JobRecord._fields[: JobRecord._fields.index("may_wait")]
COLUMNS: Final = JobRecord._fields[: JobRecord._fields.index("run_at")]


def check(new: JobRecord) -> None:
    """Raise InvalidValue unless the numbers, the key and the moments of this new job are within their bounds."""
    if not -100 <= new.priority <= 100:
        raise InvalidValue(field="priority", why=f"a whole number from -100 to 100, got {new.priority}")
    if not 1 <= new.max_attempts <= 1000:
        raise InvalidValue(field="max_attempts", why=f"from 1 to 1000, got {new.max_attempts}")
    if new.timeout_s is not None and not (math.isfinite(new.timeout_s) and 0 < new.timeout_s <= 5 * 366 * 86400):
        raise InvalidValue(field="timeout_s", why=f"positive and under five years, got {new.timeout_s}")
    for field, key in (("unique_key", new.unique_key), ("concurrency_key", new.concurrency_key or None)):
        if key is not None:
            _check_key(field, key)
    if new.on_conflict is not None:
        _check_conflict(new)
    _check_times(run_at=new.run_at, expires_at=new.expires_at)


def _check_key(field: str, key: str) -> None:
    if not 1 <= len(key) <= 200 or "\x00" in key:
        raise InvalidValue(field=field, why="1 to 200 characters, none of them NUL")
    if not key.isprintable():
        raise InvalidValue(field=field, why="printable characters only")


def _check_conflict(new: JobRecord) -> None:
    if new.unique_key is None:
        field = "on_conflict" if new.debounce is None else "debounce"
        raise InvalidValue(field=field, why="it is about a unique key, and there is none")
    if new.debounce is not None and new.run_at is not None:
        raise InvalidValue(field="debounce", why="it says when the job runs, as run_at does: one of the two")


def _check_times(**moments: datetime | None) -> None:
    for field, moment in moments.items():
        if moment is not None and moment.tzinfo is None:
            raise InvalidValue(field=field, why="it needs a time zone")
        if moment is not None and not 2000 <= moment.year <= 2200:  # whatever the clock says: nobody means another
            raise InvalidValue(field=field, why=f"a year from 2000 to 2200, got {moment.year}")


def waits_s(config: Config, counts: Sequence[float], *, remaining: float, last_s: float | None) -> list[float | None]:
    """How many seconds each of these has to wait; None: not at all.

    They took `counts` tokens in one decision of `config`, which left `remaining` (below 0 is debt) and gave `last_s`,
    the wait of the last one of them. What stood in the account after each earlier one follows from that: so many
    decisions, one after the other, would have said the same, and one at a time would be as many round trips.
    """
    if last_s is None:
        return [None] * len(counts)
    waits: list[float | None] = []
    value = remaining + math.fsum(counts)
    for count in counts:
        value -= count
        # Whole batches end at what the decision left, whatever the sums have lost on their way there.
        waits.append(None if value >= 0 else max(0.0, last_s - _between_s(config, remaining, value)))
    return [*waits[:-1], last_s]


def with_jitter(wait_s: float, *, rng: random.Random) -> float:
    """The wait, and up to a tenth of it (5 s at most) more."""
    return wait_s + rng.uniform(0.0, min(wait_s * JITTER_SHARE, JITTER_MOST_S))


def _between_s(config: Config, low: float, high: float) -> float:
    """How long after a debt of `high` that of `low` is paid; both are below 0."""
    period_s = config.period.total_seconds()
    if isinstance(config, FixedWindow):
        return (math.ceil(-low / config.rate) - math.ceil(-high / config.rate)) * period_s
    return (high - low) * period_s / config.rate


def checked_tags(tags: Iterable[Any]) -> tuple[str, ...]:
    """The tags, each once, in their order. Raises InvalidValue."""
    named = tuple(dict.fromkeys(tags))
    if len(named) > MOST_TAGS:
        raise InvalidValue(field="tags", why=f"at most {MOST_TAGS}, got {len(named)}")
    for tag in named:
        if not isinstance(tag, str) or not TAG.fullmatch(tag):
            raise InvalidValue(
                field="tags", why=f"1 to {LONGEST_TAG} letters, digits or . : / @ + # = _ - each, got {tag!r}"
            )
    return named


def is_tags(text: str) -> bool:
    """Whether this text names tags that a job may have."""
    tags = words(text)
    return 1 <= len(tags) <= MOST_TAGS and all(TAG.fullmatch(tag) for tag in tags)
