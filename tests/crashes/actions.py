"""What the processes do that kill themselves on the way. Arguments are JSON."""

import json
import uuid
from typing import Any

from django.contrib.auth.models import Group

from jobs import operations as jobs
from jobs.models import Worker
from jobs.operations import Lease
from postgres import clock
from scheduling.operations import clusters, crons, runner
from scheduling.queries.functions import Dispatch, Holder
from tests.jobs.limits.integration.sample import SLOW
from webhooks.domain.deliveries import Source
from webhooks.operations import ingest
from webhooks.sources import configs
from webhooks.sources.requests import Request

LIMITS = (SLOW,)  # declared where this is imported


def submit(*, kind: str, group: int | None = None) -> None:
    """Submit a job."""
    jobs.submit(kind, {"n": 1}, group=None if group is None else Group.objects.get(pk=group))


def submit_flow(*, of: int) -> None:
    """Submit two jobs, of which one comes after the other and a third."""
    first = jobs.NewJob(kind="work", payload=1, name="first")
    jobs.submit_many([first, jobs.NewJob(kind="work", payload=2, after=["first", of])])


def claim(*, worker: int) -> None:
    """Claim a job."""
    assert jobs.claim(Worker.objects.get(pk=worker))


def finish(*, worker: int, job: int, lease: str, outcome: Any, error: str = "") -> None:
    """Hand in a job."""
    finished = jobs.Finished(job_id=job, lease=Lease.parse(lease), outcome=outcome, result={"made": 1}, error=error)
    [status] = jobs.finish(Worker.objects.get(pk=worker), [finished])
    assert isinstance(status, str)


def suspend(*, worker: int, job: int, lease: str, wait: dict[str, Any]) -> None:
    """Hand in a job as suspended."""
    wanted = jobs.Wait(**wait)
    finished = jobs.Finished(job_id=job, lease=Lease.parse(lease), outcome="suspended", wait=wanted)
    assert jobs.finish(Worker.objects.get(pk=worker), [finished]) == ["pending"]


def submit_child(*, worker: int, job: int, lease: str) -> None:
    """Submit the first job of its own."""
    new = jobs.NewJob(kind="work", payload="child")
    jobs.submit_child(Worker.objects.get(pk=worker), job, Lease.parse(lease), new, position=0)


def send(*, job: int) -> None:
    """Send a job a signal."""
    jobs.signal(job, "approved", 7, by=None, key="mail-7")


def start_flow(*, template: str) -> None:
    """Start a flow template."""
    jobs.submit_flow(template, number=1)


def release(*, worker: int, job: int, lease: str) -> None:
    """Give a job back."""
    jobs.release(Worker.objects.get(pk=worker), job, Lease.parse(lease))


def checkpoint(*, worker: int, job: int, lease: str) -> None:
    """Keep how far the job is, in place of what was kept before."""
    jobs.checkpoint(Worker.objects.get(pk=worker), job, Lease.parse(lease), "further")


def write(*, worker: int, job: int, lease: str) -> None:
    """Write the first piece of output."""
    jobs.write_output(Worker.objects.get(pk=worker), job, Lease.parse(lease), seq=0, text="Hello.")


def cancel(*, job: int) -> None:
    """Cancel a job."""
    jobs.cancel(job, by=None)


def sweep() -> None:
    """Be the janitor, once."""
    jobs.sweep()


def run_mutations(*, cluster_id: str, dispatched: list[dict[str, Any]]) -> None:
    """Run what was dispatched."""
    runner.mutations([Dispatch(**one) for one in dispatched], by=_holder(cluster_id))


def run_action(*, cluster_id: str, dispatched: dict[str, Any]) -> None:
    """Run what was dispatched."""
    runner.action(Dispatch(**dispatched), by=_holder(cluster_id))


def tombstone(*, cluster_id: str) -> None:
    """Take over from a cluster that died."""
    clusters.end(uuid.UUID(cluster_id), ending="died")


def fire() -> None:
    """Fire the crons that are due."""
    crons.fire_due()


def receive(*, body: dict[str, Any], headers: dict[str, str]) -> None:
    """Take a delivery in."""
    request = Request(body=json.dumps(body).encode(), headers=headers, query={})
    verified = ingest.verify_anew(Source.GITHUB, request, now=clock.now())
    opened = configs.opened(Source.GITHUB, request, verified=verified)
    ingest.keep([ingest.delivery(Source.GITHUB, request, verified, opened, address=None, now=clock.now())])


def _holder(cluster_id: str) -> Holder:
    return Holder(cluster_id=uuid.UUID(cluster_id), ran_by="crash")
