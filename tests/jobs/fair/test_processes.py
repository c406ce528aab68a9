"""Workers in processes of their own share a fair queue out by time and weight, however long the jobs of each run."""

import contextlib
import os
from collections.abc import Iterator

import pytest
from django.db import connection

from jobs import operations
from jobs.models import Weight
from tests import farm, forkserver
from tests.effort import turn

pytestmark = pytest.mark.django_db(transaction=True)
LENGTHS_MS, WEIGHTS = (20, 50, 120), (1, 2, 3, 1)
WORKER = """
import django, sys, time
django.setup()
from jobs import operations
from jobs.models import Worker
worker, until = Worker.objects.get(pk=int(sys.argv[1])), time.monotonic() + float(sys.argv[2])
while time.monotonic() < until:
    for job in operations.claim(worker, limit=int(sys.argv[3])):  # but for the first they lie ready
        began_s = time.monotonic()
        time.sleep(job.payload["ms"] / 1000)  # the job itself: time is what is shared out
        end = {"outcome": "success", "ran_s": time.monotonic() - began_s}
        operations.finish(worker, [operations.Finished(job_id=job.id, lease=job.lease, **end)])
"""
# What each owner had of the machines, in the time in which all had something waiting; not for what lay ready.
BUSY = """
SELECT job.owner_id, sum((job.payload->>'ms')::float8) / 1000
FROM jobs_outcome AS outcome JOIN jobs_job AS job ON job.id = outcome.job_id GROUP BY 1
"""


@contextlib.contextmanager
def processes(workers: list[int], *, seconds: int, ready: int) -> Iterator[list[forkserver.Process]]:
    environment = {
        **os.environ,
        "JOBFARM_TEST_DATABASE": str(connection.settings_dict["NAME"]),
        "DJANGO_SETTINGS_MODULE": "jobfarm.settings",
    }
    started = [
        forkserver.Process(("-c", WORKER, str(worker), str(seconds), str(1 + ready)), env=environment, loaded=True)
        for worker in workers
    ]
    try:
        yield started
    finally:
        for process in started:
            process.kill()
            process.wait()


@pytest.mark.parametrize(
    ("workers", "tenants", "seconds", "within", "ready"),
    [
        *turn([(6, 12, 8, 0.3, 0), (4, 8, 8, 0.3, 9)], of=2),
        pytest.param(16, 50, 60, 0.1, 0, marks=pytest.mark.long),
        pytest.param(16, 50, 60, 0.1, 4, marks=pytest.mark.long),
    ],
)
def test_each_has_of_the_time_what_its_weight_says(
    workers: int, tenants: int, seconds: int, within: float, ready: int
) -> None:
    farm.kind()
    operations.set_fair("work", "owner")
    people = [farm.user(f"person{n}") for n in range(tenants)]
    weights = {person.pk: WEIGHTS[n % len(WEIGHTS)] for n, person in enumerate(people)}
    Weight.objects.bulk_create([Weight(owner_id=pk, weight=weight) for pk, weight in weights.items()])
    each = 2 * seconds * workers * 1000 // LENGTHS_MS[0] * 3 // sum(weights.values())
    for n, person in enumerate(people):
        payload = {"ms": LENGTHS_MS[n % len(LENGTHS_MS)]}
        operations.submit_many([farm.new_job(payload=payload, owner=person) for _ in range(each)])
    with processes([farm.worker(f"w{n}").pk for n in range(workers)], seconds=seconds, ready=ready) as started:
        assert [process.wait() for process in started] == [0] * workers
    with connection.cursor() as cursor:
        cursor.execute(BUSY)
        busy = dict(cursor.fetchall())
    total, all_weights = sum(busy.values()), sum(weights.values())
    off = {pk: busy.get(pk, 0) / total * all_weights / weight - 1 for pk, weight in weights.items()}
    print(f"{total:.0f} s of work, at most off by", max(map(abs, off.values())))
    assert {pk: round(part, 3) for pk, part in off.items() if abs(part) > within} == {}
