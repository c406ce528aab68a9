"""Handing in what was done for what is next."""

from collections.abc import Sequence

from jobs.domain.states import Status
from jobs.errors import LeaseLost
from jobs.models import Worker
from jobs.operations.claiming import Claimed, claim, claim_once, count
from jobs.operations.ending import Finished, hand_in
from postgres import transactions


def finish_and_claim(
    worker: Worker, finished: Sequence[Finished], *, limit: int, unless_lost: bool = False
) -> tuple[list[Status | LeaseLost], list[Claimed]]:
    """`finish`, then `claim` for up to `limit` jobs of the worker's own queues (0: none), in one transaction.

    One transaction waits for the disk once, and a call that broke half-way changed nothing, so that it can be made
    again. `unless_lost`: nothing is claimed if a lease was lost. Raises as `finish` does.
    """
    ended, taken, left_out = _swap(worker, finished, limit=limit, unless_lost=unless_lost)
    count(taken)
    if left_out and not taken:
        taken = claim(worker, limit=limit)
    return ended, taken


@transactions.retried
def _swap(
    worker: Worker, finished: Sequence[Finished], *, limit: int, unless_lost: bool
) -> tuple[list[Status | LeaseLost], list[Claimed], int]:
    ended = hand_in(worker, finished)
    if not limit or (unless_lost and any(isinstance(status, LeaseLost) for status in ended)):
        return ended, [], 0
    return ended, *claim_once(worker, limit=limit)
