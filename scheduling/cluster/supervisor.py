"""Keeps one cluster alive: starts its processes, watches them, and starts others when they die or freeze."""

import gc
import logging
import os
import signal
import time
import uuid
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

from django.conf import settings
from django.db import Error as DatabaseFailure, connections
from prometheus_client import REGISTRY, generate_latest

from core import forked, service
from core.backoff import Backoff
from observing import numbers
from observing.numbers import FunctionCounts
from postgres import embedded, probe
from postgres.connections import close_before_fork
from postgres.deadline import end_within
from scheduling.cluster import pool, process_group
from scheduling.cluster.dispatcher import Dispatcher
from scheduling.cluster.process_group import Pulse, why_frozen
from scheduling.domain.calls import Kind
from scheduling.operations import clusters

log = logging.getLogger(__name__)

TICK_S = 0.2
CHECK_S = 1.0
STEADY_S = 30.0  # a cluster that lived this long is well again
RECORDED_WITHIN_S = 4.0  # the farm gives all of it ten seconds more than the grace
MARGIN_S = 5.0  # beyond the grace, until the cluster is killed
TRIES_TO_RECORD_END = 20
_PAUSES = Backoff(first_s=0.2, cap_s=5)


@dataclass(slots=True, kw_only=True)
class Life:
    """One life of the cluster: its cluster id, its dispatcher, and that one's pulse. `judged_from`: nothing that was
    before counts against it."""

    cluster_id: uuid.UUID
    process: forked.Forked
    pulse: Pulse
    began_at: float = field(default_factory=time.monotonic)
    judged_from: float = 0.0
    check_at: float = 0.0
    is_suspected: bool = False


class Supervisor:
    """Runs a cluster until SIGINT or SIGTERM, with nothing left running afterwards. A second one, or SIGQUIT, ends
    it at once: its running actions are unknown then.

    The dispatcher is forked from this process, which has Django loaded and holds neither connection nor thread
    (docs/clusters.md). Frozen means that a function is overdue while a worker is free, or that the
    dispatcher shows no sign of life; long actions are no alarm.
    """

    def __init__(
        self, *, kind: Kind, queues: list[str] | None, workers: int, metrics: tuple[str, int] | None = None
    ) -> None:
        self._kind = kind
        self._queues = queues
        self._workers = workers
        self._counts = FunctionCounts(pool.places(kind, workers))
        self._exposition = metrics and numbers.opened(metrics, token=settings.METRICS_TOKEN, render=self._numbers)
        # Set by the signal handlers, looked at by the loops: a handler must not touch a lock that the code it
        # interrupted may hold, as an Event's.
        self._must_stop = self._is_in_a_hurry = False
        self._is_ready = False
        self._deaths = 0

    def run(self) -> None:
        """Start the cluster again and again, until a signal to stop."""
        self._signals = forked.Signals()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT):
            signal.signal(number, self._on_signal)
        gc.collect()
        while not self._must_stop:
            life = self._start()
            ending, why = self._keep(life)
            process_group.kill_group(life.process.pid)
            life.process.kill()
            life.process.wait()
            self._record_end(life, ending=ending, why=why)
            if ending != "stopped":
                self._counts.restarts += 1
                log.error("A cluster for %ss ended (%s); another one starts", self._kind.value, why)
                self._pause(life)

    def _on_signal(self, number: int, _frame: object) -> None:
        self._is_in_a_hurry = self._must_stop or number == signal.SIGQUIT
        self._must_stop = True
        grace_s = 0.0 if self._is_in_a_hurry else settings.SCHEDULING["GRACE_S"] + MARGIN_S
        end_within(grace_s + RECORDED_WITHIN_S)

    def _start(self) -> Life:
        cluster_id, pulse = uuid.uuid4(), Pulse()
        close_before_fork()
        run = partial(self._dispatch, cluster_id, pulse, os.getpid())
        process = forked.start(run, name=f"{self._kind.value}s: dispatcher"[:15])
        return Life(cluster_id=cluster_id, process=process, pulse=pulse)

    def _dispatch(self, cluster_id: uuid.UUID, pulse: Pulse, supervisor: int) -> None:
        if self._exposition is not None:
            self._exposition.close()
        try:
            Dispatcher(
                cluster_id=cluster_id, kind=self._kind, queues=self._queues, workers=self._workers,
                supervisor=supervisor, pulse=pulse, counts=self._counts,
            ).run()  # fmt: skip
        finally:
            embedded.release()

    def _keep(self, life: Life) -> tuple[str, str | None]:
        """Watch until it ends, however that comes; how it ended, and why."""
        while not self._must_stop:
            if life.process.poll() is not None:
                return "died", f"its dispatcher ended with code {life.process.returncode}"
            why = self._check(life)
            if why is not None:
                return "frozen", why
            self._say_once_that_it_works(life)
            self._wait(CHECK_S if self._is_ready else TICK_S)
        service.stopping()
        life.process.terminate()
        until = time.monotonic() + settings.SCHEDULING["GRACE_S"] + MARGIN_S
        while life.process.poll() is None and not self._is_in_a_hurry:
            if time.monotonic() > until:
                return "frozen", "it did not stop when it was told to"
            self._signals.wait(TICK_S)
        return "stopped", "it was told to end at once" if self._is_in_a_hurry else None

    def _say_once_that_it_works(self, life: Life) -> None:
        if not self._is_ready and life.pulse.vitals().silent_s is not None:
            self._is_ready = True
            service.ready()

    def _wait(self, seconds: float) -> None:
        """Wait so long, or until a signal; or answer whoever asks for the numbers."""
        self._signals.wait(seconds, or_fds=[self._exposition.fileno()] if self._exposition else [])
        if self._exposition is not None:
            self._exposition.answer()

    def _numbers(self) -> bytes:
        own: Any = SimpleNamespace(collect=partial(self._counts.families, f"{self._kind.value}s"))
        return generate_latest(REGISTRY) + generate_latest(own)

    def _check(self, life: Life) -> str | None:
        if (now := time.monotonic()) < life.check_at:
            return None
        life.check_at = now + CHECK_S
        why = why_frozen(life.pulse.vitals(), age_s=now - max(life.began_at, life.judged_from))
        if why is not None and not probe.takes_writes():
            # Everybody waits for it; begin anew when it is back.
            life.judged_from, life.check_at, why = time.monotonic(), time.monotonic() + MARGIN_S, None
        # Twice in a row: one that waited for the database goes on a moment after that does.
        life.is_suspected, was_suspected = why is not None, life.is_suspected
        return why if was_suspected else None

    def _record_end(self, life: Life, *, ending: str, why: str | None) -> None:
        """Give its work to others. If the database stays away, they find out by themselves (SILENT_S)."""
        for _ in range(TRIES_TO_RECORD_END):
            try:
                clusters.end(life.cluster_id, ending=ending, why=why)
            except DatabaseFailure as error:
                log.warning("The end of a cluster cannot be written yet: %s", str(error).partition("\n")[0])
                connections.close_all()
                time.sleep(TICK_S)
            else:
                connections.close_all()
                return

    def _pause(self, life: Life) -> None:
        steady = time.monotonic() - life.began_at > STEADY_S
        self._deaths = 1 if steady else self._deaths + 1
        until = time.monotonic() + (_PAUSES.plain_s(self._deaths - 1) if self._deaths > 1 else 0.0)
        while time.monotonic() < until and not self._must_stop:
            self._signals.wait(TICK_S)
