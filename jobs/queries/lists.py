"""Lists of jobs, narrowed by filters, at a cost that does not grow with the farm (docs/adr/0031).

`viewer` is as in `pages`. A list walks down one path on which an index leads: all jobs, or those of a person, of a
group, of an unhappy status, or those that live. What else is asked is looked at on the way, and where that may pass
by many jobs without meeting one that fits, the way ends after SCAN_LIMIT of them and can be taken up again there.

And the filters that people keep under names.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import or_
from typing import Any, Final

from django.contrib.auth.models import Group, User
from django.db import models
from django.db.models import Case, F, OuterRef, Q, QuerySet, Subquery, TextField, Value, When
from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.db.models.functions import Cast, Coalesce, Left, Now, NullIf, Right
from django.db.models.lookups import GreaterThan, IsNull, LessThanOrEqual

from core.values import moment, words
from jobs.domain import payloads, reasons
from jobs.domain.filters import DESCRIBED, Filters, ids_of, is_whole, terms
from jobs.domain.records import MOST_TAGGED
from jobs.domain.states import ENDED, LIVE, Status
from jobs.models import LIVING, WAITING, Attempt, Job, Live, Outcome, SavedFilter, Tag, with_status
from jobs.queries import rollups
from jobs.queries.reads import BIGGEST_ID
from postgres import clock

EVERYBODY = 0
PAGE = 50  # jobs in a list
SCAN_LIMIT = 100_000  # jobs that one page of a narrowed list passes by at most
TEXT_SCAN_LIMIT = 5_000  # as many payloads and errors are read by one page that looks for a text
MOST_LIVE = 5_000  # among so many that wait or run a page may choose; with more, many of the newest jobs do
MOST_COUNTED = 10_000  # matches; a page says "more than" beyond, and sorts the newest so many
EXCERPT = 120  # characters of a payload in a list
SHORT_BYTES = 2_000  # as stored, compressed: what is longer lies outside of the row
ERROR_END = 400  # characters
_NOBODY = -1
ORDERS: Final = {"wait": "Longest wait first", "run": "Longest run first"}
_RETRIES: Final = Q(retry_of__isnull=False) & ~(with_status(Status.CANCELED) & Q(outcome__fence=0))
# How long a job waited for its last start, or waits; and how long its last attempt ran, or runs.
_RUN_AT, _CLAIMED_AT = (Coalesce(f"live__{name}", f"outcome__{name}") for name in ("run_at", "claimed_at"))
_WAS_CLAIMED = Q(live__claimed_at__isnull=False) | Q(outcome__claimed_at__isnull=False)
RANKED: Final = {"wait": Q(LessThanOrEqual(_RUN_AT, Now())) & (_WAS_CLAIMED | LIVING), "run": _WAS_CLAIMED & ~WAITING}
LENGTHS: Final = {
    "wait": Case(When(WAITING, then=Now()), default=_CLAIMED_AT) - _RUN_AT,
    "run": Coalesce("outcome__ended_at", Now()) - _CLAIMED_AT,
}
MOST_SAVED = 50  # filters, of a person


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPage:
    """Jobs, newest first, or as `ranked` sorts them. `older` is the id before which the next page begins, in a ranking
    the number of jobs before it; None when there is none."""

    jobs: tuple[Job, ...]
    older: int | None


def page(*, viewer: int, filters: Filters, before: int | None = None, limit: int = PAGE) -> JobPage:
    """A page of `limit` jobs with ids below `before` (None: the newest), as `dressed` makes them.

    What no index leads to is searched for among SCAN_LIMIT jobs at most (TEXT_SCAN_LIMIT for a text), so a rare one
    costs a page without rows and not a read of the whole table; `older` then goes on where this page stopped.
    """
    arms, floor = _scanned(viewer, filters, before, limit=limit)
    jobs = newest([arm & Q(pk__gte=floor) for arm in arms], limit=limit + 1)
    if len(jobs) > limit:
        return JobPage(jobs=tuple(jobs[:limit]), older=jobs[limit - 1].pk)
    return JobPage(jobs=tuple(jobs), older=floor if floor > 0 else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Matches:
    """How many jobs match, MOST_COUNTED at most. `is_all`: what no index leads to was met within the scan's bound."""

    number: int
    is_all: bool

    @property
    def is_exact(self) -> bool:
        """Whether there are so many, and not more."""
        return self.is_all and self.number <= MOST_COUNTED


def count(*, viewer: int, filters: Filters) -> Matches:
    """Count what `page` would show, page after page, at a cost that is bounded as one page's is."""
    ids, floor = _matching(viewer, filters)
    return Matches(number=ids.count(), is_all=floor == 0)


def ranked(*, viewer: int, filters: Filters, by: str, skip: int = 0, limit: int = PAGE) -> JobPage:
    """The jobs that waited or ran longest (`by` is one of RANKS) among the newest MOST_COUNTED that match."""
    ids, _ = _matching(viewer, filters)
    chosen = set(ids) if ids.query.combinator else ids  # no subquery may be a union
    jobs = dressed(Job.objects.filter(RANKED[by], pk__in=chosen))
    rows = list(jobs.annotate(length=LENGTHS[by]).order_by("-length", "-pk")[skip : skip + limit + 1])
    return JobPage(jobs=tuple(rows[:limit]), older=skip + limit if len(rows) > limit else None)


def failed(*, viewer: int, filters: Filters, limit: int) -> list[Job]:
    """The newest jobs that match and have failed, those that wait to be tried again included, with `last_error`."""
    ids, _ = _matching(viewer, filters)
    newest_ids = sorted(set(ids), reverse=True)
    jobs = Job.objects.filter(~WAITING | Q(live__failures__gt=0), pk__in=newest_ids)
    return list(jobs.annotate(last_error=_last_error()).order_by("-pk")[:limit])


def _matching(viewer: int, filters: Filters) -> tuple[QuerySet[Any], int]:
    """The ids of the newest MOST_COUNTED and one that match, and the id up to which none was read (0: all were)."""
    arms, floor = _scanned(viewer, filters)
    jobs = [Job.objects.filter(arm & Q(pk__gt=floor)).order_by("-pk") for arm in arms]
    first, *rest = [those.values_list("pk", flat=True)[: MOST_COUNTED + 1] for those in jobs]
    return first.union(*rest) if rest else first, floor


def _scanned(
    viewer: int, filters: Filters, before: int | None = None, *, limit: int = MOST_COUNTED + 1
) -> tuple[list[Q], int]:
    """What the filters ask for, in arms, and the id below which nothing is looked at."""
    filters = filters.at(clock.now()) if filters.age else filters
    below = _below(filters, before)
    arms = [arm & below for arm in _arms(viewer, filters)]
    if filters.tag:
        is_alone = viewer == EVERYBODY and _named(filters) == {"tag"} and "," not in filters.tag
        ids, floor = tagged(filters, before=before, most=limit if is_alone else MOST_TAGGED)
        arms = [arm & Q(pk__in=ids) for arm in arms]
    else:
        floor = _floor(arms, filters) if _may_pass_by_many(viewer, filters) else 0
    where = narrowed(filters, within=below & Q(pk__gte=floor))
    return [arm & where for arm in arms], floor


def newest(arms: Sequence[Q], *, limit: int) -> list[Job]:
    """The newest jobs of any of the arms, each read through its own index, `limit` at most."""
    if len(arms) == 1:
        return list(dressed(Job.objects.filter(arms[0]).order_by("-pk"))[:limit])
    # An OR between them would walk down the table until it has found enough.
    first, *rest = [Job.objects.filter(arm).order_by("-pk").values_list("pk", flat=True)[:limit] for arm in arms]
    ids = set(first.union(*rest, all=True))
    return list(dressed(Job.objects.filter(pk__in=ids).order_by("-pk"))[:limit])


def whose(viewer: int) -> list[Q]:
    """The jobs that concern the viewer, in arms: of each an index leads to the newest."""
    if viewer == EVERYBODY:
        return [Q()]
    groups = User.groups.through.objects.filter(user_id=viewer).values_list("group_id", flat=True)
    return [Q(owner_id=viewer), *(Q(group_id=group) for group in groups)]


def recent_tags() -> list[str]:
    """The tags of the newest jobs, to choose from."""
    newest_jobs = Job.objects.order_by("-pk").values_list("tags", flat=True)[:1000]
    return sorted({tag for named in newest_jobs for tag in named or ()})


def most_scanned(filters: Filters) -> int:
    """How many jobs one page of such a list passes by at most."""
    most = MOST_TAGGED if filters.tag else SCAN_LIMIT
    return min(most, TEXT_SCAN_LIMIT) if filters.text else most


def tagged(filters: Filters, *, before: int | None, most: int) -> tuple[list[int], int]:
    """The newest jobs with the first tag that the filters name, in their time and below `before`: `most` and one, or
    all; and the last of them where there are more, else 0. They are read by themselves, from the index of their tag
    alone: of a join the planner may make a walk down all jobs."""
    low, high = id_range(filters)
    rows = Tag.objects.filter(
        tag__in=words(filters.tag)[:1], job_id__gte=low, job_id__lt=min(high, before or BIGGEST_ID)
    )
    ids = list(rows.order_by("-job_id").values_list("job_id", flat=True)[: most + 1])
    return ids, ids[-1] if len(ids) > most else 0


def narrowed(filters: Filters, *, within: Q | None = None) -> Q:
    """What the filters ask of a job; an age was made a moment before (`Filters.at`). `within` are the ids that are
    looked at: which of them a worker had is read from the rows of these alone."""
    where = Q() if within is None or not filters.worker else _of_worker(filters.worker, within)
    for name, value in filters.as_dict().items():
        if name == "worker" and within is not None:
            continue
        column, special = DESCRIBED[name].column, _CONDITIONS.get(name)
        where &= Q(**{column: value}) if special is None else special(value)
    return where


def dressed(jobs: QuerySet[Job]) -> QuerySet[Job]:
    """With what a row of a list shows: `excerpt`, what the job is about, and `last_error` of one that failed."""
    return jobs.select_related("owner", "group").annotate(excerpt=Left(_about(), EXCERPT), last_error=_last_error())


def id_range(filters: Filters) -> tuple[int, int]:
    """The ids between which all lie that the filters' times ask for: from the first, below the second."""
    since, until = moment(filters.since), moment(filters.until)
    low = rollups.first_since(since) if since else 0
    high = rollups.end_before(until) if until else BIGGEST_ID
    ids = ids_of(filters.ids)
    return max(low, min(ids, default=0)), min(high, max(ids, default=BIGGEST_ID) + 1)


def tries() -> QuerySet[Job]:
    """Jobs that try another one again."""
    return Job.objects.filter(_RETRIES)


def retried() -> IsNull:
    """Whether a job tries this one again; one that was canceled before a worker took it did not."""
    again = tries().filter(retry_of_id=OuterRef("pk"))
    return IsNull(Subquery(again.values("pk")[:1]), False)


def retries_of(job_ids: Iterable[int]) -> dict[int, Job]:
    """Of these jobs, for those that are `retried` the newest job that does so, with its status."""
    again = tries().filter(retry_of_id__in=list(job_ids)).order_by("pk")
    return {job.retry_of_id or 0: job for job in again}


def live_ids(status: str) -> list[int] | None:
    """All that wait, or all that run; None if that is too many to choose from.

    In the order of their index: a bare LIMIT invites a walk down the whole table.
    """
    if status == Status.PENDING:
        rows = Live.objects.filter(lease_secret=None).order_by("lane", "run_at", "pk")
    else:
        rows = Live.objects.exclude(lease_secret=None).order_by("worker", "pk")
    ids = list(rows.values_list("pk", flat=True)[: MOST_LIVE + 1])
    return ids if len(ids) <= MOST_LIVE else None


def _about() -> Case:
    """The prompt or the like, else the payload as JSON; of a long one, which is read whole for each key, the prompt."""
    prompt, *others = [NullIf(KeyTextTransform(key, "payload"), Value("")) for key in payloads.ABOUT]
    text = NullIf(Cast("payload", TextField()), Value("{}"))
    stored_bytes = models.Func(F("payload"), function="pg_column_size", output_field=models.IntegerField())
    is_long = When(GreaterThan(stored_bytes, SHORT_BYTES), then=prompt)
    return Case(is_long, default=Coalesce(prompt, *others, text), output_field=TextField())


def _last_error() -> Case:
    """The end of what the last attempt of an unhappy job, or of one that is to be tried again, wrote: the last line of
    a traceback is the error. Of one that nobody began in time, that."""
    attempts = Attempt.objects.filter(job_id=OuterRef("pk")).exclude(error="").order_by("-number")
    end = Subquery(attempts.annotate(end=Right("error", ERROR_END)).values("end")[:1])
    is_unhappy = with_status(Status.FAILED, Status.TIMED_OUT) | WAITING & Q(live__failures__gt=0)
    is_late = When(with_status(Status.TIMED_OUT) & Q(outcome__confirmed_fence=0), then=Value(reasons.NOT_STARTED))
    return Case(is_late, When(is_unhappy, then=Coalesce(end, Value(""))), default=Value(""))


def _below(filters: Filters, before: int | None) -> Q:
    low, high = id_range(filters)
    within = Q(pk__lt=min(high, before or BIGGEST_ID))
    return within & Q(pk__gte=low) if low else within


def _arms(viewer: int, filters: Filters) -> list[Q]:
    if viewer != EVERYBODY or filters.flow:
        return whose(viewer)
    if filters.owner:
        return [_of_owner(filters.owner)]
    if filters.group:
        return [_of_group(filters.group)]
    if filters.status in ENDED - {Status.SUCCESS}:
        return [with_status(filters.status)]
    if filters.status in LIVE and (ids := live_ids(filters.status)) is not None:
        return [Q(pk__in=ids)]
    return [Q()]


def _may_pass_by_many(viewer: int, filters: Filters) -> bool:
    """Unless an index leads to exactly what is asked, the next one that fits may be far."""
    if filters.ids or filters.flow:
        return False
    named = _named(filters)
    if viewer != EVERYBODY:
        return bool(named)
    leads = named in ({"owner"}, {"group"}) or (named == {"status"} and filters.status != Status.SUCCESS)
    return bool(named) and not leads


def _named(filters: Filters) -> set[str]:
    """What is asked for beside a time, which is a range of ids."""
    return filters.as_dict().keys() - {"since", "until"}


def _floor(arms: Sequence[Q], filters: Filters) -> int:
    """The id below which nothing is looked at for this page: in no arm are more jobs passed by than allowed."""
    most = most_scanned(filters)
    floors = [Job.objects.filter(arm).order_by("-pk").values_list("pk", flat=True)[most : most + 1] for arm in arms]
    return max((pk for ids in floors for pk in ids), default=0)


def _of_owner(username: str) -> Q:
    return Q(owner_id=User.objects.filter(username=username).values_list("pk", flat=True).first() or _NOBODY)


def _of_group(name: str) -> Q:
    return Q(group_id=Group.objects.filter(name=name).values_list("pk", flat=True).first() or _NOBODY)


def _of_worker(name: str, within: Q) -> Q:
    # EXISTS: whether it is looked up for each job, or all of them are read at once, is the planner's choice.
    theirs = (rows.objects.filter(within, pk=OuterRef("pk"), worker_name=name) for rows in (Live, Outcome))
    return reduce(or_, (Q(models.Exists(rows)) for rows in theirs))


def _submitted(lookup: str, text: str) -> Q:
    return Q((f"created_at__{lookup}", at)) if (at := moment(text)) else Q()


def _due(text: str) -> Q:
    """Pending jobs that are due now, or later."""
    return WAITING & (Q(live__run_at__gt=Now()) if text == "later" else Q(live__run_at__lte=Now()))


def _fits(text: str) -> Q:
    """Every pair and the text. The text is looked for in the payload and the result as JSON writes them (in a text, a
    quote or the end of a line is two characters), and in errors."""
    if "\x00" in text:  # PostgreSQL's texts hold none
        return Q(pk__in=[])
    wanted = terms(text)
    where = Q()
    for path, value in wanted.pairs:
        where &= _has(path, value)
    return where & _contains(wanted.text) if wanted.text else where


def _contains(text: str) -> Q:
    escaped = json.dumps(text, ensure_ascii=False)[1:-1]
    written = Q(text__icontains=text) | Q(text__icontains=escaped)
    payload = Job.objects.filter(pk=OuterRef("pk")).annotate(text=Cast("payload", TextField())).filter(written)
    result = Outcome.objects.filter(pk=OuterRef("pk")).annotate(text=Cast("result", TextField())).filter(written)
    error = Attempt.objects.filter(job_id=OuterRef("pk"), error__icontains=text)
    return Q(_there_is(payload)) | Q(_there_is(result)) | Q(_there_is(error))


def _has(path: tuple[str, ...], value: str) -> Q:
    *parents, last = path
    at: Any = "payload"
    for key in parents:
        at = KeyTransform(key, at)
    lookup = "iexact" if is_whole(value) else "icontains"
    payload = Job.objects.filter(pk=OuterRef("pk")).annotate(at=KeyTextTransform(last, at))
    return Q(_there_is(payload.filter(**{f"at__{lookup}": value})))


def _there_is(rows: QuerySet[Any]) -> IsNull:
    """EXISTS, of one job after the other. Of an EXISTS the planner may make a hash of all that fits, for which it
    reads the payloads of a million jobs to judge five thousand."""
    return IsNull(Subquery(rows.order_by().values("pk")[:1]), False)


# Filters that are more than a comparison with a column. An age was made a moment before.
_CONDITIONS: Final[dict[str, Callable[[str], Q]]] = {
    "owner": _of_owner, "group": _of_group, "age": lambda _: Q(), "due": _due,
    "since": partial(_submitted, "gte"), "until": partial(_submitted, "lt"),
    "status": with_status, "worker": lambda name: Q(live__worker_name=name) | Q(outcome__worker_name=name),
    "text": _fits, "flow": lambda text: Q(flow_id=next(iter(ids_of(text)), _NOBODY)),
    "ids": lambda text: Q(pk__in=ids_of(text)), "tag": lambda text: Q(tags__contains=words(text)),
}  # fmt: skip


def saved_filters(owner: User) -> list[SavedFilter]:
    return list(SavedFilter.objects.filter(owner=owner).order_by("name")[:MOST_SAVED])


def is_full_of_filters(owner: User, *, name: str) -> bool:
    """Whether this person keeps as many as one may, none of them by this name."""
    kept = SavedFilter.objects.filter(owner=owner)
    return not kept.filter(name=name).exists() and kept.count() >= MOST_SAVED


def save_filter(owner: User, *, name: str, query: dict[str, str]) -> None:
    SavedFilter.objects.update_or_create(owner=owner, name=name, defaults={"query": query})


def forget_filter(owner: User, pk: int) -> bool:
    return SavedFilter.objects.filter(owner=owner, pk=pk).delete()[0] > 0
