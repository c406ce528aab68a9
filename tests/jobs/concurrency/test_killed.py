"""A worker process dies by `kill -9`, and a janitor in a process of its own notices."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from django.db import connection

from jobs import operations
from jobs.errors import LeaseLost
from jobs.models import Attempt, Job
from tests import farm

pytestmark = pytest.mark.django_db(transaction=True)
ROOT = Path(__file__).resolve().parents[3]
# Claims one job, keeps it alive by heartbeats, and says so on its output.
WORKER = """
import django, sys, time
django.setup()
from jobs import operations
from jobs.models import Worker
worker = Worker.objects.get(pk=int(sys.argv[1]))
[job] = operations.claim(worker)
print(job.id, job.lease, flush=True)
while True:
    operations.heartbeat(worker, job.id, job.lease)
    time.sleep(0.1)
"""


@contextlib.contextmanager
def _process(*command: str) -> Iterator[subprocess.Popen[str]]:
    """A process on the test's database, with leases of one second; killed at the end."""
    environment = {
        **os.environ,
        "JOBFARM_TEST_DATABASE": str(connection.settings_dict["NAME"]),
        "JOBFARM_LEASE_S": "1",
        "JOBFARM_HEARTBEAT_S": "0.3",
        "DJANGO_SETTINGS_MODULE": "jobfarm.settings",
    }
    process = subprocess.Popen(
        [sys.executable, *command], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _lease_expires_at(job_id: int) -> datetime:
    moment = Job.objects.values_list("lease_expires_at", flat=True).get(pk=job_id)
    assert moment is not None
    return moment


class TestAKilledWorker:
    def test_is_noticed_and_its_lease_is_worthless(self) -> None:
        farm.kind(retry_when_lost=False)
        [job] = farm.submit(1)
        me = farm.worker()
        with _process("manage.py", "janitor", "--skip-checks"), _process("-c", WORKER, str(me.pk)) as worker:
            assert worker.stdout is not None
            job_id, text = worker.stdout.readline().split()
            claimed_until = _lease_expires_at(job.pk)
            farm.until(lambda: _lease_expires_at(job.pk) > claimed_until, what="a heartbeat")
            assert farm.status(job) == "in_progress"
            worker.kill()
            farm.until(lambda: farm.status(job) == "timed_out", within_s=20, what="the time-out")

        assert int(job_id) == job.pk
        [attempt] = Attempt.objects.filter(job=job)
        assert (attempt.outcome, attempt.number, attempt.worker_name) == ("lost", 1, "w1")
        before = farm.everything(job)
        lease = operations.Lease.parse(text)
        [answer] = operations.finish(
            me, [operations.Finished(job_id=job.pk, lease=lease, outcome="success", result="late")]
        )
        assert isinstance(answer, LeaseLost)
        assert farm.everything(job) == before

    def test_gives_its_job_to_another(self) -> None:
        farm.kind()
        [job] = farm.submit(1)
        killed, other = farm.worker("killed"), farm.worker("other")
        with (
            _process("manage.py", "janitor", "--skip-checks"),
            _process("-c", WORKER, str(killed.pk)) as worker,
        ):
            assert worker.stdout is not None
            worker.stdout.readline()
            farm.until(lambda: Job.objects.get(pk=job.pk).confirmed_fence, what="a heartbeat")
            worker.kill()
            claimed = farm.until(lambda: operations.claim(other), within_s=20, what="the job")
        assert [(c.id, c.attempt) for c in claimed] == [(job.pk, 2)]
        assert farm.succeed(other, claimed[0]) == "success"
