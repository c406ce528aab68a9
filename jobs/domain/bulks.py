"""Bulk actions: what can be done to many jobs, in which states, and what of it can be taken back truthfully."""

from enum import StrEnum
from typing import Final

from jobs.domain.states import ENDED, LIVE, Status


class BulkAction(StrEnum):
    CANCEL = "cancel"
    RETRY = "retry"
    QUEUE = "change_queue"
    PRIORITY = "change_priority"
    RUN_NOW = "run_now"
    UNDO = "undo"


class Phase(StrEnum):
    """Where a bulk stands. It is counted first, and nothing is done before somebody has seen the number."""

    COUNTING = "counting"
    READY = "ready"
    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"


OVER: Final = frozenset({Phase.DONE, Phase.STOPPED})

FITS: Final = {
    **dict.fromkeys((BulkAction.QUEUE, BulkAction.PRIORITY, BulkAction.RUN_NOW), frozenset({Status.PENDING})),
    BulkAction.CANCEL: LIVE,
    BulkAction.RETRY: ENDED,
}

# An ended job is never changed again, so a cancel is not taken back: what waited is submitted once
# more, as new jobs. What a worker has begun stays begun.
UNDOING: Final = {
    BulkAction.CANCEL: "Submit those that were pending again, as new jobs",
    BulkAction.RETRY: "Cancel the new jobs that no worker has taken yet",
    BulkAction.QUEUE: "Move those still pending back to their queues",
    BulkAction.PRIORITY: "Give those still pending their old priorities",
    BulkAction.RUN_NOW: "Give those still pending their old times",
}


_SENTENCES: Final = {
    BulkAction.CANCEL: "Cancel {them}",
    BulkAction.RETRY: "Retry {them}",
    BulkAction.QUEUE: "Move {them} to the queue {value}",
    BulkAction.PRIORITY: "Give {them} the priority {value}",
    BulkAction.RUN_NOW: "Run {them} now",
    BulkAction.UNDO: "Undo",
}


def sentence(action: BulkAction, value: str, *, jobs: int) -> str:
    """What is about to be done to so many, as a person says it."""
    return _SENTENCES[action].format(them=f"{jobs:,} job{'' if jobs == 1 else 's'}", value=value)
