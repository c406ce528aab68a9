"""Pick-up on an idle farm: from before the enqueue call to the start of the handler.

.venv/bin/python -m benchmarks.pickup [--quick] [--rounds 3] [--only PgQueuer,Celery] [--without-peers]

One worker, which waits; one job each 20 ms. Ours three ways: a process beside the database, and the client over a
WebSocket and over long-poll HTTP, through one web process. All share one clock.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import median, quantiles

from benchmarks import results
from benchmarks.arena import Place, Workers, places
from benchmarks.options import Options, parse
from benchmarks.peers import OURS, Contender, install
from benchmarks.results import Table
from benchmarks.web import server

JOBS, WARM_UP = 200, 20
WAYS = {"jobfarm, WebSocket": "ws", "jobfarm, long-poll": "http"}
SOCKET = "jobfarm, WebSocket"


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How jobs come in, and the worker that gets them."""

    place: Place
    workers: Workers


def main(options: Options) -> list[Table]:
    """Measure; a table of p50 and one of p99."""
    contenders = [OURS, *options.peers]
    for one in contenders:
        install(one)
    p50 = Table(what="Pick-up, idle, p50 (ms)", floor=OURS.name, ours=SOCKET, mark=1.4, is_less_better=True)
    p99 = Table(what="Pick-up, idle, p99 (ms)", floor=OURS.name, ours=SOCKET, mark=2.0, is_less_better=True)
    with places(contenders) as found:
        for _ in range(options.rounds):
            for name, way in _ways(found):
                waits = _waits(way, options.many(JOBS, least=10))
                p50.add(name, median(waits) * 1000)
                p99.add(name, quantiles(waits, n=100)[98] * 1000)
                options.say(f"{name}: p50 {p50.values[name][-1]:.1f} ms, p99 {p99.values[name][-1]:.1f} ms")
    return [p50, p99]


def _ways(found: dict[Contender, Place]) -> Iterator[tuple[str, Way]]:
    """One after the other: a server that a way needs is gone when the next begins."""
    for contender, place in found.items():
        yield contender.name, Way(place=place, workers=_worker(place, {}))
    ours = found[OURS]
    for name, transport in WAYS.items():
        with server("jobfarm.asgi:application", ours.environment) as port:
            key = str(ours.run("key")["key"])
            more = {"BENCH_SITE": f"http://127.0.0.1:{port}", "BENCH_KEY": key, "BENCH_TRANSPORT": transport}
            client = replace(ours, contender=replace(OURS, script="ours_network.py"))
            yield name, Way(place=ours, workers=_worker(client, more))


def _worker(place: Place, more: dict[str, str]) -> Workers:
    return Workers(place, how_many=1, more={**more, "BENCH_LATENCY": "1", "BENCH_BATCH": "1"})


def _waits(way: Way, jobs: int) -> list[float]:
    """The first ones, for which connections and plans are made, do not count."""
    with contextlib.ExitStack() as stack:
        workers = stack.enter_context(way.workers)
        way.place.run("paced", WARM_UP)
        workers.drained(WARM_UP)
        way.place.run("paced", jobs)
        counted = workers.drained(WARM_UP + jobs)
    return [wait for one in counted for wait in one["waits"][WARM_UP:]]


if __name__ == "__main__":
    results.show(main(parse(__doc__)))
