"""The parent of a cluster's workers: gives them what is due, replaces those that die, reports, and ends in order.

One loop in one process: look after the workers, give them what is ready, look into the queue when something may be due,
do the chores whose time has come, and wait until a worker, a notification, a signal or the next due time wakes it.
"""

import gc
import logging
import math
import os
import signal
import time
import uuid
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from datetime import datetime
from math import ceil

import psycopg
from django.conf import settings
from django.db import DatabaseError, InterfaceError, connections

from core import forked
from observing.logs import LATEST_ERRORS
from observing.numbers import FunctionCounts
from scheduling.cluster import django_q2, process_group
from scheduling.cluster.backlog import Backlog
from scheduling.cluster.pool import Pace, Pool
from scheduling.cluster.process_group import Listener, Pulse
from scheduling.cluster.worker import IDLE_S
from scheduling.domain.calls import Kind
from scheduling.operations import clusters, crons, runner
from scheduling.operations.functions import POLL_S
from scheduling.queries import functions
from scheduling.queries.functions import Dispatch, Report

log = logging.getLogger(__name__)

TURN_S = 1.0  # at least this often it sees to its workers, and shows that it lives
BUSY_TURN_S = 0.2  # while a worker is busy
HIRE_S = 0.02  # whoever is back sooner than this needs no colleague
AWAY_S = 0.5  # between two tries to reach the database
AGAIN_S = 0.01  # what became due while we looked, or a cron that another cluster fires: no reason to turn in circles
CRONS_S = 0.1  # who always finds something to dispatch looks after crons this often
REPORT_S = 1.0
REST_REPORT_S = 4.0  # when there is nothing new to report: others wait for two of these and a half (clusters.SILENT_S)
LATE_REPORT_S = 1.0  # with the longest pause before it still less than clusters.SILENT_S
SWEEP_S = 10.0
OVERDUE_S = 60.0  # how often it is checked that nothing is overdue that was not found
LATE_S = 5.0  # how late a row must be to say so
_DATABASE_FAILURES = (DatabaseError, InterfaceError, psycopg.Error)


class Dispatcher:
    """One life of one cluster. `run` returns after SIGTERM, or when its supervisor is gone."""

    def __init__(
        self, *, cluster_id: uuid.UUID, kind: Kind, queues: list[str] | None, workers: int, supervisor: int,
        pulse: Pulse, counts: FunctionCounts,
    ) -> None:  # fmt: skip
        django_q2.serve(kind)
        self._cluster_id, self._kind, self._queues = cluster_id, kind, queues
        self._supervisor, self._pulse = supervisor, pulse
        self._pool = Pool(cluster_id=cluster_id, kind=kind, size=workers, counts=counts)
        self._backlog = Backlog(cluster_id=cluster_id, kind=kind, queues=queues)
        self._pace = Pace()
        self._broker = django_q2.Broker(list_key=django_q2.Conf.CLUSTER_NAME)
        self._listener = Listener({kind.value, django_q2.OWN})
        self._ready: list[Dispatch] = []  # found, and not given to a worker yet
        self._look_at = 0.0
        self._is_blind = False  # the next due time is not known
        self._crons_at = math.inf
        self._busy_at = time.monotonic()
        self._done_at: dict[str, float] = {}
        self._must_stop, self._has_database = False, True
        self._reported: Report | None = None
        # The last report that was taken, and the first of those without a gap by the database's clock.
        self._reported_at = self._steady_since = time.monotonic()
        self._seen_at: datetime | None = None

    def run(self) -> None:
        """Live until SIGTERM, or until whoever started us is gone; then end in order."""
        self._signals = forked.Signals()
        signal.signal(signal.SIGTERM, self._on_term)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        process_group.end_with(self._supervisor, by=signal.SIGTERM)
        process_group.plan_by_index()
        while not self._attempt(self._begin) and not self._must_stop:
            self._signals.wait(AWAY_S)
        gc.freeze()
        readable: Collection[int] = ()
        while not (self._must_stop or process_group.is_orphan(self._supervisor)):
            self._pulse.beat()
            self._look_after_workers(readable)
            is_well = self._turn()
            fds = [*self._pool.lines(), *(self._listener.descriptors() if is_well else ())]
            readable = self._signals.wait(self._pause_s() if is_well else AWAY_S, or_fds=fds)
        self._stop()

    def _begin(self) -> None:
        clusters.begin(self._cluster_id, role=f"{self._kind.value}s")

    def _on_term(self, _number: int, _frame: object) -> None:
        self._must_stop = True

    def _attempt(self, do: Callable[[], object]) -> bool:
        """Whether it went well. What did not is tried at the next turn: nothing may end this process, which would take
        along what its workers run."""
        try:
            do()
        except _DATABASE_FAILURES as error:
            log.warning("A cluster lost the database and tries again: %s", str(error).partition("\n")[0])
            self._has_database = False
        except Exception:
            log.exception("A cluster could not do a part of its work (%s), and tries again", do.__name__)
        else:
            return True
        self._listener.close()
        connections.close_all()
        return False

    # Workers.

    def _look_after_workers(self, readable: Collection[int]) -> None:
        for back in self._pool.collect(readable):
            self._backlog.note_tried(back.begun)
            self._pace.measure(done=len(back.begun), seconds=back.seconds)
            self._ready = [*back.rest, *self._ready]
        self._pool.fit()
        self._give()

    def _give(self) -> None:
        """Each free worker gets what it does within a moment; an action each."""
        free = self._pool.free()
        while free and self._ready:
            share = ceil(len(self._ready) / len(free)) if self._kind is Kind.MUTATION else 1
            size = min(share, self._pace.size)
            batch, self._ready = self._ready[:size], self._ready[size:]
            self._pool.send(free.pop(0), batch)
            self._pulse.note_overdue(is_overdue=False)
            # Not now: a function that is due does not wait for the crons.
            self._crons_at = min(self._crons_at, time.monotonic() + CRONS_S)

    def _settle_the_dead(self) -> None:
        died, fatal = self._pool.died, self._pool.fatal
        while died:
            clusters.process_died(died[0])
            died.pop(0)
        for function_id, holder in list(fatal):
            if runner.process_died(function_id, by=holder):
                fatal.remove((function_id, holder))

    # The queue.

    def _turn(self) -> bool:
        """Whether all went well. What fails keeps the rest from nothing, unless it is the database that is away."""
        self._has_database, is_well = True, True
        for step in (self._settle_the_dead, self._look_into_queue, *self._chores()):
            if self._has_database:
                is_well &= self._attempt(step)
        return is_well

    def _look_into_queue(self) -> None:
        if self._listener.listen() or self._listener.is_notified():
            self._wake()
        if time.monotonic() < self._look_at or (self._is_blind and self._finds_nothing()):
            return
        if room := self._room():
            self._look(room)
        if time.monotonic() >= self._crons_at:
            self._fire_crons()

    def _wake(self) -> None:
        self._look_at, self._is_blind, self._busy_at = 0.0, False, time.monotonic()

    def _room(self) -> int:
        """How many functions may be ready now. Actions only as many as workers are free: each begins at once."""
        free = len(self._pool.free())
        if self._kind is Kind.ACTION:
            return free
        depth = self._pace.size * self._pool.size
        return 0 if 2 * len(self._ready) > depth else depth + self._pace.size * free

    def _look(self, room: int) -> None:
        """Find what is due, and give it; plan the next look, unless there is more."""
        self._ready = self._backlog.look(room, in_hands=self._pool.in_hands())
        count = len(self._ready)
        self._give()
        if count:
            self._backlog.count_clusters()
        if self._kind is Kind.ACTION:
            count += self._give_own_tasks()
        if count < room and (count or not self._fire_crons()):
            hands = [*self._pool.in_hands(), *(one.id for one in self._ready)]
            self._plan_look(self._backlog.next_wake_s(in_hands=hands))

    def _give_own_tasks(self) -> int:
        """Those of django-q2 itself, which has them given out for a while: so no more than can begin."""
        free = self._pool.free()
        tasks = self._broker.tasks(len(free)) if free else []
        for worker, task in zip(free, tasks, strict=False):
            self._pool.send(worker, task)
        return len(tasks)

    def _finds_nothing(self) -> bool:
        """Look by one statement whether anything is due, and plan the next look if not. It goes by the connection that
        listens, so that a dispatcher at rest needs no other."""
        if self._ready or self._pool.in_hands() or not self._backlog.is_quiet():
            return False
        own = self._broker.list_key if self._kind is Kind.ACTION else None
        statement = functions.rest(self._kind, queues=self._queues, own=own, declared=crons.declared())
        (seconds,), is_woken = self._listener.ask(*statement)
        if is_woken or (isinstance(seconds, float) and seconds <= 0):
            self._wake()
            return False
        self._plan_look(min(seconds, POLL_S) if isinstance(seconds, float) else POLL_S)
        if time.monotonic() > self._busy_at + IDLE_S:
            connections.close_all()
        return True

    def _plan_look(self, seconds: float) -> None:
        self._is_blind = seconds >= POLL_S
        self._look_at = time.monotonic() + (seconds if seconds > 0 else AGAIN_S)

    def _fire_crons(self) -> bool:
        """Whether a cron made something that may be due now."""
        self._crons_at = math.inf
        return bool(crons.fire_due())

    def _pause_s(self) -> float:
        longest = HIRE_S if self._pool.is_short() else BUSY_TURN_S if self._pool.busy() else TURN_S
        has_room = self._room() > 0
        return min(longest, max(self._look_at - time.monotonic(), 0.0)) if has_room else longest

    # Chores.

    def _chores(self) -> Iterator[Callable[[], object]]:
        overdue_s = REPORT_S if self._pulse.is_overdue else OVERDUE_S
        schedules_s = django_q2.SCHEDULER_S if django_q2.Conf.SCHEDULER else math.inf
        for do, every_s in (
            (self._report, REPORT_S), (self._look_for_overdue, overdue_s), (self._sweep, SWEEP_S),
            (self._make_own_tasks, schedules_s), (crons.reconcile, OVERDUE_S),
        ):  # fmt: skip
            if time.monotonic() > self._done_at.get(do.__name__, 0.0) + every_s:
                self._done_at[do.__name__] = time.monotonic()
                yield do

    def _make_own_tasks(self) -> None:
        django_q2.scheduler(broker=self._broker)

    def _look_for_overdue(self) -> None:
        is_overdue = functions.overdue(self._kind, late_s=LATE_S, queues=self._queues)
        self._pulse.note_overdue(is_overdue=is_overdue and bool(self._pool.free()))

    def _sweep(self) -> None:
        """Silence of others counts once they had the time to report: a database that was read-only, or let commits
        wait, kept all of us from it, and takes our reports again one moment before theirs; one whose clock was set
        forward has seen none of us for long."""
        self._write(self._facts())
        steady_s = time.monotonic() - self._steady_since
        clusters.sweep(judges_silence=steady_s >= clusters.SILENT_S)

    def _report(self) -> None:
        """Write down how this cluster is when that has changed, else now and then."""
        facts = self._facts()
        if facts != self._reported or time.monotonic() > self._reported_at + REST_REPORT_S:
            self._write(facts)

    def _facts(self) -> Report:
        pool = self._pool
        return Report(
            workers=pool.size, free=max(pool.size - len(pool.busy()), 0), waits=self._pulse.is_overdue,
            dispatched=pool.sent, errors=LATEST_ERRORS.sentences(),
        )  # fmt: skip

    def _write(self, facts: Report) -> None:
        stat = django_q2.stat(self._cluster_id, self._broker, self._pool)
        seen_at = functions.report(self._cluster_id, replace(facts, stat=stat))
        if seen_at is None:
            # Others took us for dead and took over what we had: nothing here may go on.
            log.error("This cluster was given up by the others; it ends at once")
            process_group.kill_group(os.getpid())
            os._exit(1)
        since = self._seen_at
        gap_s = (seen_at - since).total_seconds() if since else time.monotonic() - self._reported_at
        if gap_s > REST_REPORT_S + LATE_REPORT_S:
            self._steady_since = time.monotonic()
        self._reported, self._reported_at, self._seen_at = facts, time.monotonic(), seen_at

    # The end.

    def _stop(self) -> None:
        self._pool.stop()
        until = time.monotonic() + settings.SCHEDULING["GRACE_S"]
        while self._pool.workers and time.monotonic() < until:
            self._pulse.beat()
            self._look_after_the_last()
            if time.monotonic() > self._reported_at + REPORT_S:
                self._attempt(self._report)
            self._signals.wait(BUSY_TURN_S)
        self._pool.kill()
        self._look_after_the_last()
        self._attempt(lambda: clusters.end(self._cluster_id, ending="stopped"))

    def _look_after_the_last(self) -> None:
        for _ in self._pool.collect(()):
            pass  # what is handed back has not left the queue
        self._attempt(self._settle_the_dead)
