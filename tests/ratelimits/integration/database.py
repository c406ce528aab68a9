"""The database's functions with the clock and the dice in the test's hand; statements of ours read the true
ones."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.db import connection

from ratelimits import queries
from ratelimits.domain import Config, FixedWindow, State, TokenBucket
from ratelimits.models import Bucket

TAKE = """
SELECT granted, retry_after_ms, remaining FROM
    (SELECT (%(config)s::ratelimits_config).*) AS config,
    ratelimits_take(%(name)s, %(key)s, 0, 1, is_window, rate, period_ms, most, floor, start_ms, %(count)s,
                    %(now)s::bigint, %(draw)s)
"""
TAKE_SHARDED = """
SELECT granted, retry_after_ms, remaining FROM ratelimits_take_sharded(
    %(name)s, %(key)s, %(config)s::ratelimits_config, %(count)s, %(now)s::bigint, %(one)s, %(other)s, %(draw)s)
"""
# Not by the models: the vectors ask after each of ten thousand steps.
STORED = "SELECT shard, value, ts FROM ratelimits_bucket WHERE name = %s AND key = %s"


def request(
    config: Config, key: str = "", *, count: float = 1, reserve: bool = False, name: str = "x"
) -> queries.Request:
    """One limit that is asked."""
    return queries.Request(name=name, key=key, config=config, count=float(count), reserve=reserve)


def take(
    config: Config, key: str = "", *, now: int, count: float = 1, reserve: bool = False, offset: int = 0,
    pick: Sequence[int] = (0, 1),
) -> tuple[bool, float | None, float]:  # fmt: skip
    """One decision at `now`: granted, retry_after in ms, remaining."""
    limit = {"name": "x", "key": key, "config": queries._as_text(config, reserve)}
    draw = (offset + 0.5) / config.period_ms
    numbers = {"count": float(count), "now": now, "draw": draw, "one": pick[0], "other": pick[-1]}
    with connection.cursor() as cursor:
        cursor.execute(TAKE if config.shards == 1 else TAKE_SHARDED, {**limit, **numbers})
        answer: tuple[bool, float | None, float] = cursor.fetchone()
    return answer


def take_all(
    requests: Sequence[queries.Request], *, now: int, draw: float = 0.5, by: str = "ratelimits_take_all"
) -> list[tuple[bool, float | None, float | None]]:
    """A decision on several at `now`, by this function."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT granted, retry_after_ms, remaining FROM {by}(%s::ratelimits_request[], %s, %s) ORDER BY nth",
            [queries._as_array(requests), now, draw],
        )
        answers: list[tuple[bool, float | None, float | None]] = cursor.fetchall()
    return answers


def states(key: str = "", *, name: str = "x", shards: int = 1) -> list[State | None]:
    """What is stored."""
    with connection.cursor() as cursor:
        cursor.execute(STORED, [name, key])
        rows = {shard: State(value, ts) for shard, value, ts in cursor.fetchall()}
    return [rows.get(shard) for shard in range(shards)]


def put(config: Config, states: Sequence[State | None], key: str = "", *, name: str = "x") -> None:
    """Store these states and no others."""
    Bucket.objects.filter(name=name, key=key).delete()
    share = {"rate": config.rate / config.shards, "most": config.most / config.shards}
    Bucket.objects.bulk_create(
        Bucket(name=name, key=key, shard=shard, shards=config.shards, is_window=isinstance(config, FixedWindow),
               period_ms=config.period_ms, value=state.value, ts=state.ts, used=0, **share)
        for shard, state in enumerate(states) if state is not None
    )  # fmt: skip


def config_of(*, rate: float, shards: int = 1, **fields: Any) -> TokenBucket:
    """So many tokens a second."""
    return TokenBucket(rate, timedelta(seconds=1), shards=shards, **fields)


def with_shards(config: Config, number: int) -> Config:
    """The same limit, divided otherwise."""
    return replace(config, shards=number)
