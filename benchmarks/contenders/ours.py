"""jobfarm through its Python API: batches of 100 when it drains, LISTEN and one job at a time when it waits."""

import gc
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "jobfarm.settings")

import django

django.setup()

import psycopg  # noqa: E402 (Django has to be set up first)
from django.core.management import call_command  # noqa: E402

from benchmarks import recorded  # noqa: E402
from benchmarks.contenders import verbs  # noqa: E402
from benchmarks.contenders.job_counter import JobCounter  # noqa: E402
from jobs import kinds, operations  # noqa: E402
from jobs.models import Worker  # noqa: E402
from postgres import connections  # noqa: E402

BATCH = int(os.environ.get("BENCH_BATCH", "100"))
KIND = kinds.declare(operations.Kind(name="noop", queue="noop"))

recorded.begin()

# As docs/scale.md advises: a full collection of all that Django is takes 75 ms, and 20,000 jobs cause one.
gc.collect()
gc.freeze()


def prepare() -> None:
    """Migrate, and make the workers."""
    if "BENCH_TEMPLATE" not in os.environ:  # a copy has been migrated
        call_command("migrate", verbosity=0)
    operations.sync()
    for number in range(2):
        operations.create_worker(f"bench{number}", queues=["noop"])


def bulk(count: int) -> None:
    """A thousand jobs a statement; as a flow, if BENCH_FLOW says so: a chain, or a fan with one job after all."""
    flow = os.environ.get("BENCH_FLOW")
    if flow == "chain":
        _chain(count)
        return
    if flow == "fan":
        count -= 1
    ids: list[int] = []
    for begin in range(0, count, 1000):
        many = range(begin, min(begin + 1000, count))
        new = [operations.NewJob(kind="noop", payload={"n": n}) for n in many]
        ids += [one for one in operations.submit_many(new) if isinstance(one, int)]
    if flow == "fan":
        operations.submit("noop", {}, after=ids)


def _chain(count: int) -> None:
    operations.submit_many([
        operations.NewJob(kind="noop", payload={"n": n}, name=f"{n}", after=[f"{n - 1}"] if n else None)
        for n in range(count)
    ])  # fmt: skip


def one(sent_at: float | None) -> None:
    """One job, committed."""
    operations.submit("noop", {"sent": sent_at})


def work() -> None:
    """Claim and finish until there is nothing more; then wait to be told."""
    worker = Worker.objects.filter(name=f"bench{os.environ.get('BENCH_WORKER', '0')}").get()
    counter = JobCounter()
    with psycopg.connect(connections.direct_conninfo(), autocommit=True) as listening:
        listening.execute("LISTEN live")
        while True:
            claimed = operations.claim(worker, limit=BATCH)
            while claimed:
                for job in claimed:
                    counter.job(job.payload.get("sent"))
                done = [operations.Finished(job_id=c.id, lease=c.lease, outcome="success") for c in claimed]
                _, claimed = operations.finish_and_claim(worker, done, limit=BATCH)
            for notice in listening.notifies(timeout=5):
                if '"work:noop"' in notice.payload:
                    break


def key() -> None:
    """Make a worker for the network, and say its key."""
    _, made = operations.create_worker("network", queues=["noop"])
    print(json.dumps({"key": made}))


if __name__ == "__main__" and sys.argv[1] == "key":
    key()
elif __name__ == "__main__":
    verbs.main(prepare=prepare, bulk=bulk, one=one, work=work)
