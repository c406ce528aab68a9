"""The vectors of tests/data/rate_limits as values of ours."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

from ratelimits.domain import EPOCH, Config, FixedWindow, TokenBucket

FILE = Path(__file__).parents[2] / "data" / "rate_limits" / "rate_limits.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One call. `config` is the one that counts at this step."""

    n: int
    config: Config
    now: int
    op: str
    key: str
    count: float
    reserve: bool
    offset: int
    pick: tuple[int, ...]
    expect: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sequence:
    """Calls in order, from nothing stored."""

    id: int
    group: str
    steps: tuple[Step, ...]


@cache
def sequences(*, sharded: bool) -> tuple[Sequence, ...]:
    """All of one sort."""
    found = [line for line in json.loads(FILE.read_text()) if (line["group"] == "sharded") == sharded]
    return tuple(Sequence(id=line["id"], group=line["group"], steps=tuple(_steps(line))) for line in found)


def close(ours: float | None, theirs: float | None) -> bool:
    """As README says: nulls exactly, numbers within a millionth."""
    if ours is None or theirs is None:
        return ours is theirs
    return abs(ours - theirs) <= 1e-6 * max(1, abs(theirs))


def config(given: dict[str, Any]) -> Config:
    """A configuration as the file writes it."""
    common = {
        "rate": given["rate"],
        "period": timedelta(milliseconds=given["period"]),
        "capacity": given.get("capacity"),
        "max_reserved": given.get("maxReserved"),
        "shards": given.get("shards", 1),
    }
    if given["kind"] == "token bucket":
        return TokenBucket(**common)
    start = given.get("start")
    return FixedWindow(**common, start=None if start is None else EPOCH + timedelta(milliseconds=start))


def _steps(line: dict[str, Any]) -> Iterator[Step]:
    current = config(line["config"])
    for n, step in enumerate(line["steps"]):
        current = config(step["config"]) if "config" in step else current
        yield Step(
            n=n,
            config=current,
            now=step["now"],
            op=step["op"],
            key=step.get("key", ""),
            count=step.get("count", 1),
            reserve=step.get("reserve", False),
            offset=step.get("offset", 0),
            pick=tuple(step.get("pick", ())),
            expect=step["expect"],
        )
