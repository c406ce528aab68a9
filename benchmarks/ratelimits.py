"""Decisions per second and their p99, beside a bare UPDATE, the package `limits` on Redis, and
django-ratelimit.

.venv/bin/python -m benchmarks.ratelimits [--rounds 8] [--connections 1,4,16] [--without-peers]

Each contender has processes of its own, one connection each, that stay for the whole run. In every round each
works for a short slice, one after the other, so that what else the machine does strikes all alike; a ratio is
the median of the ratios of the rounds. Compare the numbers of one run with each other only. It takes some two
minutes, needs a PostgreSQL that lets us create a database (the embedded one does), redis-server on the PATH, and
the network once: the peers are installed into `var/benchmarks`.
"""

import argparse
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from benchmarks.options import scaled, scaled_s
from benchmarks.peers import HOME

PACKAGES = ("limits==5.8.0", "redis==8.1.0", "django-ratelimit==4.1.0", "Django==5.2.19", "psycopg[binary,pool]==3.3.9")
DATABASE = f"jobfarm_benchmark_{os.getpid()}"
SLICE_S = scaled_s(0.4, least_s=0.1)
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


# The order is that of a round: what is compared stands side by side.
BARE, OURS = Contender(name="bare"), Contender(name="ours")
OURS_16 = Contender(name="ours_16", is_hot=True)
BARE_HOT, OURS_HOT = Contender(name="bare", is_hot=True), Contender(name="ours", is_hot=True)
CONTENDERS = (
    BARE,
    OURS,
    OURS_16,
    BARE_HOT,
    OURS_HOT,
    Contender(name="limits", is_peer=True),
    Contender(name="limits", is_peer=True, is_hot=True),
    Contender(name="django_ratelimit", is_peer=True),
    Contender(name="django_ratelimit", is_peer=True, is_hot=True),
)
RATIOS = (
    ("ours / bare UPDATE, many keys", OURS, BARE),
    ("ours / bare UPDATE, one hot key", OURS_HOT, BARE_HOT),
    ("hot key with 16 shards / many keys", OURS_16, OURS),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """What the processes of one contender did in one slice: decisions a second, and latencies in seconds."""

    rate: float
    latencies: list[float]


@dataclass
class Team:
    """The processes of one contender; see benchmarks/ratelimits_work.py for what they say."""

    contender: Contender
    size: int
    environment: dict[str, str]
    process: "subprocess.Popen[str]" = field(init=False)

    def __post_init__(self) -> None:
        python = HOME / "bin" / "python" if self.contender.is_peer else Path(sys.executable)
        place = "hot" if self.contender.is_hot else "many"
        script = Path(__file__).with_name("ratelimits_work.py")
        command = [str(python), str(script), self.contender.name, place, str(self.size), str(SLICE_S)]
        self.process = subprocess.Popen(
            command, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def ready(self) -> None:
        """Wait until all of them are connected and have warmed up."""
        assert self._answer() == "ready", self.contender

    def work(self, connections: int) -> Slice:
        """Let so many of them decide for one slice."""
        assert self.process.stdin
        self.process.stdin.write(f"{connections}\n")
        found = json.loads(self._answer())
        return Slice(rate=found["decisions"] / SLICE_S, latencies=found["latencies"])

    def end(self) -> None:
        """End them."""
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()

    def _answer(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()


def main() -> None:
    """Set up, let all take turns, print, and take down."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what was set up is taken down
    options = _options()
    contenders = [one for one in CONTENDERS if not (one.is_peer and options.without_peers)]
    if not options.without_peers:
        _install_peers()
    with _database() as database, _redis() as redis_url:
        environment = {**os.environ, "JOBFARM_TEST_DATABASE": DATABASE, **database, "BENCHMARK_REDIS": redis_url}
        script = str(Path(__file__).with_name("ratelimits_work.py"))
        subprocess.run([sys.executable, script, "prepare"], env=environment, check=True)
        with _teams(contenders, max(options.connections), environment) as teams:
            for connections in options.connections:
                _print(connections, _raced(teams, connections, rounds=options.rounds))
    print(CRASH)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=scaled(8), help="slices of each, for each number of connections")
    parser.add_argument("--connections", type=lambda text: [int(n) for n in text.split(",")], default=[1, 4, 16])
    parser.add_argument("--without-peers", action="store_true")
    return parser.parse_args()


@contextlib.contextmanager
def _teams(contenders: list[Contender], size: int, environment: dict[str, str]) -> Iterator[list[Team]]:
    teams = [Team(contender, size, environment) for contender in contenders]
    try:
        for team in teams:
            team.ready()
        yield teams
    finally:
        for team in teams:
            team.end()


def _raced(teams: list[Team], connections: int, *, rounds: int) -> dict[Contender, list[Slice]]:
    found: defaultdict[Contender, list[Slice]] = defaultdict(list)
    for _ in range(rounds):
        for team in teams:
            found[team.contender].append(team.work(connections))
    return found


def _print(connections: int, found: dict[Contender, list[Slice]]) -> None:
    print(f"\n{connections} connections   decisions/s      p50       p99")
    for contender, slices in found.items():
        ordered = sorted(latency for one in slices for latency in one.latencies)
        p50, p99 = ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)]
        place = "one hot key" if contender.is_hot else "many keys"
        rate = median(one.rate for one in slices)
        print(f"{place:12} {contender.name:17} {rate:8,.0f} {p50 * 1000:6.2f} ms {p99 * 1000:6.2f} ms")
    for words, above, below in RATIOS:
        pairs = zip(found[above], found[below], strict=True)
        ratios = sorted(one.rate / other.rate for one, other in pairs)
        print(f"{words}: {median(ratios):.2f} (rounds from {ratios[0]:.2f} to {ratios[-1]:.2f})")
    sys.stdout.flush()


def _install_peers() -> None:
    if not (HOME / "bin" / "python").exists():
        subprocess.run([sys.executable, "-m", "venv", HOME], check=True)
    subprocess.run([HOME / "bin" / "pip", "install", "--quiet", *PACKAGES], check=True)


@contextlib.contextmanager
def _database() -> Iterator[dict[str, str]]:
    """A database of this run, dropped at its end; how a Django without our backend reaches it."""
    import django  # noqa: PLC0415  # settings are read here and not where --help is asked
    import psycopg  # noqa: PLC0415

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "jobfarm.settings")
    django.setup()
    from django.conf import settings  # noqa: PLC0415

    from postgres import connections  # noqa: PLC0415

    ours = settings.DATABASES["default"]
    plain = {name: ours[name] for name in ("HOST", "PORT", "USER", "PASSWORD")}
    plain |= {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": DATABASE,
        "OPTIONS": {name: value for name, value in ours["OPTIONS"].items() if name != "pool"},
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
        place = ["--port", str(port), "--bind", "127.0.0.1", "--dir", folder]
        durable = ["--appendonly", "yes", "--appendfsync", "everysec"]
        command = ["redis-server", *place, *durable, "--loglevel", "warning"]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
