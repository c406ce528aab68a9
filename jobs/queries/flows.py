"""Statements about jobs that come after others (docs/adr/0127)."""

import functools
import operator
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import SimpleNamespace
from typing import Any, Final

from django.contrib.auth.models import User
from django.db.models import Q

from jobs import registry
from jobs.domain import flows
from jobs.domain.flows import MOST_OUT, WAITED
from jobs.domain.hooks import Used
from jobs.domain.records import BEHIND
from jobs.domain.states import ENDED, AttemptOutcome, Status
from jobs.domain.timelines import Piece
from jobs.errors import NotFound
from jobs.models import Attempt, Edge, Flow, Job, Step
from jobs.queries import bulks, lists, reads
from jobs.queries.submits import Stored
from postgres import statements

MOST_ATTEMPTS: Final = 2_000
AT_ONCE: Final = 50  # ended jobs in one transaction: each may have MOST_OUT that come after it


def lock_after(job_ids: Collection[int]) -> dict[int, statements.Row]:
    """Lock these jobs, so that none ends and none comes to another flow until the transaction ends: by id their
    `flow_id`, `depth`, and how many come after them (`later`)."""
    reads.lock_living(job_ids)
    rows = statements.load("jobs", "lock_after").run({"ids": list(job_ids), "most": MOST_OUT + 1})
    return {row.id: row for row in rows}


def joined(flow_ids: Collection[int]) -> int:
    """The flow that these become, which is locked; a new one of none."""
    known = Flow.objects.select_for_update().filter(pk__in=flow_ids).order_by("pk").values_list("pk", flat=True)
    return next(iter(known), None) or Flow.objects.create().pk


def join(flow_id: int, job_ids: Collection[int], *, others: Collection[int]) -> None:
    """Let these locked jobs, and all of these other flows, be part of the flow."""
    if job_ids or others:
        statements.load("jobs", "join_flow").run({"flow": flow_id, "ids": list(job_ids), "others": list(others)})


def connect(stored: Sequence[Stored], after: Mapping[int, Iterable[int]], depths: Mapping[int, int]) -> list[int]:
    """Write down the places of these new jobs, and what each comes after; which of that has ended already, and is to be
    looked after."""
    those = [one for one in stored if one.record.in_flow]
    edges = [(one.id, before, one.record.condition.value) for one in those for before in after.get(one.id, ())]
    later, before, condition = zip(*edges, strict=True) if edges else ((), (), ())
    params = {
        "job": [one.id for one in those],
        "name": [one.record.name or "" for one in those],
        "place": [one.record.place_id or one.id for one in those],
        "depth": [depths.get(one.id, 0) for one in those],
        "due_at": [one.record.run_at for one in those],
        "expires_s": [one.record.expires_s if one.record.expires_at is None else None for one in those],
        "later": list(later), "after": list(before), "condition": list(condition),
    }  # fmt: skip
    return [row.job_id for row in statements.load("jobs", "connect").run(params)]


def lock_ended(limit: int, but_for: Sequence[int] = ()) -> list[statements.Row]:
    """Lock notes of jobs that ended in flows, except these ids: rows of `id` and `kind`."""
    return statements.load("jobs", "lock_ended").run({"limit": limit, "but_for": list(but_for)})


def released(ended: Sequence[int]) -> list[statements.Row]:
    """Take the notes of these jobs: of what comes after them what waits for nothing more, in locked rows of `id` and
    `failed_id`."""
    return statements.load("jobs", "released").run({"ids": list(ended), "behind": BEHIND})


def let_go(job_ids: Sequence[int]) -> list[statements.Row]:
    """Let these locked jobs start: rows of `id`, `queue`, `due_at` and `is_later`."""
    statement = statements.load("jobs", "let_go")
    parts = [job_ids[begin : begin + MOST_OUT] for begin in range(0, len(job_ids), MOST_OUT)]
    return [row for part in parts for row in statement.run({"ids": list(part)})]


def close_edges(ended: Sequence[int]) -> list[statements.Row]:
    """Let start what comes after these jobs, which end in this transaction: rows as of `let_go`; and each of them that
    is to be looked after once that is committed, in a row without a `queue`."""
    return statements.load("jobs", "close_edges").run({"ids": list(ended)})


def as_step(row: Mapping[str, Any]) -> SimpleNamespace:
    """A row of `close_edges` that another statement brought as JSON."""
    due_at = None if row["due_at"] is None else datetime.fromisoformat(row["due_at"])
    return SimpleNamespace(**{**row, "due_at": due_at})


def after_ends(ended: Sequence[int]) -> list[int]:
    """Which of these jobs, whose ends are committed, left something to be looked at."""
    return [row.id for row in statements.load("jobs", "after_ends").run({"ids": list(ended)})]


def suspend(job_id: int, children: Sequence[int]) -> statements.Row:
    """Let this locked job wait for those, of which it has locked what lives (sql/suspend.sql)."""
    [row] = statements.load("jobs", "suspend").run({"job": job_id, "children": list(children)})
    return row


def suspended(fences: Mapping[int, int]) -> set[int]:
    """Which of these waiting jobs, with the numbers of their latest claims, are suspended."""
    if not fences:
        return set()
    ended = Attempt.objects.filter(
        job_id__in=list(fences), number__in={*fences.values()}, outcome=AttemptOutcome.SUSPENDED
    )
    return {job_id for job_id, number in ended.values_list("job_id", "number") if fences[job_id] == number}


def child(parent_id: int, position: int) -> Job | None:
    """The job that this one submitted there, with its payload."""
    return Job.objects.whole().filter(step__parent=parent_id, step__position=position).first()


def of_parent(job_id: int) -> tuple[int, int]:
    """The flow of a living job, which begins one if it has none, and its depth there; both stay so until the
    transaction ends."""
    row = lock_after([job_id])[job_id]
    if row.flow_id is not None:
        return row.flow_id, row.depth
    flow_id = joined(())
    join(flow_id, [job_id], others=())
    return flow_id, row.depth


def adopt(job_id: int, *, parent_id: int, position: int, depth: int, outlives: bool) -> None:
    """Note which job submitted this new one, and where among its own."""
    Step.objects.filter(pk=job_id).update(parent=parent_id, position=position, depth=depth, outlives=outlives)


def to_cancel_with(parent_ids: Iterable[int]) -> dict[int, int]:
    """The living jobs that these submitted and that end with them, each with who submitted it."""
    jobs = Job.objects.living().filter(step__parent__in=list(parent_ids), step__outlives=False)
    return dict(jobs.values_list("pk", "step__parent"))


def keep_waited(job_id: int, *, of: int) -> None:
    """Let a new job be given the results that the one which it tries again had waited for."""
    waited = Edge.objects.filter(job_id=of, condition=WAITED).values_list("after_id", flat=True)
    Edge.objects.bulk_create([Edge(job_id=job_id, after_id=one, condition=WAITED) for one in waited])


def note_canceled(failed: Mapping[int, int]) -> None:
    """Remember for which job each of these was canceled."""
    for job_id in set(failed.values()):
        ids = [later for later, one in failed.items() if one == job_id]
        Step.objects.filter(pk__in=ids).update(canceled_for=job_id)


def steps(job_ids: Collection[int]) -> dict[int, Step]:
    """Those of these jobs that are in a flow: their places."""
    return Step.objects.in_bulk(list(job_ids))


def places(job_ids: Collection[int]) -> dict[int, int]:
    """The places that these jobs have or had."""
    return dict(Step.objects.filter(pk__in=list(job_ids)).values_list("pk", "place_id"))


def after(job_ids: Collection[int]) -> dict[int, list[Edge]]:
    """What each of these jobs came after from its submit on, in order of id."""
    edges: dict[int, list[Edge]] = {job_id: [] for job_id in job_ids}
    named = Edge.objects.filter(job_id__in=list(job_ids)).exclude(condition=WAITED)
    for edge in named.order_by("job_id", "after_id"):
        edges[edge.job_id].append(edge)
    return edges


def holders(place_ids: Collection[int]) -> dict[int, int]:
    """Who has each of these places now: the newest job there."""
    rows = Step.objects.filter(place_id__in=list(place_ids)).order_by("place_id", "pk").values_list("place_id", "pk")
    return dict(rows)


def order(flow_id: int) -> dict[int, list[int]]:
    """Who has the places of a flow, whoever comes first first, each with what it came after from its submit on: who has
    that place now."""
    steps = Step.objects.filter(job__flow_id=flow_id).order_by("pk").values_list("pk", "place_id", "depth")
    places, depths = {pk: place for pk, place, _ in steps}, {pk: depth for pk, _, depth in steps}
    newest = {place: pk for pk, place in places.items()}
    edges = after(newest.values())
    return {
        pk: [newest.get(places.get(edge.after_id, 0), edge.after_id) for edge in edges[pk]]
        for pk in sorted(newest.values(), key=lambda pk: depths[pk])
    }


def canceled_for(job_id: int) -> list[Job]:
    """What was canceled since this job did not succeed and was not tried again, locked, with payloads, whoever comes
    first first. Not its children: a retry submits its own."""
    of_others = ~Q(parent=job_id) | Q(parent=None)
    steps = Step.objects.filter(of_others, canceled_for=job_id).order_by("depth", "pk")
    bulks.lock_places([step.pk for step in steps])
    newest = holders([step.place_id for step in steps])
    ids = [step.pk for step in steps if newest[step.place_id] == step.pk]
    jobs = Job.objects.whole().in_bulk(ids)
    return [jobs[one] for one in ids if one in jobs]


def unhappy_holders(place_ids: Collection[int]) -> dict[int, Step]:
    """By place who has it now, where that ended without success: locked, for nobody else tries them again meanwhile."""

    def read() -> dict[int, Step]:
        jobs = Job.objects.ended(*(ENDED - {Status.SUCCESS})).select_related("step")
        return {job.step.place_id: job.step for job in jobs.filter(pk__in=[*holders(place_ids).values()])}

    bulks.lock_places([step.pk for step in read().values()])
    return read()


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What somebody sees of a flow: a row of flow.sql for each of its `places`, by depth, with what the job that has it
    now comes `after` (who has that place now), and its depth, for what a job waits for stands before it; how many of
    them stand how; what all jobs that had one used."""

    created_at: datetime
    places: Sequence[statements.Row]
    after: Mapping[int, Sequence[int]]
    depths: Mapping[int, int]
    counts: Mapping[str, int]
    used: Used | None


def seen(flow_id: int, *, viewer: int) -> Seen:
    """Of the jobs that a person may see, or (0) all. Raises NotFound where there is none."""
    rows = statements.load("jobs", "flow").run({"flow": flow_id, "viewer": viewer, "behind": BEHIND})
    if not rows:
        raise NotFound("There is no such flow.")
    holders = {row.place_id: row.id for row in rows}
    after = {row.id: [holders.get(place, place) for place in row.before] for row in rows}
    depths = flows.depths(after, {row.id: row.depth for row in rows})
    rows.sort(key=lambda row: (depths[row.id], row.place_id))
    counts = Counter(row.status for row in rows)
    created_at = min(row.created_at for row in rows)
    mine = functools.reduce(operator.or_, lists.whose(viewer))
    used = registry.used([*Job.objects.filter(mine, flow_id=flow_id).values_list("pk", flat=True)])
    return Seen(created_at=created_at, places=rows, after=after, depths=depths, counts=counts, used=used)


def attempts(seen: Seen) -> tuple[dict[int, list[Piece]], bool]:
    """The attempts that are over by job, the oldest first: those of the newest jobs, MOST_ATTEMPTS at most; and whether
    these are all. The latest one of a job that runs or succeeded is in its row."""
    several = [row.id for row in seen.places if row.claims > (row.status in ("in_progress", "success"))]
    pieces: dict[int, list[Piece]] = {}
    of_newest = Attempt.objects.filter(job_id__in=sorted(several)[-MOST_ATTEMPTS:]).order_by("-job", "-number")
    rows = [*of_newest.values_list("job", "claimed_at", "ended_at", "outcome")[:MOST_ATTEMPTS]]
    for job_id, claimed_at, ended_at, outcome in reversed(rows):
        pieces.setdefault(job_id, []).append(Piece(claimed_at.timestamp(), ended_at.timestamp(), outcome))
    return pieces, len(rows) < MOST_ATTEMPTS and len(several) <= MOST_ATTEMPTS


def living(flow_id: int, *, owner: User | None) -> list[int]:
    """The jobs of a flow that have not ended, of this owner or (None) of everybody: the last ones first, so that none
    begins meanwhile."""
    jobs = Job.objects.living().filter(flow_id=flow_id).order_by("-step__depth", "-pk")
    return list((jobs if owner is None else jobs.filter(owner=owner)).values_list("pk", flat=True))


def unhappy(flow_id: int, *, owner: User | None) -> list[int]:
    """Those that have their places and did not succeed, whoever comes first first: not what comes again with who has
    a place (`canceled_for`), nor canceled children."""
    jobs = Job.objects.filter(flow_id=flow_id).select_related("step")
    newest = {*dict(jobs.order_by("pk").values_list("step__place_id", "pk")).values()}
    ended = jobs.ended(*(ENDED - {Status.SUCCESS})).order_by("step__depth", "pk")
    ended = ended if owner is None else ended.filter(owner=owner)
    return [job.pk for job in ended if job.pk in newest and not _comes_with_another(job.step, newest)]


def _comes_with_another(step: Step, newest: Collection[int]) -> bool:
    cause = step.canceled_for_id
    return cause is not None and (cause in newest or cause == step.parent_id)
