"""`manage.py janitor`: notices leases that ran out, jobs that waited too long, and graces that are over."""

import logging
import signal
import threading
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.db import DatabaseError, InterfaceError, connections

from jobs import operations
from postgres import embedded

SHORTEST_S = 0.05  # between two rounds, so that a row which cannot be handled is no hot loop
log = logging.getLogger(__name__)


class Command(BaseCommand):
    """One janitor; any number may run, and none is needed in particular."""

    help = "Watch over running and waiting jobs until SIGINT or SIGTERM. Run one or more, anywhere."

    def handle(self, **_: Any) -> None:
        """Sweep, sleep until something is due (two seconds at most), and so on."""
        stop = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        try:
            watch(stop)
        finally:
            embedded.release()


def watch(stop: threading.Event) -> None:
    """Sweep until `stop` is set. A database that is away for a while is waited for."""
    while not stop.is_set():
        try:
            pause = _round()
        except (DatabaseError, InterfaceError) as error:
            log.warning("the janitor lost the database and tries again: %s", error)
            connections.close_all()
            pause = 1.0
        stop.wait(pause)


def _round() -> float:
    """One sweep; how long to sleep after it."""
    sweep = operations.sweep()
    if sweep.taken_back or sweep.expired:
        log.info("took back %s running jobs and timed out %s waiting ones", sweep.taken_back, sweep.expired)
    longest: float = settings.JOBFARM["JANITOR_S"]
    return longest if sweep.next_in_s is None else min(max(sweep.next_in_s, SHORTEST_S), longest)
