"""Keeps one cluster alive: starts its processes, watches them, and starts others when they die or freeze."""

import logging
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from django.conf import settings
from django.db import Error as DatabaseFailure
from django.db import connections

from core.backoff import Backoff
from scheduling.cluster import process_group
from scheduling.domain.clusters import Facts, Watch
from scheduling.domain.states import Kind
from scheduling.operations import clusters
from scheduling.queries import clusters as cluster_queries

log = logging.getLogger(__name__)

TICK_S = 0.2
SHORT_S = 0.02
CHECK_S = 1.0
STEADY_S = 30.0  # a cluster that lived this long is well again
MARGIN_S = 5.0  # beyond the grace, until the cluster is killed
TRIES_TO_RECORD_END = 20


@dataclass(slots=True, kw_only=True)
class Life:
    """One life of the cluster: its cluster id, its process, and the eye on it."""

    cluster_id: uuid.UUID
    process: "subprocess.Popen[bytes]"
    watch: Watch
    check_at: float = 0.0


class Supervisor:
    """Runs a cluster until SIGINT or SIGTERM, with nothing left running afterwards. A second one, or SIGQUIT, ends
    it at once: its running actions are unknown then.

    `command` starts the sentinel for a cluster id, as a process of its own. DESIGN section 7: frozen means that a
    function is overdue while a worker is free, or that it does not report; long actions are no alarm.
    """

    def __init__(
        self, *, kind: Kind, queues: list[str] | None, command: Callable[[uuid.UUID], list[str]]
    ) -> None:
        self._kind = kind
        self._queues = queues
        self._command = command
        # Set by the signal handlers, looked at by the loops: a handler must not touch a lock that the code it
        # interrupted may hold, as an Event's.
        self._must_stop = self._is_in_a_hurry = False
        self._pauses = Backoff(first_s=0.2, cap_s=5, jitter=0)
        self._deaths = 0

    def run(self) -> None:
        """Start the cluster again and again, until a signal to stop."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT):
            signal.signal(number, self._on_signal)
        while not self._must_stop:
            life = self._start()
            ending, why = self._keep(life)
            process_group.kill_group(life.process.pid)
            life.process.wait()
            self._record_end(life, ending=ending, why=why)
            if ending != "stopped":
                log.error("A cluster for %ss ended (%s); another one starts", self._kind.value, why)
                self._pause(life)

    def _on_signal(self, number: int, _frame: object) -> None:
        self._is_in_a_hurry = self._must_stop or number == signal.SIGQUIT
        self._must_stop = True

    def _start(self) -> Life:
        cluster_id = uuid.uuid4()
        environment = os.environ | {
            "Q_CLUSTER_NAME": "mutations" if self._kind is Kind.MUTATION else "jobfarm"
        }
        process = subprocess.Popen(
            self._command(cluster_id), env=environment, stdin=subprocess.DEVNULL, start_new_session=True
        )
        return Life(cluster_id=cluster_id, process=process, watch=Watch(started_at=time.monotonic()))

    def _keep(self, life: Life) -> tuple[str, str | None]:
        """Watch until it ends, however that comes; how it ended, and why."""
        while not self._must_stop:
            if life.process.poll() is not None:
                return "died", f"its sentinel ended with code {life.process.returncode}"
            why = self._check(life)
            if why is not None:
                return "frozen", why
            time.sleep(TICK_S)
        life.process.terminate()
        until = time.monotonic() + settings.SCHEDULING["GRACE_S"] + MARGIN_S
        while life.process.poll() is None and not self._is_in_a_hurry:
            if time.monotonic() > until:
                return "frozen", "it did not stop when it was told to"
            time.sleep(SHORT_S)
        return "stopped", "it was told to end at once" if self._is_in_a_hurry else None

    def _check(self, life: Life) -> str | None:
        if time.monotonic() < life.check_at:
            return None
        life.check_at = time.monotonic() + CHECK_S
        try:
            facts = self._facts(life)
        except DatabaseFailure:
            connections.close_all()
            life.watch = Watch(started_at=time.monotonic())  # nobody can report now; begin anew when one can
            life.check_at = time.monotonic() + MARGIN_S
            return None
        return life.watch.is_frozen(facts, now=time.monotonic())

    def _facts(self, life: Life) -> Facts:
        row, seen_ago_s = cluster_queries.find(life.cluster_id)
        if row is None or seen_ago_s is None:
            return Facts(seen_ago_s=None)
        overdue = row.free > 0 and clusters.is_overdue(self._kind, queues=self._queues)
        return Facts(
            seen_ago_s=seen_ago_s, free=row.free, waits=row.waits, overdue=overdue, dispatched=row.dispatched
        )

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
                return

    def _pause(self, life: Life) -> None:
        steady = time.monotonic() - life.watch.started_at > STEADY_S
        self._deaths = 1 if steady else self._deaths + 1
        until = time.monotonic() + (
            self._pauses.delay_s(self._deaths - 1, rng=_FIXED_RNG) if self._deaths > 1 else 0.0
        )
        while time.monotonic() < until and not self._must_stop:
            time.sleep(TICK_S)


_FIXED_RNG = random.Random(0)  # noqa: S311 (the pauses have no jitter)


def manage(*words: str) -> list[str]:
    """The command line of a management command, run by this Python."""
    return [sys.executable, sys.argv[0], *words]
