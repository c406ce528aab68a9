"""Thumbnails: workers make them, each person may order sixty a minute."""

from collections.abc import Sequence
from datetime import timedelta

from django.contrib.auth.models import User

from jobs import operations as jobs
from live import operations as live
from ratelimits import operations as ratelimits
from scheduling import operations as scheduling

ORDERS = ratelimits.declare("thumbnails/order", ratelimits.TokenBucket(60, timedelta(minutes=1)))


def on_transition(moves: Sequence[jobs.Move]) -> None:
    """Called in the transaction that changes a job's status: pages that show it are rendered again after the commit."""
    live.touch(*(f"thumbnail:{move.job_id}" for move in moves))


jobs.declare(jobs.Kind(name="thumbnail", timeout_s=60, max_attempts=3), on_transition=on_transition)


@scheduling.mutation
def order(*, owner_id: int, picture: str) -> int:
    """The tokens, the job and the call that gives it up are committed together, or none of them is."""
    ratelimits.limit(ORDERS, key=f"user:{owner_id}", throws=True)
    owner = User.objects.get(pk=owner_id)
    job = jobs.submit("thumbnail", {"picture": picture}, owner=owner, unique_key=picture)
    scheduling.run_after(timedelta(hours=1), give_up, job_id=job.pk)
    return job.pk


@scheduling.mutation
def give_up(*, job_id: int) -> str:
    """Nobody waits for a thumbnail for longer than an hour; one that has ended stays as it is."""
    return jobs.cancel(job_id, by=None).verdict


@scheduling.mutation
def order_for_all(*, picture: str) -> None:
    for owner_id in User.objects.filter(is_active=True).values_list("pk", flat=True):
        scheduling.run_after(0, order, owner_id=owner_id, picture=picture)


scheduling.declare("thumbnails: the daily picture", scheduling.daily(hour=6), order_for_all, picture="today.png")
