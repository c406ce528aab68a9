"""Attempts that end suspended: what the job waits for, and when it is due again (docs/adr/0131)."""

from datetime import datetime

from django.db import transaction

from jobs.domain.conflicts import BEHIND
from jobs.domain.waits import Wait
from jobs.errors import NotAChild
from jobs.operations import endings
from jobs.queries import flows, reads


def begin(job_id: int, wait: Wait) -> datetime | None:
    """Let a job, whose row the caller has locked and settles, wait: when it is due again; None: at once.

    Raises NotAChild for a job that it has not submitted."""
    if not wait.children:
        return None
    children = list(dict.fromkeys(wait.children))
    reads.lock_living(children)
    row = flows.suspend(job_id, children)
    if not row.is_own:
        raise NotAChild(job=job_id)
    if (ended := row.ended) is not None:
        transaction.on_commit(lambda: endings.look_after([ended]), robust=True)
    return BEHIND
