"""Which queues a worker polls, noted on its row: a key may allow more than its process wants (docs/adr/0046)."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.db import transaction

from jobs.models import Worker
from jobs.queries import keys
from live import operations as live

ALL: Final = "*"  # all that its key may take


def note(worker: Worker, queues: Sequence[str] | None) -> None:
    """Note that `worker` polls these queues, in this order; None: all that its key may take.

    Nothing is written for a worker that never names queues, and while another asks for the same only once in a third of
    WORKER_ALIVE_S. What it asked for before is kept for so long, so that one which takes turns between its queues asks
    for all of them.
    """
    names = [ALL] if queues is None or list(queues) == [*worker.queues, *worker.steals] else list(queues)
    if _is_known(worker, names):
        return
    with transaction.atomic():
        noted = keys.note_polled(worker.pk, names)
        if noted is not None and set(noted.was or [ALL]) != set(noted.polled_queues or [ALL]):
            live.touch("workers")
    if noted is not None:
        worker.polled_queues, worker.polled_at = noted.polled_queues, noted.polled_at


def _is_known(worker: Worker, names: Sequence[str]) -> bool:
    if worker.polled_queues is None or worker.polled_at is None:
        return list(names) == [ALL]
    if worker.read_at is None:  # by nobody who came with its key: how old the notes are is not known
        return False
    known: dict[str, datetime] = dict(zip(worker.polled_queues, worker.polled_at, strict=True))
    since = worker.read_at - timedelta(seconds=settings.JOBFARM["WORKER_ALIVE_S"] / 3)
    return all(name in known and known[name] > since for name in names)
