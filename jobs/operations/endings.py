"""What follows from the end of a job for those that waited for it: behind its unique_key, or after it in a flow."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction

from jobs.domain.states import Status
from jobs.operations import content, events, hooks, metering, quotas
from jobs.queries import bulks, flows, moves
from postgres import transactions


def end_waiting(jobs: Sequence[Any], *, to: Status, errors: Mapping[int, str]) -> None:
    """End locked jobs that no worker has, as canceled or timed out, each with its error."""
    _end(jobs, to=to, errors=errors)
    let_go(jobs)


def let_go(rows: Sequence[Any]) -> None:
    """These jobs ended, some of them with a unique_key (`has_key`) or in a flow (`in_flow`): who waited for them is
    due. Of two ends at the same moment neither sees the other, so what is left is looked at once more after the
    commit."""
    hooks.freed_keys([row.id for row in rows if row.has_key])
    _go_on_after(_close(rows))


def went_on(rows: Sequence[Any]) -> None:
    """The same of successes, whose statement has let go what is `next`."""
    hooks.freed_keys([row.id for row in rows if row.has_key])
    _go_on_after(_announce([flows.as_step(step) for row in rows for step in row.next or ()]))


def _go_on_after(noted: Sequence[int]) -> None:
    if noted:
        transaction.on_commit(lambda: look_after(noted), robust=True)


def look_after(job_ids: Sequence[int]) -> None:
    """Let go what is left to start after these jobs, whose ends are committed and which left notes; and cancel it where
    one did not succeed, and what comes after that, and so on. What this does not come to, as in a crash, is the
    janitor's."""
    waiting = deque(flows.after_ends(job_ids))
    while waiting:
        waiting += _look_once([waiting.popleft() for _ in range(min(len(waiting), flows.AT_ONCE))])


def go_on(job_ids: Sequence[int]) -> list[int]:
    """That in the caller's transaction, and once: which jobs it canceled that are to be looked after in turn. Edges
    that their end did not see are closed first."""
    _announce(flows.close_edges(job_ids))
    released = flows.released(job_ids)
    if free := [row.id for row in released if row.failed_id is None]:
        _announce(flows.let_go(free))
    failed = {row.id: row.failed_id for row in released if row.failed_id is not None}
    return _cancel(failed) if failed else []


@transactions.retried
def _look_once(job_ids: Sequence[int]) -> list[int]:
    return go_on(job_ids)


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
    flows.note_canceled(failed)
    jobs = bulks.lock_jobs(failed, states={Status.PENDING})
    errors = {pk: f"canceled: job {cause}, which it comes after, did not succeed" for pk, cause in failed.items()}
    _end(jobs, to=Status.CANCELED, errors=errors)
    hooks.freed_keys([job.pk for job in jobs if job.has_key])
    return _close(jobs)


def _close(ended: Sequence[Any]) -> list[int]:
    """Let go what comes after these jobs and waits for nothing more; which of them are to be looked after."""
    ids = [row.id for row in ended if row.in_flow]
    return _announce(flows.close_edges(ids)) if ids else []


def _end(jobs: Sequence[Any], *, to: Status, errors: Mapping[int, str]) -> None:
    if not jobs:
        return
    ids = [job.id for job in jobs]
    quotas.give_back_of_unstarted(jobs)
    moves.end_waiting(ids, to)
    hooks.changed(ids)
    hooks.ended_waiting(jobs, to=to, errors=errors)
    events.ended_waiting(ids)
    metering.ended_waiting(jobs)
    content.ended([job.id for job in jobs if job.is_metered])
