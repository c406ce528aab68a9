"""Statements on the states of limits. Times in and out are milliseconds; `key` is as stored (operations.stored_key)."""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Any, Final

from django.contrib.auth.models import User
from django.db import connection
from django.db.models import BigIntegerField, Case, OuterRef, QuerySet, Subquery, When
from django.db.models.functions import Cast, Substr

from postgres import statements
from ratelimits.domain import EPOCH, Config, FixedWindow, State, TokenBucket, refilled
from ratelimits.models import Bucket
from scheduling import guards

Row = statements.Row
ACCOUNT: Final = "user:[0-9]{1,9}"
_ACCOUNT: Final = re.compile(ACCOUNT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One limit that is asked for `count` tokens; `reserve` lets it go into debt."""

    name: str
    key: str
    config: Config
    count: float
    reserve: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """What a limit and key hold now. `rate` tokens come in per period; `used` were taken since its row was made."""

    name: str
    key: str
    is_window: bool
    rate: float
    period_ms: float
    most: float
    value: float
    shards: int
    used: float
    person: str = ""  # whose the key is, where it names an account by its number

    @property
    def share(self) -> float:
        """How full it is, 0 to 1; a limit that holds nothing even when it is full counts as full without debt."""
        if self.most <= 0:
            return 1.0 if self.value >= 0 else 0.0
        return min(max(self.value / self.most, 0.0), 1.0)


# An action may ask limits: what is trusted here is one statement each, which is done or not done.


@guards.trusted()
def take(request: Request) -> Row:
    """Ask one limit; a row with `granted`, `retry_after_ms` (None: at once) and `remaining`."""
    params = {
        "name": request.name,
        "key": request.key,
        "config": _as_text(request.config, request.reserve),
        "count": request.count,
    }
    statement = "take" if request.config.shards == 1 else "take_sharded"
    [row] = statements.load("ratelimits", statement).run(params)
    return row


@guards.trusted()
def take_all(requests: Sequence[Request], *, waits_for_disk: bool = True) -> list[Row]:
    """Ask several, all or none; a row for each in their order, as from `take`. In order of name and key they cost less.
    Not `waits_for_disk`: where it is a transaction by itself, it may be lost in a crash of the server."""
    parameters = {
        "requests": _as_array(requests),
        "is_flushed_later": not waits_for_disk and not connection.in_atomic_block,
    }
    return statements.load("ratelimits", "take_all").run(parameters)


def read(name: str, key: str, *, shards: int) -> tuple[int, list[State | None]]:
    """The database's moment (ms), and what is stored of a limit and key then: a state, or None, for each shard."""
    rows = statements.load("ratelimits", "read").run({"name": name, "key": key, "shards": shards})
    states: list[State | None] = [None] * shards
    for row in rows:
        if row.shard is not None:
            states[row.shard] = State(row.value, row.ts)
    return rows[0].now_ms, states


@guards.trusted()
def give_back(request: Request) -> int:
    """Put `count` tokens back; how many rows that changed (0: it is full, or was never used)."""
    return int(statements.load("ratelimits", "give_back").run({"request": _as_record(request)})[0].changed)


def prune(limit: int, _: int) -> int:
    """Delete up to `limit` rows that are full again; how many there were. A key whose configuration changes with each
    call is judged by that of its last use."""
    return len(statements.load("ratelimits", "prune").run({"limit": limit}))


def gauges(
    *, name: str | None = None, key: str | None = None, search: str | None = None, limit: int
) -> tuple[list[Gauge], int]:
    """The limits and keys most used, and how many there are; of one limit or key, or those that hold a text, if
    given."""
    params = {"name": name, "key": key, "search": search, "limit": limit}
    rows = statements.load("ratelimits", "gauges").run(params)
    people = _people([row.key for row in rows])
    gauges = [Gauge(**_numbers(row), value=row.value, person=people.get(row.key, "")) for row in rows]
    return gauges, rows[0].total if rows else 0


def gauge(name: str, key: str) -> Gauge | None:
    """One limit and key; None if nothing is stored of it: it is full, or was never used."""
    rows, _ = gauges(name=name, key=key, limit=1)
    return rows[0] if rows else None


def gauge_of(row: Any) -> Gauge:
    """The gauge of one row that carries the database's clock as `now`: of one shard. One that cannot be computed holds
    what is stored."""
    kind, value = FixedWindow if row.is_window else TokenBucket, row.value
    with suppress(ValueError, OverflowError):
        config = kind(row.rate, timedelta(milliseconds=row.period_ms), capacity=row.most)
        value = refilled(config, State(row.value, row.ts), now=(row.now - EPOCH) // timedelta(milliseconds=1)).value
    return Gauge(**_numbers(row), value=value)


def with_people(rows: "QuerySet[Bucket]") -> "QuerySet[Bucket]":
    """The rows with `person`: whose the key is, where it names an account by its number."""
    number = Cast(Substr(OuterRef("key"), len("user:") + 1), BigIntegerField())
    name = Subquery(User.objects.filter(pk=number).values("username")[:1])
    return rows.annotate(person=Case(When(key__regex=f"^{ACCOUNT}$", then=name)))


def names() -> list[str]:
    """The limits that have rows, by name: jumped from one to the next in their index."""
    return [row.name for row in statements.load("ratelimits", "names").run()]


def _people(keys: Sequence[str]) -> dict[str, str]:
    ids = {key: int(key.removeprefix("user:")) for key in keys if _ACCOUNT.fullmatch(key)}
    names = dict(User.objects.filter(pk__in=ids.values()).values_list("pk", "username")) if ids else {}
    return {key: names[pk] for key, pk in ids.items() if pk in names}


@lru_cache(maxsize=4096)
def _as_text(config: Config, reserve: bool) -> str:  # lru_cache is faster by position
    """A ratelimits_config as PostgreSQL reads it; the numbers exactly."""
    is_window, floor = isinstance(config, FixedWindow), config.floor if reserve else 0.0
    start_ms = config.start_ms if isinstance(config, FixedWindow) else None
    fields = (is_window, float(config.rate), config.period_ms, config.most, floor, start_ms, config.shards)
    return "(" + ",".join("" if value is None else str(value) for value in fields) + ")"


def _as_array(requests: Sequence[Request]) -> str:
    """A ratelimits_request[] as PostgreSQL reads it: of JSON it took a tenth of the decision to make one."""
    return "{" + ",".join(_quoted(_as_record(request)) for request in requests) + "}"


def _as_record(request: Request) -> str:
    config = _as_text(request.config, request.reserve)[1:-1]
    return f"({_quoted(request.name)},{_quoted(request.key)},{config},{request.count})"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _numbers(row: Any) -> dict[str, Any]:
    names = ("name", "key", "is_window", "rate", "period_ms", "most", "shards", "used")
    return {name: getattr(row, name) for name in names}
