"""Who has a turn at the database, and who waits."""

import asyncio
import gc
import threading
from collections.abc import AsyncIterator

import pytest_asyncio

from live.semaphore import FairSemaphore

_PATIENCE_S = 30.0


class Crowd:
    """Holders that take turns, and in which order they had one."""

    def __init__(self, permits: FairSemaphore) -> None:
        self.permits = permits
        self.order: list[str] = []
        self.may_end = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def ask(self, holder: str) -> asyncio.Task[None]:
        """One more turn of this holder, which lasts until `may_end`."""
        task = asyncio.create_task(self._take(holder))
        self._tasks.append(task)
        return task

    async def _take(self, holder: str) -> None:
        async with self.permits.acquire(holder):
            self.order.append(holder)
            await self.may_end.wait()

    async def settled(self) -> None:
        """All tasks have come as far as they can."""
        for _ in range(20):
            await asyncio.sleep(0)

    async def done(self) -> list[str]:
        """Let all of them end; in which order they had their turns."""
        self.may_end.set()
        if self._tasks:
            _, waiting = await asyncio.wait(self._tasks, timeout=_PATIENCE_S)
            for task in waiting:
                task.cancel()
            assert not waiting, f"{len(waiting)} never had a turn after {self.order}"
            assert [each for each in self._tasks if not each.cancelled() and each.exception()] == []
        return self.order


class Thread:
    """One call in a turn, which lasts until `may_end`."""

    def __init__(self, error: Exception | None = None) -> None:
        self.may_end = threading.Event()
        self._error = error
        self._began = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    async def of(self, holder: str, permits: FairSemaphore) -> asyncio.Task[None]:
        """Who waits for its end; it has begun."""
        task = asyncio.create_task(self._ask(holder, permits))
        await self._began.wait()
        return task

    async def _ask(self, holder: str, permits: FairSemaphore) -> None:
        async with permits.acquire(holder) as permit:
            await permit.run(self._work)

    def _work(self) -> None:
        self._loop.call_soon_threadsafe(self._began.set)
        self.may_end.wait(10)
        if self._error:
            raise self._error


@pytest_asyncio.fixture
async def crowd() -> AsyncIterator[Crowd]:
    """Two turns at once."""
    made = Crowd(FairSemaphore(2))
    yield made
    await made.done()


class TestTurns:
    async def test_are_so_many_at_once_and_one_of_each_holder(self, crowd: Crowd) -> None:
        for holder in ("a", "a", "b", "c"):
            crowd.ask(holder)
        await crowd.settled()
        assert crowd.order == ["a", "b"]

    async def test_go_round_whoever_asked_most(self, crowd: Crowd) -> None:
        for holder in ("a", "a", "a", "a", "b", "b", "c"):
            crowd.ask(holder)
        await crowd.settled()
        assert await crowd.done() == ["a", "b", "c", "a", "b", "a", "a"]

    async def test_that_nobody_waits_for_any_more_go_to_the_next(self, crowd: Crowd) -> None:
        crowd.ask("a"), crowd.ask("b")
        await crowd.settled()
        left = crowd.ask("c")
        await crowd.settled()
        crowd.ask("d")
        left.cancel()
        await crowd.settled()
        assert [crowd.permits.load(holder) for holder in "abcd"] == [1, 1, 0, 1]
        assert await crowd.done() == ["a", "b", "d"]
        assert [crowd.permits.load(holder) for holder in "abcd"] == [0, 0, 0, 0]

    async def test_that_end_while_somebody_leaves_go_to_the_next(self, crowd: Crowd) -> None:
        """The turn is free before who waited for it has noticed its own end."""
        crowd.ask("a"), crowd.ask("b")
        await crowd.settled()
        left, _ = crowd.ask("c"), crowd.ask("d")
        await crowd.settled()
        crowd.may_end.set()
        left.cancel()
        assert await crowd.done() == ["a", "b", "d"]
        assert [crowd.permits.load(holder) for holder in "abcd"] == [0, 0, 0, 0]

    async def test_that_were_given_and_not_taken_go_to_the_next(self, crowd: Crowd) -> None:
        """The turn and the end of who waited for it come in one turn of the loop."""
        first, _ = crowd.ask("a"), crowd.ask("b")
        await crowd.settled()
        third, _ = crowd.ask("c"), crowd.ask("d")
        await crowd.settled()
        first.cancel()
        await asyncio.sleep(0)  # c has the turn and has not run
        third.cancel()
        assert await crowd.done() == ["a", "b", "d"]
        assert [crowd.permits.load(holder) for holder in "abcd"] == [0, 0, 0, 0]

    async def test_last_until_their_thread_is_done(self, crowd: Crowd) -> None:
        """Who asks, leaves and asks again would have all threads otherwise."""
        thread = Thread()
        left = await thread.of("a", crowd.permits)
        left.cancel()
        crowd.ask("a"), crowd.ask("b"), crowd.ask("c")
        await crowd.settled()
        assert crowd.order == ["b"]
        thread.may_end.set()
        assert sorted(await crowd.done()) == ["a", "b", "c"]

    async def test_whose_thread_fails_when_nobody_waits_for_it_end_without_a_word(self, crowd: Crowd) -> None:
        order: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: order.append(context["message"]))
        thread = Thread(error=ValueError("gone"))
        left = await thread.of("a", crowd.permits)
        left.cancel()
        crowd.ask("a")
        thread.may_end.set()
        assert await crowd.done() == ["a"]
        del left
        gc.collect()  # asyncio names an error that nobody looked at when it is thrown away
        assert order == []

    async def test_wait_for_no_thread_once_they_are_stopped(self, crowd: Crowd) -> None:
        waiting, leaving = Thread(), Thread()
        asking, left = await waiting.of("a", crowd.permits), await leaving.of("b", crowd.permits)
        left.cancel()
        await crowd.settled()
        assert [crowd.permits.load(holder) for holder in "ab"] == [1, 1]
        crowd.permits.stop()
        await asyncio.wait([asking], timeout=_PATIENCE_S)
        for thread in (waiting, leaving):
            thread.may_end.set()
        assert asking.cancelled()
        assert [crowd.permits.load(holder) for holder in "ab"] == [0, 0]
