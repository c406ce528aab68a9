"""What a claim costs when ten million jobs ended and a million wait, or ten thousand at the head are not for it: hidden
from it, or with requirements of labels that it lacks, the same for all or of a thousand different sets.

.venv/bin/python -m benchmarks.depth [--quick]

The rows stand beside a queue of a thousand in the same table; the claims alternate and are rolled back.
"""

from django.conf import settings

from benchmarks import own, results
from benchmarks.options import Options, parse
from benchmarks.results import Table
from jobs import operations
from jobs.models import Requirement, Worker

ENDED, WAITING, HIDDEN, SHALLOW, CLAIMS = 10_000_000, 1_000_000, 10_000, 1_000, 200
SETS = 1_000  # as many as a farm knows
MOST = 1.5


def main(options: Options) -> list[Table]:
    """Measure; a table of times and one of buffers."""
    ended, waiting, hidden = (options.many(full, least=100) for full in (ENDED, WAITING, HIDDEN))
    sets = options.many(SETS, least=10)
    names = {
        "shallow": "1,000 waiting",
        "deep": f"{waiting:,} waiting, {ended:,} ended",
        "hidden": f"{hidden:,} at the head hidden from this worker",
        "required": f"{hidden:,} at the head require a label that it lacks",
        "sets": f"{hidden:,} at the head require {sets:,} different labels",
    }
    common = {"floor": names["shallow"], "ours": names["deep"], "mark": MOST, "is_less_better": True}
    times = Table(what="Claim of one job by depth (ms, p50 of each round)", **common)  # type: ignore[arg-type]
    pages = Table(what="Claim of one job by depth (buffers)", **common)  # type: ignore[arg-type]
    with own.database():
        worker = _fill(ended=ended, waiting=waiting, hidden=hidden, sets=sets)
        for _ in range(options.rounds):
            _round(worker, names, times, pages, claims=options.many(CLAIMS, least=5))
    return [times, pages]


def _fill(*, ended: int, waiting: int, hidden: int, sets: int) -> Worker:
    queues = ["shallow", "deep", "hidden", "required", "sets", "past"]
    worker, _ = operations.create_worker("bench", queues=queues)
    own.fill("past", ended, status="success")
    Requirement.objects.bulk_create(
        Requirement(pk=number, text=str(number), requires={"n": str(number)}, prefers={})
        for number in range(1, sets + 1)
    )
    settings.JOBFARM["EXCLUSION_S"] = 86_400.0  # what failed on the worker an hour ago stays hidden from it
    own.fill("hidden", hidden, avoid=[worker.pk])
    own.fill("required", hidden, requirement=1)
    for number in range(1, sets + 1):
        own.fill("sets", hidden // sets, requirement=number)
    depths = {"hidden": 10, "required": 10, "sets": 10, "shallow": SHALLOW, "deep": waiting}
    for queue, count in depths.items():
        own.fill(queue, count)
    own.settle_down()
    return worker


def _round(worker: Worker, names: dict[str, str], times: Table, pages: Table, *, claims: int) -> None:
    found: dict[str, list[tuple[float, int]]] = {queue: [] for queue in names}
    for _ in range(claims):
        for queue, plans in found.items():
            plan = own.claim_plan(worker, queue)
            plans.append((plan["Execution Time"], own.buffers(plan)))
    for queue, plans in found.items():
        times.add(names[queue], sorted(time for time, _ in plans)[len(plans) // 2])
        pages.add(names[queue], sorted(pages for _, pages in plans)[len(plans) // 2])


if __name__ == "__main__":
    results.show(main(parse(__doc__)))
