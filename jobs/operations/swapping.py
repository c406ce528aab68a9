"""Handing in what was done for what is next."""

from collections.abc import Sequence

from django.db import transaction

from jobs.domain.states import Status
from jobs.errors import LeaseLost
from jobs.models import Worker
from jobs.operations.claiming import Claimed, claim, claim_once, count
from jobs.operations.ending import Finished, hand_in


def finish_and_claim(
    worker: Worker, finished: Sequence[Finished], *, limit: int, unless_lost: bool = False
) -> tuple[list[Status | LeaseLost], list[Claimed]]:
    """`finish`, then `claim` for up to `limit` jobs of the worker's own queues (0: none), in one transaction.

    One transaction waits for the disk once, and a call that broke half-way changed nothing, so that it can be made
    again. `unless_lost`: nothing is claimed if a lease was lost. Raises as `finish` does.
    """
    taken: list[Claimed] = []
    left_out = 0
    with transaction.atomic():
        ended = hand_in(worker, finished)
        is_over = not limit or (unless_lost and any(isinstance(status, LeaseLost) for status in ended))
        if not is_over:
            taken, left_out = claim_once(worker, limit=limit)
    count(taken)
    if left_out and not taken:
        taken = claim(worker, limit=limit)
    return ended, taken
