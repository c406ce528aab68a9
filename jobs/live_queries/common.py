"""Who the live queries of jobs are read for."""

from typing import Any

from jobs.queries import fleet, pages, reads
from live.registry import Viewer

PUBLIC = "public"  # whoever holds the token of a share link
MEMBER = "member"  # who may see the job, or whose jobs are shown
OPERATOR = "operator"


def audience_of_job(viewer: Viewer, *, job_id: int, **_: Any) -> str | None:
    """Public for the token of the job's share link (whoever holds it), member for who may see the job."""
    if viewer.ticket is not None:
        return PUBLIC if pages.is_shared(job_id, token=viewer.ticket) else None
    return member(viewer, job_id)


def member(viewer: Viewer, job_id: int) -> str | None:
    return MEMBER if reads.visible_to(viewer.user).filter(pk=job_id).exists() else None


def audience_of_detail(viewer: Viewer, *, job_id: int, **_: Any) -> str | None:
    """As `audience_of_job`, but operator for operators, who are shown links to more."""
    audience = audience_of_job(viewer, job_id=job_id)
    return OPERATOR if audience == MEMBER and reads.is_operator(viewer.user) else audience


def audience_of_list(viewer: Viewer, **arguments: Any) -> str | None:
    """Operators may ask for everybody's; anybody for what is theirs."""
    user = viewer.user
    if arguments["whose"] == pages.EVERYBODY:
        return OPERATOR if reads.is_operator(user) else None
    return MEMBER if user.is_authenticated and user.is_active and user.pk == arguments["whose"] else None


def audience_of_worker(viewer: Viewer, *, worker_id: int, **_: Any) -> str | None:
    if not viewer.user.is_authenticated or not viewer.user.is_active:
        return None
    row = fleet.worker_row(worker_id)
    mine = row is not None and (row.worker.owner_id == viewer.user.pk or reads.is_operator(viewer.user))
    return MEMBER if mine else None


def operators(viewer: Viewer, **_: Any) -> str | None:
    return OPERATOR if reads.is_operator(viewer.user) else None
