"""Who holds a permit of the semaphore around the database, and who waits."""

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest_asyncio

from live.semaphore import FairSemaphore


class Crowd:
    """Holders that wait for permits, and in which order they had one."""

    def __init__(self, permits: FairSemaphore) -> None:
        self.permits = permits
        self.order: list[str] = []
        self.may_end = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def ask(self, holder: str) -> asyncio.Task[None]:
        """One more permit of this holder, which lasts until `may_end`."""
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
        """Let all of them end; in which order they had their permits."""
        self.may_end.set()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        return self.order


@pytest_asyncio.fixture
async def crowd() -> AsyncIterator[Crowd]:
    """Two permits."""
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
        assert await crowd.done() == ["a", "b", "d"]
        assert [crowd.permits.load(holder) for holder in "abcd"] == [0, 0, 0, 0]

    async def test_that_were_given_and_not_taken_go_to_the_next(self, crowd: Crowd) -> None:
        """The permit and the end of who waited for it come in one iteration of the loop."""
        first, _ = crowd.ask("a"), crowd.ask("b")
        await crowd.settled()
        third, _ = crowd.ask("c"), crowd.ask("d")
        await crowd.settled()
        first.cancel()
        await asyncio.sleep(0)  # c has the permit and has not run
        third.cancel()
        assert await crowd.done() == ["a", "b", "d"]

    async def test_last_until_their_thread_is_done(self, crowd: Crowd) -> None:
        """Who asks, leaves and asks again would have all threads otherwise."""
        may_end, began = threading.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()

        def work() -> None:
            loop.call_soon_threadsafe(began.set)
            may_end.wait(10)

        async def ask() -> None:
            async with crowd.permits.acquire("a") as permit:
                await permit.run(work)

        left = asyncio.create_task(ask())
        await began.wait()
        left.cancel()
        crowd.ask("a"), crowd.ask("b"), crowd.ask("c")
        await crowd.settled()
        assert crowd.order == ["b"]
        may_end.set()
        assert sorted(await crowd.done()) == ["a", "b", "c"]
