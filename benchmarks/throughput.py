"""Enqueue (a commit each), bulk submit, and drain by two workers: us, the floor, the peers.

.venv/bin/python -m benchmarks.throughput [--quick] [--rounds 3] [--only PgQueuer,Celery] [--without-peers]

In each round every contender does all three, one contender after the other, so that what else the machine does strikes
all alike; a ratio is the median of the ratios of the rounds. Enqueue and bulk are timed after a hundred jobs each: what
it takes to start and to connect is not in them.
"""

from collections.abc import Mapping

from benchmarks import results
from benchmarks.arena import Place, Workers, places
from benchmarks.options import Options, parse
from benchmarks.peers import OURS, RAW, install
from benchmarks.results import Table

ENQUEUED, DRAINED, WARM_UP = 1_000, 20_000, 100
DRAINED_WITHIN_S = 120
WATERMARKS = {"enqueue": 0.8, "bulk": 0.6, "drain": 0.85}
WHAT = {
    "enqueue": "Enqueue, one client, one job a commit (jobs/s)",
    "bulk": "Bulk submit (jobs/s)",
    "drain": "Drain a backlog, two worker processes (jobs/s)",
}


def main(options: Options) -> list[Table]:
    """Measure; three tables."""
    contenders = [RAW, OURS, *options.peers]
    for one in contenders:
        install(one)
    tables = {row: Table(what=WHAT[row], floor=RAW.name, ours=OURS.name, mark=mark) for row, mark in WATERMARKS.items()}
    with places(contenders) as found:
        for _ in range(options.rounds):
            for place in found.values():
                for row, rate in _round(place, options, tables).items():
                    tables[row].add(place.contender.name, rate)
    return list(tables.values())


def _round(place: Place, options: Options, tables: Mapping[str, Table]) -> dict[str, float]:
    share = place.contender.share
    enqueued = options.many(int(ENQUEUED * share), least=50)
    bulk = options.many(int(DRAINED * share), least=200)
    rates = {}
    for row, count in (("enqueue", enqueued), ("bulk", bulk)):
        result = place.run(row, count, BENCH_WARM_UP=str(WARM_UP))
        rates[row] = result["jobs"] / result["seconds"]
    backlog = enqueued + bulk + 2 * WARM_UP
    with Workers(place) as workers:
        try:
            found = workers.drained(backlog, within_s=DRAINED_WITHIN_S)
            took_s = max(one["last"] for one in found) - min(one["first"] for one in found)
            rates["drain"] = backlog / took_s
        except TimeoutError as late:  # the others are still worth having
            tables["drain"].notes.append(f"{late} within {DRAINED_WITHIN_S} s.")
    options.say(f"{place.contender.name}: " + ", ".join(f"{row} {rate:,.0f}" for row, rate in rates.items()))
    return rates


if __name__ == "__main__":
    results.show(main(parse(__doc__)))
