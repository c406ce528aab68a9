"""Jobs that wait for jobs, behind a unique_key or after them in a flow: new ones, in which flow they are and what of
theirs waits (docs/adr/0127); and what follows from an end for those that waited for it."""

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

from django.contrib.auth.models import User
from django.db import OperationalError, transaction

from jobs.domain import flows
from jobs.domain.flows import Condition
from jobs.domain.records import BEHIND, JobRecord
from jobs.domain.states import Status
from jobs.errors import InvalidValue, NotUnique, RowLocked, UnknownJob
from jobs.models import Job, Step
from jobs.operations import content, events, hooks, quotas
from jobs.queries import bulks, flows as queries, moves, reads
from jobs.queries.submits import Stored
from postgres import statements, transactions

Answers = list[Stored | NotUnique]
# What a new job has, of which any makes it part of a flow.
FIELDS: Final = frozenset({"after", "after_places", "name", "flow_id"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """New jobs on their way into a flow: `records` as they are stored, of which those that come after others wait;
    `own` as they were; `before`: of each that is part of it, by its place in the call, the places of those of the
    call that it comes after; `depths`: how many come one after another before it."""

    records: Sequence[JobRecord]
    own: Sequence[JobRecord]
    before: Mapping[int, Sequence[int]]
    depths: Mapping[int, int]

    def connect(self, answers: Answers) -> Answers:
        """Write down what comes after what of those that were stored.

        Raises NotUnique where one that others of the call come after was refused for a twin."""
        for place in {one for named in self.before.values() for one in named}:
            if isinstance(refused := answers[place], NotUnique):
                raise refused
        stored = {place: one for place, one in enumerate(answers) if isinstance(one, Stored)}
        inside = {place: [stored[one].id for one in self.before.get(place, ())] for place in stored}
        after = {place: [*dict.fromkeys([*self.own[place].after, *inside[place]])] for place in stored}
        kept = [one._replace(record=self.own[place]) for place, one in stored.items() if place in self.before]
        by_id = {one.id: after[place] for place, one in stored.items()}
        depths = {one.id: self.depths[place] for place, one in stored.items() if place in self.depths}
        look_after_commit(queries.connect(kept, by_id, depths))
        return [
            one._replace(behind_id=after[place][0], record=one.record._replace(after=tuple(after[place])))
            if isinstance(one, Stored) and after[place]
            else one
            for place, one in enumerate(answers)
        ]


def opened(records: Sequence[JobRecord]) -> Opened:
    """Open a flow for those of these new jobs that are part of one, or find it; they are locked that come after any of
    them. In the transaction that stores them, before it does.

    Raises UnknownJob for one that is gone, and InvalidValue for what is more than a flow may have (`domain.flows`).
    """
    those = enumerate(records)
    before = {place: one.after_places for place, one in those if any(getattr(one, field) for field in FIELDS)}
    before = {one: () for named in before.values() for one in named} | before
    known = _known(records)
    _check_amounts(records, known)
    deep = {place: max((known[job].depth + 1 for job in records[place].after), default=0) for place in before}
    flow_ids = {one.flow_id for one in [*known.values(), *records] if one.flow_id is not None}
    flow_id = queries.joined(flow_ids)
    new = [job for job, row in known.items() if row.flow_id is None]
    queries.join(flow_id, new, others=flow_ids - {flow_id})
    own = [one._replace(flow_id=flow_id, in_flow=True) if place in before else one for place, one in enumerate(records)]
    waiting = [one._replace(run_at=BEHIND, expires_s=None) if one.after or one.after_places else one for one in own]
    depths = flows.depths(before, deep)
    if max(depths.values()) >= flows.DEEPEST:
        raise InvalidValue(field="after", why=f"{flows.DEEPEST:,} jobs one after another at most")
    return Opened(records=waiting, own=own, before=before, depths=depths)


def check(records: Sequence[JobRecord], *, by: User | None) -> None:
    """Raise UnknownJob for a job that one of these new ones comes after, and that is not there or not for `by` to see;
    InvalidValue where one call has jobs of a flow, and jobs that replace others."""
    ids = {job for record in records for job in record.after}
    if any(record.on_conflict for record in records):
        raise InvalidValue(field="on_conflict", why="what is part of a flow replaces no job and waits behind none")
    visible = Job.objects.all() if by is None else reads.visible_to(by)
    for job_id in sorted(ids - set(visible.filter(pk__in=ids).values_list("pk", flat=True))):
        raise UnknownJob(job=job_id)


def again(jobs: Sequence[Job], records: Sequence[JobRecord]) -> list[JobRecord]:
    """The records of these ended jobs as they are tried again, each in its place of its flow, if it has one: after
    whoever has the places now that it came after."""
    steps = queries.steps([job.pk for job in jobs])
    if not steps:
        return [*records]
    locked = queries.lock_after(steps.keys())  # while `jobs` were read their flow may have become another one
    edges = queries.after(steps)
    places = queries.places({edge.after_id for of in edges.values() for edge in of})
    own = {steps[job.pk].place_id: n for n, job in enumerate(jobs) if job.pk in steps}
    holders = queries.holders(set(places.values()) - own.keys())
    made: list[JobRecord] = []
    for job, record in zip(jobs, records, strict=True):
        of = [places.get(edge.after_id, edge.after_id) for edge in edges.get(job.pk, ())]
        made.append(record if job.pk not in locked else record._replace(
            name=steps[job.pk].name or None, place_id=steps[job.pk].place_id, flow_id=locked[job.pk].flow_id,
            after=tuple(holders.get(place, place) for place in of if place not in own),
            after_places=tuple(own[place] for place in of if place in own),
            condition=Condition(edges[job.pk][0].condition if of else Condition.SUCCESS),
        ))  # fmt: skip
    return made


def canceled_for(job: Job) -> list[Job]:
    """What was canceled for the sake of this ended job, and is submitted again with it: locked. What comes after
    others that did not succeed comes with the last of those instead: it would be canceled for them at once."""
    canceled = queries.canceled_for(job.pk) if job.flow_id is not None else []
    if not canceled:
        return []
    edges = queries.after([one.pk for one in canceled])
    places = queries.places([job.pk, *edges, *(edge.after_id for of in edges.values() for edge in of)])
    unhappy = queries.unhappy_holders({*places.values()})
    again, causes = {places[job.pk]}, dict[int, int]()
    for pk, of in edges.items():
        before = {places.get(edge.after_id, 0) for edge in of if edge.condition == Condition.SUCCESS} - again
        if stand := [unhappy[place] for place in before & unhappy.keys()]:
            last = max(stand, key=lambda step: (step.depth, step.pk))
            causes[pk] = causes.get(last.pk) or _root(last)
        else:
            again.add(places[pk])
    queries.note_canceled(causes)
    return [one for one in canceled if one.pk not in causes]


def end_waiting(jobs: Sequence[Any], *, to: Status, errors: Mapping[int, str]) -> None:
    """End locked jobs that no worker has, as canceled or timed out, each with its error."""
    _end(jobs, to=to, errors=errors)
    let_go(jobs)


def let_go(rows: Sequence[Any]) -> None:
    """These jobs ended, some of them with a unique_key (`has_key`) or in a flow (`in_flow`): who waited for them is
    due. Of two ends at the same moment neither sees the other, so what is left is looked at once more after the
    commit."""
    hooks.freed_keys([row.id for row in rows if row.has_key])
    look_after_commit(_close(rows))


def went_on(rows: Sequence[Any]) -> None:
    """The same of successes, whose statement has let go what is `next`."""
    hooks.freed_keys([row.id for row in rows if row.has_key])
    look_after_commit(_announce([queries.as_step(step) for row in rows for step in row.next or ()]))


def look_after_commit(noted: Sequence[int]) -> None:
    """`look_after` these, if any, once the caller's transaction is committed."""
    if noted:
        transaction.on_commit(lambda: look_after(noted), robust=True)


def look_after(job_ids: Sequence[int]) -> None:
    """Let go what is left to start after these jobs, whose ends are committed and which left notes; and cancel it where
    one did not succeed, and what comes after that, and so on. What this does not come to, as in a crash or since
    somebody keeps it locked, is the janitor's."""
    waiting = deque(queries.after_ends(job_ids))
    while waiting:
        ended = [waiting.popleft() for _ in range(min(len(waiting), queries.AT_ONCE))]
        with suppress(RowLocked):  # the others go on
            waiting += _look_once(ended)


def go_on(job_ids: Sequence[int]) -> list[int]:
    """That in the caller's transaction, and once: which jobs it canceled that are to be looked after in turn. Edges
    that their end did not see are closed first."""
    _announce(queries.close_edges(job_ids))
    released = queries.released(job_ids)
    if free := [row.id for row in released if row.failed_id is None]:
        _announce(queries.let_go(free))
    failed = {row.id: row.failed_id for row in released if row.failed_id is not None}
    return _cancel(failed) if failed else []


@contextmanager
def refusing_locked() -> Iterator[None]:
    """In the block, or the function, that `retried` is around, what somebody keeps locked for longer than it may wait
    is refused: tried again and again, it would keep the worker's other jobs waiting."""
    try:
        yield
    except OperationalError as error:
        if transactions.collided(error) or not transactions.is_passing(error):
            raise
        raise RowLocked(retry_after=1) from None  # else it were a collision, which is tried again


@transactions.retried
@refusing_locked()
def _look_once(job_ids: Sequence[int]) -> list[int]:
    with transactions.waiting_at_most(moves.LOCKED_MS):  # a worker waits for the answer about what it handed in
        return go_on(job_ids)


def _root(step: Step) -> int:
    """For whose sake what comes after this one is canceled (sql/released.sql)."""
    cause = step.canceled_for_id
    return step.pk if cause is None or cause == step.parent_id else cause


def _known(records: Sequence[JobRecord]) -> dict[int, statements.Row]:
    """The jobs that some of these come after, locked. Raises UnknownJob for one that is gone."""
    ids = {job for one in records for job in one.after}
    known = queries.lock_after(ids) if ids else {}
    for job_id in ids - known.keys():
        raise UnknownJob(job=job_id)
    return known


def _check_amounts(records: Sequence[JobRecord], known: Mapping[int, statements.Row]) -> None:
    after = Counter(job for one in records for job in one.after)
    inside = Counter(place for one in records for place in one.after_places)
    most = max([*inside.values(), *(known[job].later + more for job, more in after.items())], default=0)
    if most > flows.MOST_OUT:
        raise InvalidValue(field="after", why=f"{flows.MOST_OUT:,} jobs come after one at most")
    if max((len(one.after) + len(one.after_places) for one in records), default=0) > flows.MOST_INTO:
        raise InvalidValue(field="after", why=f"a job comes after {flows.MOST_INTO:,} at most")


def _announce(steps: Sequence[Any]) -> list[int]:
    """Tell of those that were let go; the others (without a `queue`) are to be looked after."""
    released = [row for row in steps if row.queue is not None]
    if released:
        hooks.changed([row.id for row in released])
    for queue, due_at in {(row.queue, row.due_at if row.is_later else None) for row in released}:
        hooks.available(queue, at=due_at)
    return [row.id for row in steps if row.queue is None]


def _cancel(failed: dict[int, int]) -> list[int]:
    """Who calls goes on with these: a chain of a thousand is no thousand calls within one another."""
    queries.note_canceled(failed)
    jobs = bulks.lock_jobs(failed, states={Status.PENDING})
    errors = {pk: f"canceled: job {cause}, which it comes after, did not succeed" for pk, cause in failed.items()}
    _end(jobs, to=Status.CANCELED, errors=errors)
    hooks.freed_keys([job.pk for job in jobs if job.has_key])
    return _close(jobs)


def _close(ended: Sequence[Any]) -> list[int]:
    """Let go what comes after these jobs and waits for nothing more; which of them are to be looked after."""
    ids = [row.id for row in ended if row.in_flow]
    return _announce(queries.close_edges(ids)) if ids else []


def _end(jobs: Sequence[Any], *, to: Status, errors: Mapping[int, str]) -> None:
    if not jobs:
        return
    ids = [job.id for job in jobs]
    quotas.give_back(job for job in jobs if job.confirmed_fence == 0)  # what no worker spoke for will not be used
    moves.end_waiting(ids, to)
    hooks.changed(ids)
    hooks.ended_waiting(jobs, to=to, errors=errors)
    events.ended_waiting(jobs)
    content.ended([job.id for job in jobs if job.is_metered])
