"""Small words for tests about labels: a worker that announces some, and a job that requires or prefers some."""

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import User

from jobs import operations
from jobs.domain.workers import Facts
from jobs.models import Job, Worker
from tests import farm


def labelled(name: str, *queues: str, loaded: tuple[str, ...] = (), owner: User | None = None, **labels: str) -> Worker:
    """A worker that was heard of just now and announced these labels."""
    return announce(farm.worker(name, *queues, owner=owner), loaded=loaded, **labels)


def announce(worker: Worker, *, loaded: tuple[str, ...] = (), **labels: str) -> Worker:
    """The worker as its next call knows it, once it has announced these labels and no others."""
    operations.introduce(worker, Facts(host=worker.name, labels=labels, loaded=loaded))
    return farm.stored_worker(worker)


def job(requires: Mapping[str, Any] | None = None, prefers: Mapping[str, Any] | None = None, **options: Any) -> Job:
    """A job of the kind `work` with these conditions."""
    return operations.submit("work", {}, requires=requires, prefers=prefers, **options)


def ids(claimed: list[operations.ClaimedJob]) -> list[int]:
    """Which jobs these are."""
    return [one.id for one in claimed]
