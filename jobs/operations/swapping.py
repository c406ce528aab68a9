"""Handing in what was done for what is next."""

from collections.abc import Sequence
from uuid import UUID

from jobs.domain.states import Status
from jobs.errors import LeaseLost
from jobs.models import Worker
from jobs.operations import repeating
from jobs.operations.claiming import Claimed, claim, claim_once, claimed_before, count
from jobs.operations.ending import Finished, HandedIn, hand_in
from postgres import transactions


def finish_and_claim(
    worker: Worker,
    finished: Sequence[Finished],
    *,
    limit: int,
    unless_lost: bool = False,
    request_id: str | None = None,
) -> tuple[list[Status | LeaseLost], list[Claimed]]:
    """`finish`, then `claim` for up to `limit` jobs of the worker's own queues (0: none), in one transaction.

    One transaction waits for the disk once, and a call that broke half-way changed nothing, so that it can be made
    again: then it is answered as the first time, with those of the jobs that were claimed then whose leases still stand
    and are unconfirmed. `request_id` names the call (`claim`); without it, the leases that it hands in do.
    `unless_lost`: nothing is claimed if a lease was lost. Raises as `finish` does.
    """
    request = repeating.finish_key(worker, request_id, [(entry.job_id, entry.lease) for entry in finished])
    handed_in, taken, discarded = _swap(
        worker, finished, limit=limit, unless_lost=unless_lost, request=request
    )
    if not handed_in.is_repeat:
        count(taken)
    if discarded and not taken:
        taken = claim(worker, limit=limit)
    return handed_in.answers, taken


@transactions.retried
def _swap(
    worker: Worker, finished: Sequence[Finished], *, limit: int, unless_lost: bool, request: UUID
) -> tuple[HandedIn, list[Claimed], int]:
    handed_in = hand_in(worker, finished)
    is_lost = any(isinstance(answer, LeaseLost) for answer in handed_in.answers)
    if not limit or (unless_lost and is_lost):
        return handed_in, [], 0
    if handed_in.is_repeat:
        return handed_in, claimed_before(worker, request), 0
    return handed_in, *claim_once(worker, limit=limit, request=request)
