"""`manage.py janitor`: notices leases that ran out and jobs that waited too long, tends lanes, and sends what the
outbox has (docs/adr/0078)."""

import contextlib
import logging
import signal
import threading
import time
from argparse import ArgumentParser
from collections.abc import Callable
from functools import partial
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.db import DatabaseError, InterfaceError, OperationalError, connections
from prometheus_client import REGISTRY, generate_latest

from core import service
from jobs import operations
from jobs.domain.presence import EVERY_S, Part
from jobs.operations.workers import Presence
from observing import numbers
from outbox import operations as outbox
from postgres import configuration, embedded, transactions
from postgres.deadline import end_within
from postgres.reachability import explain_unreachable

ENDS_WITHIN_S = 9.5  # the sender gets eight (outbox); the farm kills after ten
LOCK_S = 1.0  # a wait for what somebody has locked: the rest of the round is due
SHORTEST_S = 0.05  # between two rounds, so that a row which cannot be handled is no hot loop
log = logging.getLogger(__name__)


class Command(BaseCommand):
    """One janitor; any number may run, and none is needed in particular."""

    help = "Watch jobs and send events to endpoints until SIGINT or SIGTERM. Run one or more, anywhere."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--metrics", type=numbers.address, metavar="[HOST:]PORT",
            help="serve metrics to Prometheus, which sends JOBFARM_METRICS_TOKEN as its bearer token",
        )  # fmt: skip

    def handle(self, *, metrics: tuple[str, int] | None = None, **_: Any) -> None:
        """Sweep, sleep until something is due (three seconds at most), and so on."""
        if metrics:
            numbers.expose(metrics, token=settings.METRICS_TOKEN, render=_numbers)  # a long sweep holds nobody up
        # As in web processes (jobfarm/asgi.py): what a stopped one has locked is free again before a lease is over.
        idle_s = max(1.0, settings.JOBFARM["LEASE_S"] / 4)
        configuration.bounded(connections["default"].settings_dict, lock_s=LOCK_S, idle_s=idle_s)
        stop = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, partial(_stop, stop))
        reports = Reports()
        try:
            with outbox.Background():
                watch(stop, reports)
            service.stopping()
            reports.end()
        finally:
            embedded.release()


def _stop(stop: threading.Event, _number: int, _frame: object) -> None:
    end_within(ENDS_WITHIN_S)
    stop.set()


def _numbers() -> bytes:
    return generate_latest(REGISTRY) + generate_latest(numbers.JANITOR)


class Reports:
    """What the janitor says of itself, from between its steps. One that is frozen, stuck in a statement, or whose
    every sweep fails, says nothing; a long sweep is no silence."""

    def __init__(self) -> None:
        self._presence = Presence(part=Part.JANITOR)
        self._due_at: float | None = None

    def begin(self) -> None:
        """Say for the first time that it is there: before it has done anything."""
        if self._due_at is None:
            self.report()
            service.ready()

    def report(self) -> None:
        """Say that it is there and gets on with its work, unless it has done so a moment ago."""
        if self._due_at is None or time.monotonic() >= self._due_at:
            self._presence.report()
            self._due_at = time.monotonic() + EVERY_S

    def end(self) -> None:
        """Report that it ends, if the database is reachable."""
        with contextlib.suppress(DatabaseError, InterfaceError):
            self._presence.end()


def watch(stop: threading.Event, reports: Reports) -> None:
    """Look and sweep until `stop` is set. A database that is away for a while is waited for."""
    tend_at = 0.0
    while not stop.is_set():
        try:
            reports.begin()
            pause = _round(reports)
            if time.monotonic() >= tend_at:
                operations.tend_lanes(between=between(reports))
                tend_at = time.monotonic() + settings.JOBFARM["JANITOR_S"]
        except (DatabaseError, InterfaceError) as error:
            numbers.JANITOR_ERRORS.inc()
            log.warning("the janitor lost the database and tries again: %s", explain_unreachable(error) or error)
            connections.close_all()
            pause = 1.0
        stop.wait(pause)


def between(reports: Reports) -> Callable[[], None]:
    """What is done between the steps of work that may take long: leases run out meanwhile as ever."""
    sweep_at, is_swept = time.monotonic() + settings.JOBFARM["JANITOR_S"], True

    def step() -> None:
        nonlocal sweep_at, is_swept
        if time.monotonic() >= sweep_at:
            sweep_at, is_swept = time.monotonic() + settings.JOBFARM["JANITOR_S"], False
            try:
                _round(reports)
            except OperationalError as error:  # what somebody has locked says nothing about what is tended here
                if not transactions.is_passing(error):
                    raise
                log.warning("the janitor could not sweep, and tries again: %s", error)
                return
            is_swept = True
        elif is_swept:
            reports.report()

    return step


def _round(reports: Reports) -> float:
    """Look whether something is due, and sweep if it is; how long to sleep after that. One statement for most."""
    next_in_s = operations.next_due_s()
    if next_in_s is not None and next_in_s <= 0:
        next_in_s = _sweep(reports)
    reports.report()
    longest: float = settings.JOBFARM["JANITOR_S"]
    return longest if next_in_s is None else min(max(next_in_s, SHORTEST_S), longest)


def _sweep(reports: Reports) -> float | None:
    with numbers.SWEEP_SECONDS.time():
        sweep = operations.sweep(between=reports.report)
    for result in ("taken_back", "expired"):
        numbers.SWEPT.labels(result).inc(getattr(sweep, result))
    return sweep.next_in_s
