"""Calls whose caller went away and may come back: the clients of OpenAI repeat a call that took them too long, which
then takes the living job over instead of waiting behind it (docs/adr/0084)."""

from datetime import timedelta
from typing import Final

from django.contrib.auth.models import User

from jobs import operations as jobs
from openai_api import operations, queries
from openai_api.operations import Made

LASTS: Final = timedelta(minutes=1)  # so long after its caller went away a job may be taken over


def leave(job_id: int, *, user_id: int, fingerprint: str) -> None:
    """The caller of this job went away, who may repeat the call. Those of servers that ended meanwhile are given up."""
    for forgotten in queries.forget_left(age=LASTS):
        operations.give_up(forgotten)
    queries.leave(job_id, owner_id=user_id, fingerprint=fingerprint)


def take_over(fingerprint: str, *, path: str, user: User) -> Made | None:
    """The job of the same call of this person, whose caller went away: it is this caller's now. None where there is
    none, or where it was canceled."""
    job_id = queries.take_over(fingerprint, owner_id=user.pk, age=LASTS)
    if job_id is None or jobs.statuses([job_id]).get(job_id) in {None, "canceled"}:
        return None
    return operations.find(job_id, path=path, user=user)


def end_grace(job_id: int, *, is_kept: bool) -> None:
    """Nobody came back in time: give the job up, unless it is to be kept. One that was taken over stays."""
    if queries.take_back(job_id) and not is_kept:
        operations.give_up(job_id)
