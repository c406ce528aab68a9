"""The database's functions with the clock and the dice in the test's hand; statements of ours read the true
ones."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.db import connection

from ratelimits import queries
from ratelimits.domain import Config, State, TokenBucket
from ratelimits.models import Bucket

TAKE = """
SELECT granted, retry_after_ms, remaining FROM ratelimits_take(
    %(name)s, %(key)s, 0, 1, %(is_window)s, %(rate)s, %(period_ms)s, %(most)s, %(floor)s::float8,
    %(start_ms)s::bigint, %(count)s, %(now)s::bigint, %(draw)s)
"""
TAKE_SHARDED = """
SELECT granted, retry_after_ms, remaining FROM ratelimits_take_sharded(
    %(name)s, %(key)s,
    (%(is_window)s, %(rate)s, %(period_ms)s, %(most)s, %(floor)s::float8, %(start_ms)s::bigint,
     %(shards)s)::ratelimits_config,
    %(count)s, %(now)s::bigint, %(one)s, %(other)s, %(draw)s)
"""
TAKE_ALL = """
SELECT granted, retry_after_ms, remaining FROM ratelimits_take_all(
    (SELECT array_agg(jsonb_populate_record(NULL::ratelimits_request, item) ORDER BY nth)
     FROM jsonb_array_elements(%(requests)s::jsonb) WITH ORDINALITY AS list (item, nth)),
    %(now)s::bigint, %(draw)s)
ORDER BY nth
"""
# Not by the models: the vectors ask after each of ten thousand steps.
STORED = "SELECT shard, value, ts FROM ratelimits_bucket WHERE name = %s AND key = %s"


def parameters(
    config: Config, key: str = "", *, count: float = 1, reserve: bool = False, name: str = "x"
) -> dict[str, Any]:
    """What `queries` sends for one request."""
    request = queries.Request(name=name, key=key, config=config, count=float(count), reserve=reserve)
    return queries._parameters(request)


def take(
    config: Config, key: str = "", *, now: int, count: float = 1, reserve: bool = False, offset: int = 0,
    pick: Sequence[int] = (0, 1),
) -> tuple[bool, float | None, float]:  # fmt: skip
    """One decision at `now`: granted, retry_after in ms, remaining."""
    given = parameters(config, key, count=count, reserve=reserve)
    draws = {"draw": (offset + 0.5) / config.period_ms, "one": pick[0], "other": pick[-1]}
    with connection.cursor() as cursor:
        cursor.execute(TAKE if config.shards == 1 else TAKE_SHARDED, {**given, "now": now, **draws})
        answer: tuple[bool, float | None, float] = cursor.fetchone()
    return answer


def take_all(
    requests: Sequence[dict[str, Any]], *, now: int, draw: float = 0.5
) -> list[tuple[bool, float | None, float | None]]:
    """A decision on several at `now`."""
    with connection.cursor() as cursor:
        cursor.execute(TAKE_ALL, {"requests": json.dumps(list(requests)), "now": now, "draw": draw})
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
    given = parameters(config, key, name=name)
    share = {"rate": given["rate"] / config.shards, "most": given["most"] / config.shards}
    Bucket.objects.bulk_create(
        Bucket(name=name, key=key, shard=shard, shards=config.shards, is_window=given["is_window"],
               period_ms=given["period_ms"], value=state.value, ts=state.ts, used=0, **share)
        for shard, state in enumerate(states) if state is not None
    )  # fmt: skip


def config_of(*, rate: float, shards: int = 1, **fields: Any) -> TokenBucket:
    """So many tokens a second."""
    return TokenBucket(rate, timedelta(seconds=1), shards=shards, **fields)


def with_shards(config: Config, number: int) -> Config:
    """The same limit, divided otherwise."""
    return replace(config, shards=number)
