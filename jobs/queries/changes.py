"""What an event stream of many jobs is made of: jobs that changed, and what happened since a client looked."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db.models import F, Q

from jobs.domain.changes import Wanted
from jobs.domain.filters import Filters
from jobs.domain.states import Status
from jobs.models import Job, Outcome
from jobs.queries import lists

MOST_READ: Final = 2_000  # jobs that one statement looks at
MOST_MISSED: Final = 1_000  # jobs that are sent to one who comes back
MOST_ENDED: Final = 20_000  # ends that are looked through for that
SHOWN: Final = 100  # jobs that are sent to one who is new

Span = tuple[int, int]  # ids, the first and the last


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed:
    """Jobs that may have changed since a client looked; `is_all`: there are no others."""

    job_ids: Sequence[int]
    is_all: bool = True


def among(job_ids: Collection[int], spans: Sequence[Span], wanted: Collection[Wanted]) -> list[Any]:
    """Those of these jobs that anybody wants, with what decides that, in order of id; MOST_READ are looked at."""
    where = Q(pk__in=list(job_ids))
    for span in spans:
        where |= Q(pk__range=span)
    facts = Job.objects.filter(where).order_by("pk").annotate(username=F("owner__username"))
    rows = facts.values_list("pk", "kind", "owner_id", "username", "group_id", "flow_id", "tags", named=True)
    return [row for row in rows[:MOST_READ] if any(each.fits(row) for each in wanted)]


def newest(wanted: Wanted) -> list[int]:
    """The newest of the jobs that are wanted, SHOWN at most."""
    page = lists.page(viewer=wanted.viewer, filters=_filters(wanted), limit=SHOWN)
    return [job.pk for job in page.jobs]


def missed(wanted: Wanted, *, since: datetime) -> Missed:
    """What was submitted or has ended since then, of what waits and runs all; where more than MOST_LIVE jobs wait,
    those that do are left out."""
    created = lists.page(viewer=wanted.viewer, filters=_filters(wanted, since=since), limit=MOST_MISSED)
    ends = Outcome.objects.filter(ended_at__gte=since).order_by("ended_at", "pk")
    ended = list(ends.values_list("pk", flat=True)[: MOST_ENDED + 1])
    running, waiting = lists.live_ids(Status.IN_PROGRESS), lists.live_ids(Status.PENDING)
    others = [*ended, *(running or ()), *(waiting or ())]
    fitting = [job.pk for part in _parts(others) for job in among(part, [], [wanted])]
    ids = sorted({*(job.pk for job in created.jobs), *fitting})
    is_all = created.older is None and len(ended) <= MOST_ENDED and running is not None and len(ids) <= MOST_MISSED
    return Missed(job_ids=ids, is_all=is_all)


def _parts(job_ids: Sequence[int]) -> list[Sequence[int]]:
    return [job_ids[start : start + MOST_READ] for start in range(0, len(job_ids), MOST_READ)]


def _filters(wanted: Wanted, *, since: datetime | None = None) -> Filters:
    moment = "" if since is None else since.isoformat()
    flow = "" if wanted.flow is None else str(wanted.flow)
    return Filters(tag=",".join(wanted.tags), kind=wanted.kind, owner=wanted.owner, flow=flow, since=moment)
