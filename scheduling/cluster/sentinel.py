"""The parent of a cluster's processes: replaces those that die, reports, and ends them in order.

In place of django-q2's own sentinel, and without what a killed process could leave locked: its queues, its timers and
its events (docs/adr/0011).
"""

import gc
import logging
import math
import os
import signal
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from multiprocessing import get_context
from multiprocessing.connection import wait
from typing import Any

from django.conf import settings
from django.db import Error as DatabaseFailure
from django.db import connections

from core import forked
from scheduling.cluster import channel, database, django_q2, process_group, tasks
from scheduling.cluster.broker import Broker
from scheduling.cluster.channel import Channel, TaskQueue
from scheduling.cluster.dispatcher import Post
from scheduling.cluster.scoreboard import Scoreboard
from scheduling.domain.states import Kind
from scheduling.operations import clusters, runner
from scheduling.queries.clusters import Report
from scheduling.queries.functions import Holder

log = logging.getLogger(__name__)
_FORK = get_context("fork")

TICK_S = 0.2
RESTING_S = 1.0  # while every worker is free
REPORT_S = 1.0
REST_REPORT_S = 4.0  # when there is nothing new to report: others wait for two of these and a half (clusters.SILENT_S)
LATE_REPORT_S = 1.0  # with the longest pause before it still less than clusters.SILENT_S
SWEEP_S = 10.0
OVERDUE_S = 60.0  # how often the queue is looked at while the pusher is at work; while it is silent, at each report
PUSHER_SILENT_S = 3.0
NEEDLESS_S = 60.0  # a second worker that was free for so long ends
LONG_S = 1.0
STUCK_S = 2.0  # a task that waits while a worker was free for this long is not on its way
PUSHER_ENDS_S = 2.0


class Results(Channel):
    """The results of tasks, for django-q2's monitor. It has nothing to do for ours, which write their own."""

    def put(self, value: Any) -> None:
        """Send the result of one of django-q2's own tasks."""
        if django_q2.is_for_monitor(value):
            super().put(value)


class Sentinel:
    """One life of one cluster, in a session of its own. `run` returns after SIGTERM."""

    monitor: Any = None
    pusher: Any = None

    def __init__(
        self, *, cluster_id: uuid.UUID, kind: Kind, queues: list[str] | None, board: Scoreboard, supervisor: int
    ) -> None:
        django_q2.serve(kind)
        self.cluster_id = cluster_id
        self.kind = kind
        self._queues = queues
        self._supervisor = supervisor
        self.pid = self.parent_pid = os.getpid()
        self.name = f"{kind.value}s"
        self.board = board
        self.task_queue = TaskQueue(self.board, function=tasks.FUNCTIONS[kind])
        self.result_queue = Results()
        self.broker = Broker(list_key=django_q2.Conf.CLUSTER_NAME)
        self.broker.serve(
            Post(cluster_id=cluster_id, kind=kind, queues=queues, board=self.board, tasks=self.task_queue)
        )
        self.pool: list[Any] = []
        self._slots: dict[Any, tasks.WorkerSlot] = {}
        self._hired = 0
        self._died: list[Holder] = []
        self._fatal: list[tuple[int, Holder]] = []  # mutations, and the processes that died while they ran them
        self._begun_at: dict[str, float] = {}
        self.reincarnations, self.tob = 0, None
        self.timeout = django_q2.Conf.TIMEOUT
        self._must_stop = False
        self._reported: Report | None = None
        self._overdue = False
        self._reported_at = self._steady_since = (
            time.monotonic()
        )  # the last report that was taken, and the first of a row

    def run(self) -> None:
        """Live until SIGTERM, or until whoever started us is gone; then end in order."""
        signals = forked.Signals()
        signal.signal(signal.SIGTERM, self._on_term)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        process_group.end_with(self._supervisor, by=signal.SIGTERM)
        channel.belongs_to(os.getpid())
        self._persist(lambda: clusters.begin(self.cluster_id, role=self.name))
        gc.freeze()
        self.pusher = self._spawn(_push, self.task_queue, self.board, self.broker)
        self._hire()
        while not (self._must_stop or process_group.is_orphan(self._supervisor)):
            self._tick()
            fds = [self.board.hire_fd, *([] if self.monitor else [self.result_queue.fileno()])]
            signals.wait(RESTING_S if self._is_at_rest() else TICK_S, or_fds=fds)
        self.stop()

    def stop(self) -> None:
        """End the processes: the pusher at once, workers after what they do now, within the grace."""
        self.board.stop()
        self._end(self.pusher, within_s=PUSHER_ENDS_S)
        self._wait_for_workers(settings.SCHEDULING["GRACE_S"])
        for process in list(self.pool):
            process.kill()
            process.join()
            self._record_end(process)
        self._watch_monitor()
        if self.monitor is not None:
            self.result_queue.put("STOP")
            self._end(self.monitor, within_s=PUSHER_ENDS_S)
        self._attempt(self._settle_the_dead)
        self._attempt(lambda: clusters.end(self.cluster_id, ending="stopped"))

    def status(self) -> Any:
        """The word that django-q2's monitor shows."""
        if self.board.is_stopping:
            return django_q2.Conf.STOPPING
        return django_q2.Conf.IDLE if self._is_at_rest() else django_q2.Conf.WORKING

    def _tick(self) -> None:
        for process in list(self.pool):
            if self.board.is_overtime(self._slots[process].worker):
                log.error("An action did not end within its timeout and more: its worker %s is killed", process.pid)
                process.kill()
                process.join()
            if not process.is_alive():
                self._record_end(process)
        self._hire()
        self._stand_in()
        self._watch_monitor()
        if not self.pusher.is_alive():
            self.pusher = self._respawn(_push, self.task_queue, self.board, self.broker)
        self._attempt(self._settle_the_dead)
        self._now_and_then("report", REPORT_S, self._report)
        self._now_and_then("sweep", SWEEP_S, self._sweep)
        if django_q2.Conf.SCHEDULER:
            self._now_and_then("scheduler", django_q2.SCHEDULER_S, lambda: django_q2.scheduler(broker=self.broker))

    def _watch_monitor(self) -> None:
        """It comes with the first result of one of django-q2's own tasks: most farms have none."""
        if self.monitor is None and not self.result_queue.empty():
            self.monitor = self._spawn(django_q2.monitor, self.result_queue, self.broker)
        elif self.monitor is not None and not self.monitor.is_alive():
            self.monitor = self._respawn(django_q2.monitor, self.result_queue, self.broker)

    def _is_at_rest(self) -> bool:
        return self.board.count_free() >= len(self.pool)

    def _hire(self) -> None:
        """One worker is free, as long as there are not as many as there shall be: the next comes when the last one
        takes something, and one that was not needed for a while goes."""
        self.board.clear_hire()
        present = {slot.worker for slot in self._slots.values()}
        missing = [position for position in range(self.board.workers) if position not in present]
        if missing and not self.board.count_free() and not any(map(self.board.is_starting, present)):
            self._spawn_worker(missing[0])
        for position in present.intersection(range(1, self.board.workers)):
            if self.board.count_free() > 1 and self.board.is_free(position, for_s=NEEDLESS_S):
                self.board.dismiss(position)

    def _stand_in(self) -> None:
        """A worker that runs one mutation for long is replaced for that time, so that the others lose nothing by it."""
        taken = {slot.worker for slot in self._slots.values()}
        spares = range(self.board.workers, self.board.workers + self.board.spares)
        present, wanted = taken.intersection(spares), min(self.board.count_long(LONG_S), len(spares))
        if len(present) < wanted and not self.board.count_free():
            self._spawn_worker(next(position for position in spares if position not in taken))
        elif len(present) > wanted:
            self.board.dismiss(max(present))

    def _report(self) -> None:
        """Look at the cluster each second; write that down when it has changed, else now and then."""
        facts = self._facts()
        free = facts.free > 0
        every_s = REPORT_S if self._overdue or self.board.is_pusher_silent(for_s=PUSHER_SILENT_S) else OVERDUE_S
        if free:
            self._now_and_then("overdue", every_s, self._look_for_overdue)
        self.board.note(waits=facts.waits, overdue=free and self._overdue)
        if facts == self._reported:
            self._now_and_then("write", REST_REPORT_S, lambda: self._write(facts))
        else:
            self._write(facts)

    def _facts(self) -> Report:
        stuck = self.board.count_free(for_s=STUCK_S) > 0 and self.task_queue.waits() > 0
        return Report(
            workers=self.board.workers,
            free=max(self.board.workers - (len(self.pool) - self.board.count_free()), 0),
            waits=stuck,
            dispatched=self.board.count_sent(),
        )

    def _look_for_overdue(self) -> None:
        self._overdue = False  # what cannot be asked is not known
        self._overdue = clusters.is_overdue(self.kind, queues=self._queues)

    def _sweep(self) -> None:
        """Silence of others counts once they had the time to report: a database that was read-only, or let commits
        wait, kept all of us from it, and takes our reports again one moment before theirs."""
        steady_s = time.monotonic() - self._steady_since
        clusters.sweep(judges_silence=steady_s >= clusters.SILENT_S)

    def _write(self, facts: Report) -> None:
        self._begun_at["write"] = time.monotonic()
        if not clusters.report(self.cluster_id, replace(facts, stat=django_q2.stat(self))):
            # Others took us for dead and took over what we had: nothing here may go on.
            log.error("This cluster was given up by the others; it ends at once")
            process_group.kill_group(os.getpid())
            os._exit(1)
        self._reported = facts
        if time.monotonic() - self._reported_at > REST_REPORT_S + LATE_REPORT_S:
            self._steady_since = time.monotonic()
        self._reported_at = time.monotonic()

    def _spawn_worker(self, position: int) -> None:
        self.board.gone(position)
        self._hired += 1
        slot = tasks.WorkerSlot(cluster_id=self.cluster_id, worker=position, number=self._hired, board=self.board)
        process = self._spawn(_work, slot, self.task_queue.of(position), self.result_queue)
        self._slots[process] = slot
        self.pool.append(process)

    def _record_end(self, process: Any) -> int:
        """Forget a worker that died; its place in the cluster."""
        self.pool.remove(process)
        slot = self._slots.pop(process)
        holder = slot.holder(process.pid)
        self._died.append(holder)
        if process.exitcode and not self.board.is_stopping:
            self.board.counts.worker_died()
        if (function_id := self.board.runs_now(slot.worker)) and not self.board.is_stopping:
            self._fatal.append((function_id, holder))
        self.board.gone(slot.worker)
        return slot.worker

    def _settle_the_dead(self) -> None:
        while self._died:
            clusters.process_died(self._died[0])
            self._died.pop(0)
        for fatal in list(self._fatal):
            function_id, holder = fatal
            if runner.process_died(function_id, by=holder):
                self._fatal.remove(fatal)

    def _respawn(self, target: Callable[..., Any], *args: Any) -> Any:
        self.reincarnations += 1
        return self._spawn(target, *args)

    def _spawn(self, target: Callable[..., Any], *args: Any) -> Any:
        process = _FORK.Process(target=_begin, args=(os.getpid(), target, *args), name=f"Process-{uuid.uuid4().hex}")
        process.daemon = target is not _work or django_q2.Conf.DAEMONIZE_WORKERS
        process.start()
        return process

    def _wait_for_workers(self, grace_s: float) -> None:
        until = time.monotonic() + grace_s
        while self.pool and time.monotonic() < until:
            wait([process.sentinel for process in self.pool], timeout=TICK_S)  # until the next one has ended
            for process in list(self.pool):
                if not process.is_alive():
                    self._record_end(process)
            self._attempt(self._settle_the_dead)
            self._now_and_then("report", REPORT_S, self._report)

    def _end(self, process: Any, *, within_s: float) -> None:
        process.join(within_s)
        if process.is_alive():
            process.kill()
            process.join()

    def _now_and_then(self, name: str, every_s: float, do: Callable[[], object]) -> None:
        if time.monotonic() >= self._begun_at.get(name, -math.inf) + every_s:
            self._begun_at[name] = time.monotonic()
            self._attempt(do)

    def _attempt(self, do: Callable[[], object]) -> bool:
        """What needs the database is retried at its next turn."""
        self.board.sentinel_works()
        try:
            do()
        except DatabaseFailure as error:
            log.warning("A cluster cannot reach the database: %s", str(error).partition("\n")[0])
            connections.close_all()
            return False
        return True

    def _persist(self, do: Callable[[], object]) -> None:
        while not self._attempt(do) and not self._must_stop:
            time.sleep(TICK_S)

    def _on_term(self, _number: int, _frame: object) -> None:
        self._must_stop = True


class _Stopping:
    """The event that django-q2's pusher looks at, without a lock."""

    def __init__(self, board: Scoreboard) -> None:
        self._board = board

    def is_set(self) -> bool:
        return self._board.is_stopping


def _begin(parent: int, target: Callable[..., Any], *args: Any) -> None:
    """The first thing a forked process does."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    process_group.end_with(parent, by=signal.SIGKILL)
    target(*args)


def _work(slot: tasks.WorkerSlot, queue: channel.WorkersEnd, results: Results) -> None:
    tasks.take_slot(slot, queue)
    database.connect()
    django_q2.worker(queue, results, django_q2.Timer(), django_q2.Conf.TIMEOUT)


def _push(queue: TaskQueue, board: Scoreboard, broker: Broker) -> None:
    database.dispatch_quickly()
    django_q2.pusher(queue, _Stopping(board), broker)
