"""The processes that benchmarks/ratelimits.py lets work: forked from one that is set up, one connection each.

    ratelimits_work.py prepare | NAME many|hot SIZE SLICE_S

Says "ready"; for each number that comes on a line lets so many processes decide for one slice, and says as JSON how
many decisions that were, and how long every fifth took, in seconds. Ends with its input.
"""

# ruff: noqa: PLC0415  (what is imported depends on whom it runs: peers live in an environment of their own)

import json
import os
import random
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

KEYS = 10_000
Decide = Callable[[str], object]


def main() -> None:
    """Prepare the database, or be one contender."""
    if sys.argv[1] == "prepare":
        _prepare()
        return
    name, place, size, slice_s = sys.argv[1:]
    decide = _DECIDERS[name]()
    lines: list[socket.socket] = []
    for _ in range(int(size)):
        lines.append(_forked(decide, place, float(slice_s), others=lines))
    for line in lines:
        _read(line)
    print("ready", flush=True)
    for request in sys.stdin:
        print(json.dumps(_together(lines[: int(request)])), flush=True)


def _together(lines: list[socket.socket]) -> dict[str, Any]:
    start = time.monotonic() + 0.02
    for line in lines:
        line.sendall(f"{start}\n".encode())
    found = [json.loads(_read(line)) for line in lines]
    return {
        "decisions": sum(answer["decisions"] for answer in found),
        "latencies": [latency for answer in found for latency in answer["latencies"]],
    }


def _forked(decide: Decide, place: str, slice_s: float, *, others: list[socket.socket]) -> socket.socket:
    """One process, told by lines on the socket when to begin; nothing is connected before the fork."""
    ours, its = socket.socketpair()
    if os.fork():
        its.close()
        return ours
    for inherited in (ours, *others):  # else these would stay open when the first process ends
        inherited.close()
    try:
        _serve(its, decide, place, slice_s)
    finally:
        os._exit(0)


def _serve(line: socket.socket, decide: Decide, place: str, slice_s: float) -> None:
    keys = _keys(place)
    for _ in range(50):
        decide(next(keys))
    line.sendall(b"ready\n")
    while start := _read(line):
        time.sleep(max(0.0, float(start) - time.monotonic()))
        line.sendall(json.dumps(_measured(decide, keys, slice_s)).encode() + b"\n")


def _read(line: socket.socket) -> str:
    received = b""
    while not received.endswith(b"\n"):
        piece = line.recv(1 << 20)
        if not piece:
            return ""
        received += piece
    return received.decode()


def _measured(decide: Decide, keys: Iterator[str], slice_s: float) -> dict[str, Any]:
    latencies = []
    decisions = 0
    before = time.perf_counter()
    end = before + slice_s
    while before < end:
        decide(next(keys))
        after = time.perf_counter()
        if decisions % 5 == 0:
            latencies.append(after - before)
        decisions += 1
        before = after
    return {"decisions": decisions, "latencies": latencies}


def _keys(place: str) -> Iterator[str]:
    rng = random.Random(os.getpid())  # noqa: S311  # which key comes next is no secret
    while True:
        yield "hot" if place == "hot" else f"key {rng.randrange(KEYS)}"


def _setup() -> None:
    import django

    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "jobfarm.settings")
    django.setup()


def _prepare() -> None:
    """Tables, a row for each key, and statistics: nobody measures first uses."""
    _setup()
    from django.core.management import call_command
    from django.db import connection

    call_command("migrate", verbosity=0)
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE bare (key text PRIMARY KEY, value float8) WITH (fillfactor = 50)")
        cursor.execute("INSERT INTO bare SELECT 'key ' || n, 0 FROM generate_series(0, %s) n", [KEYS - 1])
        cursor.execute("INSERT INTO bare VALUES ('hot', 0)")
        cursor.execute(
            "INSERT INTO ratelimits_bucket"
            " (name, key, shard, shards, is_window, rate, period_ms, most, value, ts, used)"
            " SELECT 'many', 'key ' || n, 0, 1, false, 1e9, 1000, 1e9, 1e9, 0, 0 FROM generate_series(0, %s) n",
            [KEYS - 1],
        )
        cursor.execute("VACUUM ANALYZE")
    _cache_table()


def _cache_table() -> None:
    from django.core.cache.backends.db import DatabaseCache
    from django.core.management import call_command
    from django.test import override_settings

    caches = {"default": {"BACKEND": f"{DatabaseCache.__module__}.DatabaseCache", "LOCATION": "cache_table"}}
    with override_settings(CACHES=caches):
        call_command("createcachetable", verbosity=0)


def _bare() -> Decide:
    _setup()
    from postgres.statements import Statement

    sql = "UPDATE bare SET value = value - 1 WHERE key = %(key)s"
    statement = Statement(name="benchmark.bare", sql=sql)
    return lambda key: statement.run({"key": key})


def _ours(shards: int = 1) -> Decide:
    _setup()
    from datetime import timedelta

    from ratelimits import operations

    config = operations.TokenBucket(1e9, timedelta(seconds=1), shards=shards)
    name = "many" if shards == 1 else "sharded"
    return lambda key: operations.limit(name, key=key, config=config)


def _limits() -> Decide:
    from limits import RateLimitItemPerHour, storage, strategies  # type: ignore[import-not-found]

    limiter = strategies.FixedWindowRateLimiter(storage.storage_from_string(os.environ["BENCHMARK_REDIS"]))
    item = RateLimitItemPerHour(1_000_000_000)
    return lambda key: limiter.hit(item, key)


def _django_ratelimit() -> Decide:
    import django
    from django.conf import settings

    settings.configure(
        DATABASES=json.loads(os.environ["BENCHMARK_DATABASES"]),
        CACHES={
            "default": {
                "BACKEND": "django.core.cache.backends.db.DatabaseCache",
                "LOCATION": "cache_table",
                "OPTIONS": {"MAX_ENTRIES": 10 * KEYS},
            }
        },
        USE_TZ=True,
    )
    django.setup()
    from django.http import HttpRequest
    from django_ratelimit.core import is_ratelimited  # type: ignore[import-not-found]

    request = HttpRequest()
    return lambda key: is_ratelimited(
        request, group="x", key=lambda _group, _request: key, rate="1000000000/h", increment=True
    )


_DECIDERS: dict[str, Callable[[], Decide]] = {
    "bare": _bare,
    "ours": _ours,
    "ours_16": lambda: _ours(shards=16),
    "limits": _limits,
    "django_ratelimit": _django_ratelimit,
}

if __name__ == "__main__":
    main()
