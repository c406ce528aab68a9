"""Decisions per second and their p99, beside a bare UPDATE, the package `limits` on Redis, and
django-ratelimit.

.venv/bin/python benchmarks/ratelimits.py [--seconds 10] [--connections 1,4,16] [--without-peers]

Each contender runs in processes of its own, one connection each; slices of two seconds take turns, so that
what else the machine does strikes all alike. Compare the numbers of one run with each other only. Needs a
PostgreSQL that lets us create a database (the embedded one does), redis-server on the PATH, and the network
once: the peers are installed into `var/benchmarks`.
"""

# ruff: noqa: PLC0415  (what a process imports depends on whom it runs: peers live in an environment of their
# own)

import argparse
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PEERS = ROOT / "var" / "benchmarks"
PACKAGES = (
    "limits==5.8.0",
    "redis==8.1.0",
    "django-ratelimit==4.1.0",
    "Django==5.2.19",
    "psycopg[binary,pool]==3.3.9",
)
DATABASE = f"jobfarm_benchmark_{os.getpid()}"
KEYS = 10_000
SLICE_S = 2.0
CRASH = """
What a crash loses. Ours, the bare UPDATE and django-ratelimit (fsync and synchronous_commit on): nothing that
was answered. Redis with appendfsync everysec, as run here: up to a second of decisions, so that a limit may grant
that second twice; with the snapshots that Redis makes by default, minutes. A limit that may forget a second is
served faster by Redis; one that guards money or log-ins is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """What runs: `name`, the environment it runs in, and whether all share one key."""

    name: str
    is_peer: bool = False
    is_hot: bool = False


CONTENDERS = (
    Contender(name="bare"),
    Contender(name="ours"),
    Contender(name="limits", is_peer=True),
    Contender(name="django_ratelimit", is_peer=True),
    Contender(name="bare", is_hot=True),
    Contender(name="ours", is_hot=True),
    Contender(name="ours_16", is_hot=True),
    Contender(name="limits", is_peer=True, is_hot=True),
    Contender(name="django_ratelimit", is_peer=True, is_hot=True),
)


def main() -> None:
    """Set up, let all take turns, print, and take down."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what was set up is taken down
    options = _options()
    contenders = [one for one in CONTENDERS if not (one.is_peer and options.without_peers)]
    if not options.without_peers:
        _install_peers()
    with _database() as database, _redis() as redis_url:
        environment = {
            **os.environ,
            "JOBFARM_TEST_DATABASE": DATABASE,
            **database,
            "BENCHMARK_REDIS": redis_url,
        }
        _check_call("prepare", environment)
        for connections in options.connections:
            _race(contenders, connections, options.seconds, environment)
    print(CRASH)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--seconds", type=float, default=10, help="of each contender, for each number of connections"
    )
    parser.add_argument(
        "--connections", type=lambda text: [int(n) for n in text.split(",")], default=[1, 4, 16]
    )
    parser.add_argument("--without-peers", action="store_true")
    return parser.parse_args()


def _race(contenders: list[Contender], connections: int, seconds: float, environment: dict[str, str]) -> None:
    rates: defaultdict[Contender, list[float]] = defaultdict(list)
    latencies: defaultdict[Contender, list[float]] = defaultdict(list)
    for _ in range(max(1, round(seconds / SLICE_S))):
        for contender in contenders:
            rate, found = _slice(contender, connections, environment)
            rates[contender].append(rate)
            latencies[contender].extend(found)
    print(f"\n{connections} connections   decisions/s      p50       p99")
    for contender in contenders:
        ordered = sorted(latencies[contender])
        p50, p99 = ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)]
        place = "one hot key" if contender.is_hot else "many keys"
        rate = sum(rates[contender]) / len(rates[contender])
        print(f"{place:12} {contender.name:17} {rate:8,.0f} {p50 * 1000:6.2f} ms {p99 * 1000:6.2f} ms")
    _print_ratios({one: sum(found) for one, found in rates.items()})


def _print_ratios(totals: dict[Contender, float]) -> None:
    many, bare = totals[Contender(name="ours")], totals[Contender(name="bare")]
    print(f"ours / bare UPDATE, many keys: {many / bare:.2f}")
    hot_bare = totals[Contender(name="bare", is_hot=True)]
    print(f"ours / bare UPDATE, one hot key: {totals[Contender(name='ours', is_hot=True)] / hot_bare:.2f}")
    print(f"hot key with 16 shards / many keys: {totals[Contender(name='ours_16', is_hot=True)] / many:.2f}")


def _slice(contender: Contender, connections: int, environment: dict[str, str]) -> tuple[float, list[float]]:
    """Decisions a second of all processes together, and how long every tenth took, in seconds.

    They connect and warm up first, and begin together when the last of them is ready.
    """
    place = "hot" if contender.is_hot else "many"
    command = [str(_python(contender)), __file__, "--work", contender.name, place]
    workers = [
        subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        for _ in range(connections)
    ]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n", contender
    start = time.monotonic() + 0.1
    for worker in workers:
        assert worker.stdin
        worker.stdin.write(f"{start}\n")
    found = [json.loads(worker.communicate()[0]) for worker in workers]
    took = [latency for answer in found for latency in answer["latencies"]]
    return sum(answer["decisions"] for answer in found) / SLICE_S, took


def _python(contender: Contender) -> Path:
    return PEERS / "bin" / "python" if contender.is_peer else Path(sys.executable)


def _install_peers() -> None:
    if not (PEERS / "bin" / "python").exists():
        subprocess.run([sys.executable, "-m", "venv", PEERS], check=True)
    subprocess.run([PEERS / "bin" / "pip", "install", "--quiet", *PACKAGES], check=True)


@contextlib.contextmanager
def _database() -> Iterator[dict[str, str]]:
    """A database of this run, dropped at its end; how a Django without our backend reaches it."""
    import psycopg

    _setup()
    from django.conf import settings

    from postgres import connections

    ours = settings.DATABASES["default"]
    plain = {name: ours[name] for name in ("HOST", "PORT", "USER", "PASSWORD")}
    options = {name: value for name, value in ours["OPTIONS"].items() if name != "pool"}
    plain |= {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": DATABASE,
        "OPTIONS": options,
        "CONN_MAX_AGE": None,
    }

    with psycopg.connect(connections.conninfo(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {DATABASE}")
        try:
            yield {"BENCHMARK_DATABASES": json.dumps({"default": plain})}
        finally:
            connection.execute(f"DROP DATABASE {DATABASE} WITH (FORCE)")


@contextlib.contextmanager
def _redis() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        durable = ["--appendonly", "yes", "--appendfsync", "everysec", "--dir", folder]
        command = [
            "redis-server",
            "--port",
            str(port),
            "--bind",
            "127.0.0.1",
            "--loglevel",
            "warning",
            *durable,
        ]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            server.terminate()
            server.wait()


def _check_call(what: str, environment: dict[str, str]) -> None:
    subprocess.run([sys.executable, __file__, "--work", what], env=environment, check=True)


# From here on: what runs in the processes that are started above.


def _work(what: str, place: str = "") -> None:
    """One process's part of a slice, told as JSON; or the preparation."""
    if what == "prepare":
        _prepare()
        return
    decide = _DECIDERS[what]()
    keys = _keys(place)
    for _ in range(50):
        decide(next(keys))
    print("ready", flush=True)
    start = float(sys.stdin.readline())
    time.sleep(max(0.0, start - time.monotonic()))
    print(json.dumps(_measured(decide, keys)))


def _measured(decide: Callable[[str], object], keys: Iterator[str]) -> dict[str, Any]:
    latencies = []
    decisions = 0
    before = time.perf_counter()
    end = before + SLICE_S
    while before < end:
        decide(next(keys))
        after = time.perf_counter()
        if decisions % 10 == 0:
            latencies.append(after - before)
        decisions += 1
        before = after
    return {"decisions": decisions, "latencies": latencies}


def _keys(place: str) -> Iterator[str]:
    import random

    dice = random.Random(os.getpid())  # noqa: S311  # which key comes next is no secret
    while True:
        yield "hot" if place == "hot" else f"key {dice.randrange(KEYS)}"


def _setup() -> None:
    import django

    sys.path.insert(0, str(ROOT))
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


def _bare() -> Callable[[str], object]:
    _setup()
    from postgres.statements import Statement

    sql = "UPDATE bare SET value = value - 1 WHERE key = %(key)s"
    statement = Statement(name="benchmark.bare", caption="", sql=sql)
    return lambda key: statement.run({"key": key})


def _ours(shards: int = 1) -> Callable[[str], object]:
    _setup()
    from datetime import timedelta

    from ratelimits import operations

    config = operations.TokenBucket(1e9, timedelta(seconds=1), shards=shards)
    name = "many" if shards == 1 else "sharded"
    return lambda key: operations.limit(name, key=key, config=config)


def _limits() -> Callable[[str], object]:
    from limits import RateLimitItemPerHour, storage, strategies  # type: ignore[import-not-found]

    limiter = strategies.FixedWindowRateLimiter(storage.storage_from_string(os.environ["BENCHMARK_REDIS"]))
    item = RateLimitItemPerHour(1_000_000_000)
    return lambda key: limiter.hit(item, key)


def _django_ratelimit() -> Callable[[str], object]:
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


_DECIDERS: dict[str, Callable[[], Callable[[str], object]]] = {
    "bare": _bare,
    "ours": _ours,
    "ours_16": lambda: _ours(shards=16),
    "limits": _limits,
    "django_ratelimit": _django_ratelimit,
}

if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        _work(*sys.argv[2:])
    else:
        main()
