"""Statements of bulk actions on many jobs: which match, what is kept of them, and the changes to those that wait."""

from collections.abc import Collection, Iterable, Sequence
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from jobs.domain.bulks import FITS, OVER, BulkAction, Phase
from jobs.domain.filters import Filters
from jobs.domain.quotas import Quota
from jobs.domain.states import ENDED, LIVE, Status
from jobs.models import Bulk, BulkItem, Job, Live, Step, with_status
from jobs.queries import lists, reads
from scheduling.models import ScheduledFunction

MOST_OPEN = 100  # of a person; one that nobody confirms is given up after a day


def find(bulk_id: int, *, lock: bool = False) -> Bulk | None:
    """The bulk with who asked for it, locked until the transaction ends if asked."""
    rows = Bulk.objects.select_related("by", "undoes", "undone_by")
    return (rows.select_for_update(of=("self",)) if lock else rows).filter(pk=bulk_id).first()


def seen(bulk_id: int, *, by: reads.AnyUser) -> Bulk | None:
    """The bulk, for who asked for it and for whoever sees all jobs."""
    row = find(bulk_id)
    return row if row is not None and (row.by_id == by.pk or reads.is_operator(by)) else None


def top_id() -> int:
    return Job.objects.order_by("-pk").values_list("pk", flat=True).first() or 0


def reaches_all(by: User) -> bool:
    """Whether this person may act on everybody's jobs; otherwise on their own alone."""
    return reads.is_operator(by) and by.has_perm("jobs.operate_job")


def matching(bulk: Bulk, *, retried: bool = False) -> Q:
    """The jobs that the bulk means, as they stand at this moment; `retried`: those that it leaves out for that.
    Raises TypeError where a later version narrowed it by what this one does not know: that would be more jobs."""
    where = lists.narrowed(Filters(**bulk.filters)) & with_status(*FITS[BulkAction(bulk.action)])
    if bulk.action == BulkAction.RETRY:
        where &= Q(lists.retried()) if retried else ~Q(lists.retried())
    return where if reaches_all(bulk.by) else where & Q(owner_id=bulk.by_id)


def next_range(bulk: Bulk) -> tuple[QuerySet[Job], int, int]:
    """The jobs to scan next, the id from which on they are, and the one below which nothing can match."""
    oldest = Job.objects.order_by("pk").values_list("pk", flat=True).first() or 0
    floor = max(oldest, lists.id_range(Filters(**bulk.filters))[0])
    length = lists.TEXT_SCAN_LIMIT if bulk.filters.get("text") else lists.SCAN_LIMIT
    low = max(floor, bulk.next_id - length)
    return Job.objects.filter(pk__gte=low, pk__lt=bulk.next_id), low, floor


def count_of(bulk: Bulk, jobs: QuerySet[Job]) -> tuple[int, int]:
    """How many of these jobs match, and how many a retry leaves out."""
    is_retry = bulk.action == BulkAction.RETRY
    left_out = jobs.filter(matching(bulk, retried=True)).count() if is_retry else 0
    return jobs.filter(matching(bulk)).count(), left_out


def ids_of(bulk: Bulk, jobs: QuerySet[Job], *, limit: int) -> list[int]:
    """The newest of these jobs that match, `limit` at most."""
    return list(jobs.filter(matching(bulk)).order_by("-pk").values_list("pk", flat=True)[:limit])


def lock_jobs(job_ids: Iterable[int], *, states: Iterable[Status]) -> list[Job]:
    """Those of these jobs that stand so, locked in the order of their ids."""
    chosen, jobs = list(job_ids), Job.objects.filter(with_status(*states))
    if LIVE.isdisjoint(states):
        jobs = jobs.select_for_update(of=("self",))  # of who tries them again one at a time
    else:
        chosen = reads.lock_living(chosen)
    return list(jobs.filter(pk__in=chosen).order_by("pk"))


def lock_unretried(job_ids: Iterable[int]) -> list[Job]:
    """Those of these ended jobs that no job retries, nor has taken the places of, locked, with their payloads."""
    ids = [*job_ids]
    in_its_place = lists.tries().filter(step__place_id=OuterRef("step__place_id"), pk__gt=OuterRef("pk"))
    free = ~Q(lists.retried()) & ~Exists(in_its_place)
    return list(Job.objects.whole().filter(free, pk__in=lock_places(ids) & {*ids}).order_by("pk"))


def lock_places(job_ids: Collection[int]) -> set[int]:
    """Lock these jobs as far as they have ended, and the first ones in their places, for all who try again what has or
    had these places; those that are locked. Who has one snapshot collides with a retry that it does not see: the rows
    are written."""
    places = Step.objects.filter(pk__in=job_ids).values_list("place_id", flat=True)
    locked = {job.pk for job in lock_jobs({*job_ids, *places}, states=ENDED)}
    Job.objects.filter(pk__in=locked).update(retry_of=F("retry_of"))
    return locked


def newest_try(job_id: int) -> int | None:
    """Which job tries this one again, or has its place; None: it is gone."""
    places = Step.objects.filter(pk=job_id).values("place_id")
    in_its_place = Step.objects.filter(place_id__in=places, pk__gt=job_id).values_list("pk", flat=True)
    return max([*in_its_place, *(job.pk for job in lists.retries_of([job_id]).values())], default=None)


def change_waiting(job_ids: Sequence[int], **columns: Any) -> int:
    """Change these columns of locked jobs that wait and have not expired; how many rows that were."""
    in_time = Q(expires_at=None) | Q(expires_at__gt=Now()) | Q(confirmed_fence__gt=0)
    rows = Live.objects.filter(in_time, pk__in=job_ids, lease_secret=None)
    if (run_at := columns.pop("run_at", None)) is not None:
        changed = rows.update(run_at=run_at)
    if columns:
        changed = Job.objects.filter(pk__in=rows.values("pk")).update(**columns)
    return changed


def keep(bulk: Bulk, items: dict[int, dict[str, Any]]) -> None:
    BulkItem.objects.bulk_create([BulkItem(bulk=bulk, job_id=job_id, was=was) for job_id, was in items.items()])


def open_of(owner: User) -> Quota:
    """How many bulks of this person are counting, wait for a word, or run; and may."""
    used = Bulk.objects.filter(by=owner).exclude(phase__in=sorted(OVER)).count()
    return Quota(resource="bulk actions that are not over", of="owner", quota=MOST_OPEN, used=used)


def count_items(bulk_id: int) -> int:
    return BulkItem.objects.filter(bulk_id=bulk_id).count()


def items_below(bulk_id: int, job_id: int, *, limit: int) -> list[BulkItem]:
    return list(BulkItem.objects.filter(bulk_id=bulk_id, job_id__lt=job_id).order_by("-job_id")[:limit])


def acted_on(items: Sequence[BulkItem], *, by: User) -> Sequence[BulkItem]:
    """Those of these items whose jobs this person may act on."""
    if reaches_all(by):
        return items
    own = set(Job.objects.filter(owner=by, pk__in=[item.job_id for item in items]).values_list("pk", flat=True))
    return [item for item in items if item.job_id in own]


def broken_off(step: str) -> list[int]:
    """Those that were made over a minute ago and are not at rest, and of which no `step` is scheduled or runs."""
    going = ScheduledFunction.objects.filter(function=step, ended_at=None).values_list("args__bulk_id", flat=True)
    rows = Bulk.objects.filter(phase__in=[Phase.COUNTING, Phase.RUNNING], created_at__lt=Now() - timedelta(minutes=1))
    return sorted(set(rows.values_list("pk", flat=True)) - set(going))


def of_person(user_id: int | None, *, limit: int = 20) -> list[Bulk]:
    """The latest bulks of a person, or of everybody (None), that somebody said yes to."""
    rows = Bulk.objects.exclude(phase__in=[Phase.COUNTING, Phase.READY]).select_related("by", "undoes", "undone_by")
    return list((rows if user_id is None else rows.filter(by_id=user_id)).order_by("-pk")[:limit])
