"""The queue between a cluster's processes, which nobody who is killed can hold up."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from scheduling.cluster import channel
from scheduling.cluster.channel import Channel, TaskQueue
from scheduling.cluster.scoreboard import Scoreboard
from tests.scheduling.concurrency.support import until

FORK = multiprocessing.get_context("fork")


def fork(target: Callable[..., None], *args: Any) -> Any:
    process = FORK.Process(target=target, args=args, daemon=True)
    process.start()
    return process


def echo(tasks: TaskQueue, results: Channel, worker: int) -> None:
    end = tasks.of(worker)
    for task in iter(end.get, "STOP"):
        results.put((os.getpid(), task))


def put_all(into: Channel, values: list[Any]) -> None:
    for value in values:
        into.put(value)


@pytest.fixture
def board() -> Iterator[Scoreboard]:
    """What three workers do; this process is their sentinel."""
    channel.belongs_to(os.getpid())
    with closing(Scoreboard(3)) as made:
        yield made


@pytest.fixture
def tasks(board: Scoreboard) -> Iterator[TaskQueue]:
    with closing(TaskQueue(board)) as made:
        yield made


@pytest.fixture
def results() -> Iterator[Channel]:
    with closing(Channel()) as made:
        yield made


class TestAChannel:
    def test_carries_anything_that_can_be_pickled_in_order(self) -> None:
        values: list[Any] = [1, "two", {"three": [3]}, b"x" * 3_000_000, None]
        with closing(Channel()) as one:
            writer = fork(put_all, one, values)
            assert [one.get() for _ in values] == values
            writer.join()
            assert one.empty()


class TestATaskQueue:
    def test_goes_on_when_readers_are_killed_as_they_wait(
        self, board: Scoreboard, tasks: TaskQueue, results: Channel
    ) -> None:
        """multiprocessing's own queue stands still for ever when the reader that holds its lock is killed."""
        readers = [fork(echo, tasks, results, n) for n in range(3)]
        until(lambda: board.count_free() == 3)
        for reader in readers[:2]:
            os.kill(reader.pid, signal.SIGKILL)
            reader.join()
        for n in range(20):
            tasks.put(n)
        answers = [results.get() for _ in range(20)]
        assert answers == [(readers[2].pid, n) for n in range(20)]
        board.stop()
        readers[2].join(10)
        assert readers[2].exitcode == 0

    def test_knows_who_is_free_and_what_waits(self, board: Scoreboard, tasks: TaskQueue, results: Channel) -> None:
        assert (board.count_free(), tasks.waits()) == (0, 0)
        tasks.put("a")
        tasks.put("b")
        assert tasks.waits() == 2
        reader = fork(echo, tasks, results, 0)
        until(lambda: tasks.waits() == 0 and board.count_free() == 1)
        assert board.count_free(for_s=3600) == 0
        board.set_deadline(0, -1)
        assert board.is_overtime(0)
        reader.kill()
        reader.join()

    def test_ends_a_reader_whose_parent_is_another(self, tasks: TaskQueue, results: Channel) -> None:
        channel.belongs_to(1)  # as if the sentinel had died
        reader = fork(echo, tasks, results, 0)
        reader.join(10)
        assert reader.exitcode == 0
