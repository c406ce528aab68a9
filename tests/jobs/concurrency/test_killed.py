"""A worker process dies by `kill -9`, and a janitor in a process of its own notices."""

import contextlib
import os
from collections.abc import Iterator
from datetime import datetime
from typing import TextIO

import pytest
from django.db import connection

from jobs import operations
from jobs.errors import LeaseLost
from jobs.models import Attempt, Job
from tests import farm, forkserver

pytestmark = pytest.mark.django_db(transaction=True)
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
def _process(*command: str) -> Iterator[tuple[forkserver.Process, TextIO]]:
    """A process on the test's database, with leases of one second, and what it says; killed at the end."""
    environment = {
        **os.environ,
        "JOBFARM_TEST_DATABASE": str(connection.settings_dict["NAME"]),
        "JOBFARM_LEASE_S": "1",
        "JOBFARM_HEARTBEAT_S": "0.3",
        "DJANGO_SETTINGS_MODULE": "jobfarm.settings",
    }
    reader, writer = os.pipe()
    process = forkserver.Process(command, env=environment, stdout=writer, loaded=True)
    os.close(writer)
    with os.fdopen(reader) as output:
        try:
            yield process, output
        finally:
            process.kill()
            process.wait()


def _lease_expires_at(job_id: int) -> datetime:
    moment = Job.objects.get(pk=job_id).lease_expires_at
    assert moment is not None
    return moment


class TestAKilledWorker:
    def test_is_noticed_and_its_lease_is_worthless(self) -> None:
        farm.kind(retry_when_lost=False)
        [job] = farm.submit(1)
        me = farm.worker()
        with _process("manage.py", "janitor", "--skip-checks"), _process("-c", WORKER, str(me.pk)) as (worker, output):
            job_id, text = output.readline().split()
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
            _process("-c", WORKER, str(killed.pk)) as (worker, output),
        ):
            output.readline()
            farm.until(lambda: Job.objects.get(pk=job.pk).confirmed_fence, what="a heartbeat")
            worker.kill()
            claimed = farm.until(lambda: operations.claim(other), within_s=20, what="the job")
        assert [(c.id, c.attempt) for c in claimed] == [(job.pk, 2)]
        assert farm.succeed(other, claimed[0]) == "success"
