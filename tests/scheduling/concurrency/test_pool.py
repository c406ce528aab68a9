"""A cluster's workers, whom nobody who is killed or frozen can hold up."""

import logging
import os
import resource
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from observing.logs import LATEST_ERRORS
from observing.numbers import FunctionCounts
from postgres import descriptors
from scheduling.cluster import django_q2, pool
from scheduling.cluster.pool import Handback, Pool
from scheduling.domain.calls import Kind
from scheduling.queries.functions import Dispatch
from tests.scheduling.concurrency.support import is_alive, until

pytestmark = pytest.mark.django_db(transaction=True)
GONE = Dispatch(id=1, due_pointer="(0,1)", row_pointer="(0,1)")


@pytest.fixture
def workers() -> Iterator[Pool]:
    """A pool of up to two; this process is its dispatcher."""
    made = Pool(cluster_id=uuid.uuid4(), kind=Kind.ACTION, size=2, counts=FunctionCounts(2))
    yield made
    made.stop()
    made.kill()
    list(made.collect(()))


def turn(workers: Pool) -> list[Handback]:
    """See to them once."""
    backs = list(workers.collect(descriptors.ready(workers.lines(), within_s=0.02)))
    workers.fit()
    return [back for back in backs if back.begun or back.rest]


def are_gone(workers: Pool) -> bool:
    for _ in workers.collect(()):
        pass
    return not workers.workers


def one_free(workers: Pool) -> pool.Worker:
    until(lambda: turn(workers) or workers.free())
    return workers.free()[0]


def task(function: str, argument: Any) -> dict[str, Any]:
    return django_q2.task(function, argument)


class TestAWorker:
    def test_is_there_before_it_is_needed_and_joined_by_another_when_it_gets_something(self, workers: Pool) -> None:
        first = one_free(workers)
        assert workers.workers == [first]
        workers.send(first, task("time.sleep", 1000))
        assert one_free(workers) is not first
        assert workers.busy() == [first]

    def test_takes_whatever_can_be_pickled_however_large(self, workers: Pool) -> None:
        one = one_free(workers)
        workers.send(one, task("builtins.len", b"x" * 3_000_000))
        until(lambda: turn(workers) or one in workers.free())

    def test_says_what_it_logged_as_errors_to_its_dispatcher_which_reports_it(self, workers: Pool) -> None:
        logging.getLogger("jobs").error("known before")
        one = one_free(workers)
        LATEST_ERRORS.forget()
        workers.send(one, task("logging.error", "the job 7 cannot be read"))
        until(lambda: turn(workers) or one in workers.free())
        assert LATEST_ERRORS.sentences() == ["the job 7 cannot be read"]

    def test_that_is_killed_as_it_waits_is_replaced_and_what_it_was_sent_comes_back(self, workers: Pool) -> None:
        """multiprocessing's own queue stands still for ever when the reader that holds its lock is killed."""
        victim = one_free(workers)
        os.kill(victim.process.pid, signal.SIGKILL)
        until(lambda: not is_alive(victim.process.pid))
        workers.send(victim, [GONE])
        [back] = until(lambda: turn(workers))
        assert (back.begun, back.rest) == ([], [GONE])
        assert one_free(workers) is not victim
        assert (workers.died, workers.fatal) == ([victim.by], [])

    def test_that_is_frozen_is_killed_and_what_it_was_sent_comes_back(
        self, workers: Pool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(pool, "STUCK_S", 0.2)
        frozen = one_free(workers)
        os.kill(frozen.process.pid, signal.SIGSTOP)
        workers.send(frozen, [GONE])
        [back] = until(lambda: turn(workers))
        assert back.rest == [GONE]
        assert frozen not in workers.workers

    def test_that_cannot_be_started_is_started_when_it_can_be(
        self, workers: Pool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An error would end the dispatcher, and with it the actions that its workers run."""
        monkeypatch.setattr(pool, "AGAIN_S", 0.1)
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        with Path(os.devnull).open() as highest:
            resource.setrlimit(resource.RLIMIT_NOFILE, (highest.fileno() + 1, before[1]))
        try:
            turn(workers)
            assert not workers.workers
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        one_free(workers)

    def test_ends_when_its_dispatcher_lets_it_and_leaves_what_was_begun_to_its_end(self, workers: Pool) -> None:
        busy = one_free(workers)
        workers.send(busy, task("time.sleep", 0.5))
        idle = one_free(workers)
        workers.stop()
        until(lambda: are_gone(workers))
        assert (busy.process.exitcode, idle.process.exitcode) == (0, 0)
