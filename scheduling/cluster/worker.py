"""A worker: a process that asks its dispatcher for functions, runs them, and asks again."""

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Final

from django.conf import settings
from django.db import connections

from observing import numbers
from observing.logs import LATEST_ERRORS
from observing.numbers import FunctionCounts
from scheduling.cluster import django_q2, process_group
from scheduling.domain.calls import Kind
from scheduling.operations import runner
from scheduling.queries.functions import Dispatch, Holder

log = logging.getLogger(__name__)

# What django-q2's worker loop finds by name for what was dispatched.
FUNCTIONS: Final = {Kind.MUTATION: f"{__name__}.mutations", Kind.ACTION: f"{__name__}.action"}
BUDGET_S = 0.1  # then a worker asks anew, and what it was sent and has not begun goes to whoever is free
IDLE_S = 30.0  # a process of a cluster that had nothing to do for so long keeps no session of the server's


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What a worker is given: its end of the line to the dispatcher, its state in shared memory, its row of counts, and
    the name under which it runs functions (the ids of processes come round)."""

    kind: Kind
    line: Connection
    state: Any
    counts: FunctionCounts
    number: int
    by: Holder


class _Here:
    place: Place | None = None


_here = _Here()


def run(place: Place) -> None:
    """Be this worker until the line is closed, or the loop of django-q2 wants a fresh process."""
    _here.place = place
    LATEST_ERRORS.forget()
    numbers.count_into(place.counts, place.number)
    process_group.connect()
    django_q2.worker(_Tasks(place), _Results(), django_q2.Timer(), django_q2.Conf.TIMEOUT)


class _Tasks:
    """What django-q2's worker loop takes for its queue of tasks. Asking for a task, with what was logged as errors at
    the last one, is what makes a worker free."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def get(self) -> Any:
        """The next task, or "STOP" when the dispatcher has closed the line or is gone."""
        line, state = self._place.line, self._place.state
        state.deadline = 0.0
        try:
            line.send(LATEST_ERRORS.sentences())
            LATEST_ERRORS.forget()
            while not line.poll(IDLE_S):
                connections.close_all()  # the next task opens one, in some 5 ms
            work = line.recv()
        except (EOFError, OSError):
            return "STOP"
        state.has_taken = True
        return work if isinstance(work, dict) else django_q2.task(FUNCTIONS[self._place.kind], work)


class _Results:
    """What django-q2's worker loop takes for its queue of results. Ours write their own; those of its own tasks are
    stored here, in place of by a process that waits for them."""

    def put(self, result: Any) -> None:
        try:
            django_q2.store(result)
        except Exception:
            log.exception("The result of a task of django-q2 could not be stored")
            connections.close_all()


def mutations(batch: Sequence[Dispatch]) -> None:
    with _logged():
        runner.mutations(_one_by_one(batch), by=_place().by)


def action(batch: Sequence[Dispatch]) -> None:
    with _logged():
        for dispatch in _one_by_one(batch):
            runner.action(dispatch, by=_place().by, deadline=_deadline)


def _one_by_one(batch: Sequence[Dispatch]) -> Iterator[Dispatch]:
    place, until = _place(), time.monotonic() + BUDGET_S
    for one in batch:
        place.state.begun += 1
        place.state.function_since = time.monotonic()
        place.state.function = one.id
        try:
            yield one
        finally:  # an error of ours is no death of its process
            place.state.function = 0
        if time.monotonic() > until:
            return


@contextmanager
def _logged() -> Iterator[None]:
    """What goes wrong here is the scheduler's own: its rows have not left the queue."""
    try:
        yield
    except Exception:
        log.exception("A worker could not do what it was sent")
        connections.close_all()


@contextmanager
def _deadline(timeout_s: float | None) -> Iterator[None]:
    hopeless_s: float = settings.SCHEDULING["HOPELESS_S"]
    _place().state.deadline = 0.0 if timeout_s is None else time.monotonic() + timeout_s + hopeless_s
    yield
    _place().state.deadline = 0.0  # after an error too, when the next task is asked for


def _place() -> Place:
    assert _here.place is not None, "this process is no worker of a cluster"
    return _here.place
