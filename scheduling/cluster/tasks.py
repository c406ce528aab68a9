"""What a worker of a cluster calls: django-q2 finds these by name."""

import logging
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from django.conf import settings
from django.db import connections

from observing import functions
from scheduling.cluster.channel import WorkersEnd
from scheduling.cluster.scoreboard import Scoreboard
from scheduling.domain.states import Kind
from scheduling.operations import runner
from scheduling.queries.functions import Dispatch, Holder

log = logging.getLogger(__name__)

# What django-q2's worker loop finds by name for what was dispatched.
FUNCTIONS: Final = {Kind.MUTATION: f"{__name__}.mutations", Kind.ACTION: f"{__name__}.action"}
BUDGET_S = 0.1  # then a worker goes back to that loop, which counts and replaces it now and then


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSlot:
    """The slot of a process in its cluster. `number` counts the processes that the cluster has had."""

    cluster_id: UUID
    worker: int
    number: int
    board: Scoreboard

    def holder(self, pid: int) -> Holder:
        """Under which name the process in this slot runs functions. Ids of processes come round; names do not."""
        return Holder(cluster_id=self.cluster_id, ran_by=f"{socket.gethostname()}:{pid}:{self.number}")


class _Here:
    slot: WorkerSlot | None = None
    queue: WorkersEnd | None = None


_here = _Here()


def take_slot(slot: WorkerSlot, queue: WorkersEnd) -> None:
    _here.slot, _here.queue = slot, queue
    functions.count_into(slot.board.counts, slot.worker)


def mutations(first: Dispatch) -> None:
    """Run mutations as long as some wait, for a moment: one after the other, each taken when the one before is done."""
    with _logged():
        runner.mutations(_one_by_one(first), by=_slot().holder(os.getpid()))


def action(dispatch: Dispatch) -> None:
    with _logged():
        runner.action(dispatch, by=_slot().holder(os.getpid()), deadline=_deadline)


def _one_by_one(first: Dispatch) -> Iterator[Dispatch]:
    """Those that wait behind a long one are taken by others."""
    slot, queue, until = _slot(), _here.queue, time.monotonic() + BUDGET_S
    following: Dispatch | None = first
    while following is not None:
        slot.board.runs(slot.worker, following.id)
        try:
            yield following
        finally:  # an error of ours is no death of its process
            slot.board.runs(slot.worker, 0)
        following = queue.try_next() if queue and time.monotonic() < until else None


@contextmanager
def _logged() -> Iterator[None]:
    """What goes wrong here is the scheduler's own: its rows have not left the queue."""
    try:
        yield
    except Exception:
        log.exception("A worker could not do what it was sent")
        connections.close_all()


def _deadline(timeout_s: float | None) -> None:
    slot = _slot()
    slot.board.set_deadline(slot.worker, None if timeout_s is None else timeout_s + settings.SCHEDULING["HOPELESS_S"])


def _slot() -> WorkerSlot:
    assert _here.slot is not None, "this process is no worker of a cluster"
    return _here.slot
