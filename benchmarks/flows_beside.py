"""Flows beside those of pg-boss and of DBOS: a chain, and a fan with one job after all, by two worker processes.

.venv/bin/python -m benchmarks.flows_beside [--quick] [--rounds 3]

Each drains what it submitted, from the first job on; ours a hundred a call. pg-boss looks for what may start each
second at most, so that its chain is short. A chain of DBOS is one workflow of so many steps, which one process runs.
"""

from typing import Final

from benchmarks import results
from benchmarks.arena import Place, Workers, places
from benchmarks.options import Options, parse
from benchmarks.peers import OF_FLOWS, OURS, install, is_installed
from benchmarks.results import Table

COUNTS: Final = {"chain": 1000, "fan": 10_000}
SHARES: Final = {("pg-boss", "chain"): 0.02, ("DBOS", "fan"): 0.1}
WITHIN_S: Final = 300


def main(options: Options) -> list[Table]:
    """Measure; a table in jobs a second for each form."""
    contenders = [OURS, *(one for one in OF_FLOWS if not options.quick or is_installed(one))]
    for one in contenders:
        install(one)
    tables = []
    with places(contenders) as found:
        for flow, count in COUNTS.items():
            table = Table(what=f"A {flow} of {count:,} jobs (jobs/s)", floor=OURS.name, ours=OURS.name)
            for _ in range(options.rounds):
                for place in found.values():
                    name = place.contender.name
                    share = SHARES.get((name, flow), 1)
                    table.add(name, _drained(place, flow, options.many(int(count * share), least=min(count, 10))))
            options.say(table.markdown())
            tables.append(table)
    return tables


def _drained(place: Place, flow: str, count: int) -> float:
    """How many a second it ended."""
    place.run("bulk", count, BENCH_FLOW=flow)
    with Workers(place, more={"BENCH_FLOW": flow}) as workers:
        done = workers.drained(count, within_s=WITHIN_S)
    took_s = max(one["last"] for one in done) - min(one["first"] for one in done)
    return float(count / took_s)


if __name__ == "__main__":
    results.show(main(parse(__doc__)))
