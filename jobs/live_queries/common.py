"""Who the live queries of jobs are read for, and how the parts of its pages are declared."""

from collections.abc import Callable
from typing import Any

from jobs.queries import fleet, pages, reads
from live.registry import StateQuery, StateRead, Viewer, live_query

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


_AUDIENCES: dict[Callable[..., str | None], tuple[str, ...]] = {
    audience_of_job: (PUBLIC, MEMBER), audience_of_detail: (PUBLIC, MEMBER, OPERATOR), audience_of_worker: (MEMBER,),
    audience_of_list: (MEMBER, OPERATOR), operators: (OPERATOR,),
}  # fmt: skip


def shared(job_id: int, **_: Any) -> list[str]:
    return [f"share:{job_id}"]


def part(
    name: str,
    *topics: str,
    seen_by: Callable[..., str | None] | None = None,
    audiences: tuple[str, ...] = (),
    template: str = "",
    every_s: float = 0.02,
) -> Callable[[StateRead], StateQuery]:
    """Declare a part of a page, for the audiences of `seen_by` if that is named. Topics name arguments as
    "job:{job_id}"; the template is called like the part where none is named."""
    audiences = _AUDIENCES[seen_by] if seen_by else audiences

    def declare(read: StateRead) -> StateQuery:
        query = live_query(
            name, topics=lambda **arguments: [topic.format(**arguments) for topic in topics], audiences=audiences,
            template=f"jobs/live/{template or name.replace('-', '_')}.html", at_most_every_s=every_s,
            rights_topics=shared if PUBLIC in audiences else None,
            anonymous="ticket" if PUBLIC in audiences else "never",
        )(read)  # fmt: skip
        query.rights = seen_by
        return query

    return declare
