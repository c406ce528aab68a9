"""Claims while somebody holds a snapshot: their cost by how many jobs have passed, with marks that move on and without.

.venv/bin/python -m benchmarks.snapshot [--quick]

Then the steady farm: 800 jobs a second come in and are done by two workers, for thirty minutes (`--minutes`), without
and with the snapshot: throughput and pick-up. The peers get a tenth of that time; what they lose, they lose in it.
"""

import argparse
import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime
from statistics import median, quantiles

import psycopg

from benchmarks import own, results
from benchmarks.arena import Place, Workers, places
from benchmarks.options import Options, read
from benchmarks.peers import OURS, Contender, install
from benchmarks.results import Table
from jobs import operations
from jobs.models import Mark, Worker
from postgres import connections

PASS, STEP, CLAIMS, RATE = 150_000, 1_000, 20, 800
PEER_SHARE = 0.1
HELD = "snapshot held"
STEADY_PEERS = ("PgQueuer", "graphile-worker")


def main(options: Options, *, minutes: float = 30) -> list[Table]:
    """Measure; a table for the claims, and two for the steady farm."""
    return [_claims(options), *_steady(options, seconds=options.seconds(minutes * 60))]


def _claims(options: Options) -> Table:
    passed = options.many(PASS, least=STEP)
    names = ("marked, at first", f"marked, after {passed:,} jobs", f"without marks, after {passed:,} jobs")
    table = Table(
        what="Claim of one job under a held snapshot (buffers)", floor=names[0], ours=names[1], mark=1.5,
        is_less_better=True,
    )  # fmt: skip
    with own.database():
        worker, _ = operations.create_worker("bench", queues=["noop"])
        own.fill("noop", passed + 2 * STEP)
        own.settle_down()
        with held(connections.conninfo()):
            operations.claim(worker, limit=STEP)
            table.values[names[0]] = _buffers(worker)
            for _ in range(passed // STEP):
                operations.claim(worker, limit=STEP)
            table.values[names[1]] = _buffers(worker)
            Mark.objects.update(at=datetime(2000, 1, 1, tzinfo=UTC))
            table.values[names[2]] = _buffers(worker)
    return table


def _buffers(worker: Worker) -> list[float]:
    return [float(own.buffers(own.claim_plan(worker, "noop"))) for _ in range(CLAIMS)]


def _steady(options: Options, *, seconds: float) -> list[Table]:
    contenders = [OURS, *(peer for peer in options.peers if peer.name in STEADY_PEERS)]
    base, ours = _name(OURS, seconds), _name(OURS, seconds, HELD)
    waits = Table(what=f"Steady {RATE} jobs/s: pick-up p99 (ms)", floor=base, ours=ours, mark=2.0, is_less_better=True)
    done = Table(what=f"Steady {RATE} jobs/s: jobs done (jobs/s)", floor=base, ours=ours, mark=0.95)
    for contender in contenders:
        install(contender)
        for_s = seconds * (1.0 if contender is OURS else PEER_SHARE)
        for held_or_not in ((), (HELD,)):
            name = _name(contender, for_s, *held_or_not)
            try:
                rate, picked = _flow(contender, for_s, is_held=bool(held_or_not))
            except TimeoutError as late:  # a peer that fell behind for good
                done.notes.append(f"{name}: {late} in time.")
                continue
            done.add(name, rate)
            p50, p99 = median(picked) * 1000, quantiles(picked, n=100)[98] * 1000
            waits.add(name, p99)
            options.say(f"{name}: {rate:,.0f} jobs/s, p50 {p50:.1f} ms, p99 {p99:.1f} ms")
    return [done, waits]


def _name(contender: Contender, seconds: float, *more: str) -> str:
    return ", ".join([contender.name, f"{seconds:.0f} s", *more])


def _flow(contender: Contender, seconds: float, *, is_held: bool) -> tuple[float, list[float]]:
    jobs = int(seconds * RATE)
    with places([contender]) as found, contextlib.ExitStack() as stack:
        place = found[contender]
        if is_held:
            stack.enter_context(held(place.environment["BENCH_CONNINFO"]))
        with Workers(place, more={"BENCH_LATENCY": "1"}) as workers:
            _send(place, jobs)
            counted = workers.drained(jobs, within_s=seconds + 120)
    took_s = max(one["last"] for one in counted) - min(one["first"] for one in counted)
    return jobs / took_s, [wait for one in counted for wait in one["waits"]]


def _send(place: Place, jobs: int) -> None:
    place.run("steady", jobs, BENCH_PACE_S=str(1 / RATE))


@contextlib.contextmanager
def held(conninfo: str) -> Iterator[None]:
    """A REPEATABLE READ transaction that has looked once and does not end."""
    with psycopg.connect(conninfo) as other:
        other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        other.execute("SELECT count(*) FROM pg_class")
        yield
        other.rollback()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    results.show(main(read(parser), minutes=parser.parse_known_args()[0].minutes))
