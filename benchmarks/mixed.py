"""Submit, claim and finish at once: how long jobs wait at 60 % of the rate at which they pass.

.venv/bin/python -m benchmarks.mixed [--quick] [--rounds 3] [--only PgQueuer,pg-boss] [--without-peers]

Two workers wait. One client submits, a commit each, as fast as it can: jobs done a second are the rate at which jobs
pass. Then it submits at 60 % of that rate, by the clock, and the wait of each job is from before its enqueue call to
the start of its handler. The pace is each contender's own, so the waits are compared beside the rates.
"""

from collections.abc import Iterator
from statistics import median, quantiles

from benchmarks import results
from benchmarks.arena import Found, Place, Workers, places
from benchmarks.options import Options, parse
from benchmarks.peers import OURS, install
from benchmarks.results import Table

SHARE = 0.6
JOBS, SECONDS, WARM_UP = 2_000, 10.0, 100
WITHIN_S = 120.0


def main(options: Options) -> list[Table]:
    """Measure; tables of the rate, of p50 and of p99."""
    contenders = [OURS, *options.peers]
    for one in contenders:
        install(one)
    rate = Table(what="Submit, claim and finish at once (jobs/s)", floor=OURS.name)
    p50 = Table(what="The same at 60 % of that rate: wait p50 (ms)", floor=OURS.name, is_less_better=True)
    p99 = Table(what="The same at 60 % of that rate: wait p99 (ms)", floor=OURS.name, is_less_better=True)
    with places(contenders) as prepared:
        for _ in range(options.rounds):
            for place in prepared.values():
                _add(place, options, rate, p50, p99)
    return [rate, p50, p99]


def _add(place: Place, options: Options, rate: Table, p50: Table, p99: Table) -> None:
    name = place.contender.name
    try:
        passed, waits = _round(place, options)
    except TimeoutError as late:  # the others are still worth having
        rate.notes.append(f"{late} within {WITHIN_S:g} s.")
        return
    rate.add(name, passed)
    p50.add(name, median(waits) * 1000)
    p99.add(name, quantiles(waits, n=100)[98] * 1000)
    options.say(f"{name}: {passed:,.0f}/s, p50 {p50.values[name][-1]:.1f} ms, p99 {p99.values[name][-1]:.1f} ms")


def _round(place: Place, options: Options) -> tuple[float, list[float]]:
    """The rate at which jobs pass, and the waits at 60 % of it; each with workers of its own."""
    jobs = options.many(int(JOBS * place.contender.share), least=50)
    with Workers(place, more={"BENCH_LATENCY": "1"}) as workers:
        place.run("enqueue", jobs, BENCH_WARM_UP=str(WARM_UP))
        counted = workers.drained(WARM_UP + jobs, within_s=WITHIN_S)
    passed = (WARM_UP + jobs) / (max(_each(counted, "last")) - min(_each(counted, "first")))
    return passed, _waits(place, SHARE * passed, options.seconds(SECONDS))


def _waits(place: Place, rate: float, seconds: float) -> list[float]:
    jobs = max(50, int(rate * seconds))
    with Workers(place, more={"BENCH_LATENCY": "1"}) as workers:
        place.run("enqueue", WARM_UP)  # these carry no time
        workers.drained(WARM_UP, within_s=WITHIN_S)
        place.run("steady", jobs, BENCH_PACE_S=str(1 / rate))
        counted = workers.drained(WARM_UP + jobs, within_s=WITHIN_S)
    return sorted(wait for one in counted for wait in one["waits"])


def _each(counted: list[Found], key: str) -> Iterator[float]:
    return (float(one[key]) for one in counted)


if __name__ == "__main__":
    results.show(main(parse(__doc__)))
