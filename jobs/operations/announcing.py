"""Which topics a change makes stale: said inside its transaction, published after the commit."""

from collections.abc import Iterable
from datetime import datetime

from jobs.operations import taking
from live import operations as live


def submitted(due: Iterable[tuple[str, datetime | None]]) -> None:
    """New jobs exist; `due` holds (queue, when it may start, or None for at once) of each.

    Their own topics are not named: nobody can have read a job before it was there.
    """
    live.touch("jobs", *(_work(queue, at) for queue, at in due))


def changed(job_ids: Iterable[int], *extra: str) -> None:
    """Something about these jobs changed."""
    live.touch("jobs", *(f"job:{job_id}" for job_id in job_ids), *extra)


def available(queue: str, at: datetime | None = None) -> None:
    """Something that was there before may now (or at a later moment) be claimable in this queue."""
    if at is None:
        taking.forget([queue])
    live.touch(_work(queue, at))


def room(queue: str) -> None:
    """This queue has a free slot again."""
    live.touch(_work(queue, None))


def wrote(job_id: int) -> None:
    """A running job wrote output."""
    live.touch(f"output:{job_id}")


def stopped(worker_id: int) -> None:
    """A job of this worker was taken from it, or its key changed: it looks at what it holds."""
    live.touch(f"worker:{worker_id}")


def _work(queue: str, at: datetime | None) -> str:
    return f"work:{queue}" if at is None else f"due:{queue}:{int(at.timestamp() * 1000)}"
