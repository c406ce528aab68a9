"""Statements about what jobs require of labels, and which workers satisfy it (docs/adr/0085)."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from django.db import connection
from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet, TextField, Value
from django.db.models.functions import Cast, Concat, Now

from jobs.domain import labels
from jobs.domain.labels import Requirement, Values
from jobs.models import Job, Live, Requirement as Row, Worker
from postgres import statements, transactions

_IN_USE: Final = Q(retired_at=None)
_OF_A_WORKER: Final = Q(prefers__has_key=labels.WORKER)
_KEPT: Final = timedelta(hours=1)  # such a set, while its worker is there: it would be made anew each minute
_OF_A_LIVING_JOB: Final = Exists(Live.objects.filter(requirement=OuterRef("pk")))


def known(texts: Collection[str]) -> dict[str, int]:
    """The ids of those of these sets that are known, by their text; none is forgotten until the transaction ends."""
    rows = statements.load("jobs", "lock_requirements").run({"texts": sorted(texts)})
    return {row.text: row.id for row in rows}


def close() -> None:
    """Wait until nobody makes a set or changes a worker's labels, and let nobody until the transaction ends. Claims and
    submits of known sets go on."""
    with connection.cursor() as cursor:
        cursor.execute("LOCK TABLE jobs_requirement IN SHARE ROW EXCLUSIVE MODE")


def count() -> int:
    """How many sets living jobs have, or had a moment ago: a claim looks at the first job of each in its queues. Those
    that prefer a worker are as few as workers."""
    return Row.objects.filter(_IN_USE).exclude(_OF_A_WORKER).count()


def held(owner_id: int, ids: Collection[int] | None = None) -> set[int]:
    """The sets, or those of them with these ids, that living jobs of this owner have by their choice."""
    living = Live.objects.filter(requirement=OuterRef("pk"), owner=owner_id)
    rows = Row.objects.filter(_IN_USE) if ids is None else Row.objects.filter(pk__in=ids)
    return set(rows.filter(Exists(living)).exclude(_OF_A_WORKER).values_list("pk", flat=True))


def most_by() -> tuple[str, int] | None:
    """Whose living jobs have the most different sets, and how many; None: no owner's have any."""
    living = Live.objects.filter(requirement__isnull=False, owner__isnull=False)
    living = living.exclude(requirement__prefers__has_key=labels.WORKER)
    counted = living.values("owner__username").annotate(sets=Count("requirement", distinct=True))
    first = counted.order_by("-sets", "owner__username").first()
    return first and (first["owner__username"], first["sets"])


def make(sets: Iterable[Requirement], *, bases: Mapping[str, int]) -> None:
    """Store sets; `bases` has the ids of what is required alone, by its text."""
    rows = [
        Row(text=one.text, requires=dict(one.requires), prefers=dict(one.prefers), base_id=bases.get(one.text))
        for one in sets
    ]
    Row.objects.bulk_create(rows, ignore_conflicts=True)


def everything() -> dict[int, Requirement]:
    rows = Row.objects.filter(_IN_USE).values_list("pk", _text("requires"), _text("prefers"))
    return {pk: Requirement(requires=_read(requires), prefers=_read(prefers)) for pk, requires, prefers in rows}


def label_values(worker_ids: Collection[int] | None = None) -> dict[int, Values]:
    """What conditions compare with of these workers (None: of all whose key opens something): the labels that count,
    and who each is."""
    whose = Q(revoked_at=None) if worker_ids is None else Q(pk__in=worker_ids)
    rows = Worker.objects.filter(whose).values_list("pk", _text("labels"), _text("facts__labels"), "facts__loaded")
    return {
        pk: {**_effective(_read(announced), _read(staff), loaded), labels.WORKER: (str(pk),)}
        for pk, staff, announced, loaded in rows
    }


def values_of(worker: Worker) -> Values:
    """The labels of this worker that count; read it with its `facts`."""
    facts = getattr(worker, "facts", None)
    announced, loaded = (facts.labels, facts.loaded) if facts else ({}, [])
    return _effective(announced, worker.labels, loaded)


def _effective(announced: Any, by_staff: Any, loaded: Iterable[str] | None) -> Values:
    """Without what somebody wrote into a row by hand and is no label: it is that worker's fault alone."""
    both = (
        {key: value for key, value in each.items() if isinstance(value, str)} if isinstance(each, dict) else {}
        for each in (announced, by_staff)
    )
    return labels.effective(announced=next(both), by_staff=next(both), loaded=loaded or ())


def _text(column: str) -> Cast:
    return Cast(column, TextField())


def _read(text: str | None) -> Any:
    """What a jsonb holds; a whole number, which may be longer than Python reads, as its digits."""
    return json.loads(text or "{}", parse_int=str)


def add_satisfied(requirement_id: int, worker_ids: Sequence[int]) -> None:
    """Note that these workers satisfy a new set."""
    statements.load("jobs", "add_satisfied").run({"requirement": requirement_id, "workers": list(worker_ids)})


def set_satisfied(worker_id: int, requirement_ids: Sequence[int]) -> bool:
    """Note which sets this worker satisfies now; whether that changed anything."""
    changed = Worker.objects.filter(pk=worker_id).exclude(satisfies=list(requirement_ids))
    return bool(changed.update(satisfies=list(requirement_ids)))


def set_labels(worker_id: int, by_staff: Mapping[str, str]) -> None:
    Worker.objects.filter(pk=worker_id).update(labels=dict(by_staff))


def unused() -> QuerySet[Row]:
    """Sets that no living job has. The base of another, which a worker is asked for in its stead, is in use as well,
    and so is the set that prefers a worker, as long as that is there."""
    is_base = Exists(Row.objects.filter(_IN_USE, base=OuterRef("pk")))
    there = Worker.objects.filter(revoked_at=None, last_seen_at__gt=Now() - _KEPT)
    is_there = Exists(there.annotate(set=OuterRef("pk")).filter(satisfies__contains=[F("set")]))
    return Row.objects.filter(_IN_USE, ~_OF_A_LIVING_JOB, ~is_base, ~(_OF_A_WORKER & is_there)).order_by("pk")


def lock_unused(*, limit: int) -> list[int]:
    """Lock unused sets, so that nobody gives them to a job meanwhile; their ids. One that is locked now is in use."""
    return list(unused().select_for_update(skip_locked=True).values_list("pk", flat=True)[:limit])


def retire(ids: Sequence[int]) -> int:
    """Retire those of these locked sets that have no living job; how many. Workers do not carry their numbers, and the
    next job that wants such a set makes it anew: the row stays for ended jobs that show it, under another text."""
    gone = set(Row.objects.filter(~_OF_A_LIVING_JOB, pk__in=ids).values_list("pk", flat=True))
    text = Concat(Value("retired "), Cast("pk", TextField()))
    Row.objects.filter(pk__in=gone).update(retired_at=Now(), text=text)
    workers = list(Worker.objects.filter(satisfies__overlap=list(gone)).order_by("pk").select_for_update())
    for worker in workers:
        worker.satisfies = [one for one in worker.satisfies if one not in gone]
    Worker.objects.bulk_update(workers, ["satisfies"])
    return len(gone)


@transactions.retried
def delete_retired(limit: int, _: int) -> int:
    """Delete retired sets whose last job is deleted; how many."""
    used = Exists(Job.objects.filter(requirement=OuterRef("pk"))), Exists(Row.objects.filter(base=OuterRef("pk")))
    left = Row.objects.filter(*(~one for one in used), retired_at__isnull=False).order_by("pk")
    ids = left.select_for_update(skip_locked=True).values_list("pk", flat=True)[:limit]
    return Row.objects.filter(pk__in=list(ids)).delete()[0]
