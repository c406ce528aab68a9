"""What people do with a flow as a whole."""

import contextlib
from typing import Final

from django.contrib.auth.models import User

from core import audit
from jobs.errors import AlreadyRetried, NotFound
from jobs.models import Flow
from jobs.operations import finish, submit
from jobs.queries import bulks, flows, reads

AT_ONCE: Final = 500  # canceled in one transaction


def cancel(flow_id: int, *, by: User | None) -> int:
    """Cancel all jobs of a flow that have not ended and that `by` may act on (None: the system itself); how many.

    Raises NotFound for a flow of which `by` sees no job."""
    owner = _owner(flow_id, by=by)
    canceled = 0
    while ids := flows.living(flow_id, owner=owner)[:AT_ONCE]:
        canceled += finish.cancel_many(ids, by=by)
    if canceled:
        audit.record(by, Flow(pk=flow_id), f"canceled, {canceled:,} jobs")
    return canceled


def retry(flow_id: int, *, by: User | None) -> list[int]:
    """Try again, each in its place, the jobs of a flow that did not succeed by themselves and that `by` may act on, and
    what was canceled for their sake; the new jobs that try the former. Raises NotFound, and as `submit.retry`."""
    again: list[int] = []
    for job_id in flows.unhappy(flow_id, owner=_owner(flow_id, by=by)):
        with contextlib.suppress(AlreadyRetried):
            again.append(submit.retry(job_id, by=by, once=True).pk)
    return again


def _owner(flow_id: int, *, by: User | None) -> User | None:
    """Whose jobs alone `by` may act on; None: everybody's."""
    if by is None:
        return None
    if not reads.visible_to(by).filter(flow_id=flow_id).exists():
        raise NotFound
    return None if bulks.reaches_all(by) else by
