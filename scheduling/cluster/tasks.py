"""What a worker of a cluster calls: django-q2 finds these by name."""

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import UUID

from django.conf import settings
from django.db import connections

from scheduling.cluster.scoreboard import Scoreboard
from scheduling.operations import running
from scheduling.queries.functions import Handed, Holder

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """The place of a process in its cluster. `number` counts the processes that the cluster has had."""

    boot: UUID
    worker: int
    number: int
    board: Scoreboard

    def holder(self, pid: int) -> Holder:
        """Under which name the process at this desk runs functions. Ids of processes come round; names do not."""
        return Holder(boot=self.boot, ran_by=f"{socket.gethostname()}:{pid}:{self.number}")


class _Here:
    desk: Desk | None = None


_here = _Here()


def sit_down(desk: Desk) -> None:
    """This process is a worker from now on."""
    _here.desk = desk


def mutations(handed: list[Handed]) -> None:
    """Run a batch of mutations, and give back what there is no time for."""
    desk = _desk()
    with _logged():
        running.batch(handed, by=desk.holder(os.getpid()), should_stop=lambda: desk.board.is_stopping)


def action(handed: Handed) -> None:
    """Run one action."""
    with _logged():
        running.action(handed, by=_desk().holder(os.getpid()), deadline=_deadline)


@contextmanager
def _logged() -> Iterator[None]:
    """What goes wrong here is the scheduler's own: its rows are handed out again when their lease is over."""
    try:
        yield
    except Exception:
        log.exception("A worker could not do what it was handed")
        connections.close_all()


def _deadline(timeout_s: float | None) -> None:
    desk = _desk()
    desk.board.set_deadline(
        desk.worker, None if timeout_s is None else timeout_s + settings.SCHEDULING["HOPELESS_S"]
    )


def _desk() -> Desk:
    assert _here.desk is not None, "this process is no worker of a cluster"
    return _here.desk
