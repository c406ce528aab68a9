"""Jobs that come after others beside the same jobs without edges: drained by one worker, from the first claim on.

.venv/bin/python -m benchmarks.flows [--quick] [--rounds 3]

One process that submits, claims and finishes through the Python API, on a database of its own. `chain`: each job after
the one before it, one in a call, as no worker could take more. `fan`: all after none and one after all of them, one and
a hundred in a call. What is compared takes turns.
"""

import time
from typing import Final

from benchmarks import own
from benchmarks.options import Options, parse
from benchmarks.results import Table
from jobs import kinds, operations
from jobs.models import Live, Worker
from jobs.operations import NewJob

CHAIN: Final = 1000  # the deepest flow
FAN: Final = 10_000  # the widest one
MARK: Final = 0.7
PLAIN: Final = "without edges"


def main(options: Options) -> list[Table]:
    """Measure; a table in jobs a second."""
    kinds.declare(operations.Kind(name="noop", queue="noop"))
    chain, fan = options.many(CHAIN, least=20), options.many(FAN, least=20)
    tables, jobs_of = [], {"chain": _chain, "fan": _fan}
    with own.database():
        operations.sync()
        worker, _ = operations.create_worker("bench", queues=["noop"])
        for flow, count, batch in (("chain", chain, 1), ("fan", fan, 1), ("fan", fan, 100)):
            what = f"A {flow} of {count:,} jobs, {batch} in a call (jobs/s)"
            table = Table(what=what, floor=PLAIN, ours=flow, mark=MARK)
            for _ in range(options.rounds):
                for name, fill in ((PLAIN, _plain), (flow, jobs_of[flow])):
                    fill(count)
                    own.settle_down()
                    table.add(name, _drained(worker, batch=batch))
            options.say(table.markdown())
            tables.append(table)
    return tables


def _plain(count: int) -> None:
    _submit([NewJob(kind="noop", payload={"n": n}) for n in range(count)])


def _chain(count: int) -> None:
    _submit([
        NewJob(kind="noop", payload={"n": n}, name=f"{n}", after=[f"{n - 1}"] if n else None) for n in range(count)
    ])  # fmt: skip


def _fan(count: int) -> None:
    operations.submit("noop", {}, after=_submit([NewJob(kind="noop", payload={"n": n}) for n in range(1, count)]))


def _submit(new: list[NewJob]) -> list[int]:
    begins = range(0, len(new), 1000)
    return [
        one for begin in begins for one in operations.submit_many(new[begin : begin + 1000]) if isinstance(one, int)
    ]


def _drained(worker: Worker, *, batch: int) -> float:
    """How many a second it ended."""
    count, begin = Live.objects.count(), time.perf_counter()
    claimed = operations.claim(worker, limit=batch)
    while claimed:
        done = [operations.Finished(job_id=one.id, lease=one.lease, outcome="success") for one in claimed]
        _, claimed = operations.finish_and_claim(worker, done, limit=batch)
        claimed = claimed or operations.claim(worker, limit=batch)  # what comes next may be let go after the commit
    taken_s = time.perf_counter() - begin
    if left := Live.objects.count():
        raise RuntimeError(f"{left} of {count} jobs were never let go")
    return count / taken_s


if __name__ == "__main__":
    main(parse(__doc__))
