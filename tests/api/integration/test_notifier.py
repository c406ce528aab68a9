"""The bell on a real database and a real hub: who is woken, how often it asks."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

import live
from jobs import operations
from jobs.queries.reads import Claimable, Interest
from jobs.waiting import notifier as bells
from jobs.waiting.notifier import NEVER, Notifier, Wakeup
from live import hub
from postgres import connections
from tests import farm

pytestmark = pytest.mark.django_db(transaction=True)
CHAT = Interest(queues=("chat",))
PATIENCE_S = 20


@pytest.fixture
def polls_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """For who waits until it polls."""
    assert bells.POLL_S == 5, "what a process may ask at most"
    monkeypatch.setattr(bells, "POLL_S", 2.0)


class Counted:
    """Asks the database as the bell does, and remembers what it asked. While `may_count` is not set, it waits."""

    def __init__(self) -> None:
        self.calls: list[list[tuple[Interest, int]]] = []
        self.may_count = threading.Event()
        self.may_count.set()

    def __call__(self, wanted: Sequence[tuple[Interest, int]]) -> Sequence[Claimable]:
        self.calls.append(list(wanted))
        assert self.may_count.wait(PATIENCE_S)
        return bells.claimable(wanted)


@asynccontextmanager
async def ringing(ask: Callable[..., Any] = bells.claimable) -> AsyncIterator[Notifier]:
    """A bell whose hub listens."""
    await connections.run(operations.sync)
    await hub.current().ready()
    notifier = Notifier(stopping=asyncio.Event(), query=ask)
    try:
        yield notifier
    finally:
        await notifier.stop()
        await hub.current().stop()


def waiting(
    notifier: Notifier, interest: Interest = CHAT, *, timeout_s: float | None = None, claims_itself: bool = False
) -> "asyncio.Task[Wakeup | None]":
    """Somebody who has just asked and found nothing."""
    polled_at = asyncio.get_running_loop().time()
    wait = notifier.wait(interest, polled_at=polled_at, timeout_s=timeout_s, claims_itself=claims_itself)
    return asyncio.create_task(wait)


async def woken(tasks: Sequence["asyncio.Task[Wakeup | None]"]) -> Wakeup:
    """The turn of the first of these that is woken."""
    done, _ = await asyncio.wait(tasks, timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
    wakeup = next(iter(done)).result()
    assert wakeup is not None
    return wakeup


async def settled(counted: Counted) -> None:
    """Return when the bell has asked no more for a while."""
    before = -1
    while before != len(counted.calls):
        before = len(counted.calls)
        await asyncio.sleep(0.2)


def done(tasks: Sequence["asyncio.Task[Wakeup | None]"]) -> list[int]:
    """Which of them were woken."""
    return [place for place, task in enumerate(tasks) if task.done()]


class TestWaking:
    async def test_is_first_come_first_served_and_one_for_each_job(self, transactional_db: None) -> None:
        counted = Counted()
        async with ringing(counted) as notifier:
            tasks = [waiting(notifier) for _ in range(50)]
            await settled(counted)
            await connections.run(farm.submit, 3, "chat")
            for task in tasks[:3]:
                assert await asyncio.wait_for(asyncio.shield(task), PATIENCE_S)
            await settled(counted)
            assert done(tasks) == [0, 1, 2]

    async def test_wakes_no_further_one_for_a_job_that_somebody_is_fetching(self, transactional_db: None) -> None:
        counted = Counted()
        async with ringing(counted) as notifier:
            tasks = [waiting(notifier) for _ in range(5)]
            await settled(counted)
            await connections.run(farm.submit, 1, "chat")
            wakeup = await woken(tasks)
            await connections.run(farm.submit, 1, "chat")  # two jobs, one of them on its way
            await settled(counted)
            assert done(tasks) == [0, 1]
            wakeup.used()

    async def test_needs_no_count_for_the_first_who_claims_by_itself(self, transactional_db: None) -> None:
        counted = Counted()
        async with ringing(counted) as notifier:
            alone = waiting(notifier, claims_itself=True)
            await settled(counted)
            notifier._polled_at = asyncio.get_running_loop().time()  # no poll comes between
            counted.calls.clear()
            await connections.run(farm.submit, 1, "chat")
            (await woken([alone])).used()
            assert counted.calls == []

    async def test_counts_for_the_others_while_the_first_claims(self, transactional_db: None) -> None:
        counted = Counted()
        async with ringing(counted) as notifier:
            tasks = [waiting(notifier, claims_itself=True) for _ in range(5)]
            await settled(counted)
            await connections.run(farm.submit, 3, "chat")
            first = await asyncio.wait_for(asyncio.shield(tasks[0]), PATIENCE_S)
            assert first is not None
            await settled(counted)
            assert done(tasks) == [0, 1, 2]

    async def test_makes_one_claim_uncounted_however_many_groups_wait_and_first_who_serves_everybody(
        self, transactional_db: None
    ) -> None:
        counted = Counted()
        async with ringing(counted) as notifier:
            interests = [Interest(queues=("chat",), owner_id=7), CHAT, Interest(queues=("chat", "image"))]
            tasks = [waiting(notifier, interest, claims_itself=True) for interest in interests]
            await settled(counted)
            counted.may_count.clear()
            await connections.run(farm.submit, 1, "chat")
            await woken(tasks)
            assert done(tasks) == [1]
            counted.may_count.set()
            await settled(counted)
            assert done(tasks) == [1, 2]  # for whom was counted as well: the first may not take it

    async def test_wakes_no_further_one_for_a_claim_that_began_during_the_count(self, transactional_db: None) -> None:
        counted = Counted()
        async with ringing(counted) as notifier:
            tasks = [waiting(notifier, claims_itself=True) for _ in range(3)]
            await settled(counted)
            counted.may_count.clear()
            notifier._on_topics({"due:chat:0"})  # what happened before: this count knows of no claim under way
            await settled(counted)
            await connections.run(farm.submit, 2, "chat")
            await woken(tasks)
            counted.may_count.set()
            await settled(counted)
            assert done(tasks) == [0, 1]

    async def test_counts_again_after_a_claim_that_ended_during_the_count(self, transactional_db: None) -> None:
        counted = Counted()
        async with ringing(counted) as notifier:
            worker = await connections.run(farm.worker, "w", "chat")
            tasks = [waiting(notifier, claims_itself=True) for _ in range(2)]
            await settled(counted)
            counted.may_count.clear()
            await connections.run(farm.submit, 2, "chat")
            wakeup = await woken(tasks)
            await connections.run(farm.claim_one, worker)
            wakeup.used()
            notifier._polled_at = asyncio.get_running_loop().time()  # no poll comes to the rescue
            counted.may_count.set()
            await settled(counted)
            assert done(tasks) == [0, 1]

    async def test_passes_the_turn_on_until_everybody_has_tried(self, transactional_db: None) -> None:
        counted = Counted()
        async with ringing(counted) as notifier:
            tasks = [waiting(notifier) for _ in range(4)]
            await settled(counted)
            await connections.run(farm.submit, 1, "chat")
            for place in range(4):
                wakeup = await woken(tasks[place:])
                assert done(tasks) == list(range(place + 1))
                wakeup.passed()
            await settled(counted)
            calls_so_far = len(counted.calls)
            late = waiting(notifier)  # asked after all that, so it knows
            await settled(counted)
            assert not late.done()
            assert len(counted.calls) == calls_so_far

    async def test_asks_again_for_those_who_tried_when_something_changed(self, transactional_db: None) -> None:
        counted = Counted()
        async with ringing(counted) as notifier:
            await connections.run(farm.submit, 1, "chat")
            first = waiting(notifier)
            (await woken([first])).passed()
            second = waiting(notifier)
            await settled(counted)
            assert not second.done()
            await connections.run(farm.submit, 1, "chat")
            assert await asyncio.wait_for(second, PATIENCE_S)

    async def test_of_who_does_not_come_goes_to_the_next(self, transactional_db: None) -> None:
        async with ringing() as notifier:
            silent, other = waiting(notifier), waiting(notifier)
            await connections.run(farm.submit, 1, "chat")
            assert await asyncio.wait_for(silent, PATIENCE_S)
            assert await asyncio.wait_for(other, PATIENCE_S)

    async def test_of_who_is_canceled_at_that_moment_goes_to_the_next(self, transactional_db: None) -> None:
        async with ringing() as notifier:
            tasks = [waiting(notifier) for _ in range(3)]
            await connections.run(farm.submit, 1, "chat")
            group = notifier._group(CHAT)
            while len(group.waiters) == 3:  # noqa: ASYNC110  # the very moment is wanted, and nothing tells it
                await asyncio.sleep(0)
            tasks[0].cancel()
            await asyncio.gather(tasks[0], return_exceptions=True)
            assert (await woken(tasks[1:])).group is group

    async def test_counts_what_happened_between_asking_and_waiting(self, transactional_db: None) -> None:
        counted = Counted()
        async with ringing(counted) as notifier:
            await settled(counted)
            polled_at = asyncio.get_running_loop().time()
            arrived = asyncio.Event()
            subscription = hub.current().watch_topics(["work:*"], lambda _: arrived.set())
            await connections.run(farm.submit, 1, "chat")
            await arrived.wait()
            subscription.close()
            assert await asyncio.wait_for(notifier.wait(CHAT, polled_at=polled_at, timeout_s=PATIENCE_S), PATIENCE_S)

    async def test_serves_who_never_asked(self, transactional_db: None) -> None:
        async with ringing() as notifier:
            await connections.run(farm.submit, 1, "chat")
            await asyncio.sleep(0)
            wakeup = await asyncio.wait_for(notifier.wait(CHAT, polled_at=NEVER, timeout_s=None), PATIENCE_S)
            assert wakeup is not None

    async def test_comes_when_a_job_becomes_due(self, transactional_db: None) -> None:
        async with ringing() as notifier:
            task = waiting(notifier)
            soon = timezone.now() + timedelta(seconds=0.5)
            await connections.run(operations.submit, "chat", {}, run_at=soon)
            assert await asyncio.wait_for(task, 3)  # before the next poll

    @pytest.mark.usefixtures("polls_often")
    async def test_comes_after_lost_messages(self, transactional_db: None) -> None:
        counted = Counted()
        async with ringing(counted) as notifier:
            task = waiting(notifier)
            await settled(counted)
            notifier._subscription.close()  # deaf: as if every message were lost
            await connections.run(farm.submit, 1, "chat")
            assert await asyncio.wait_for(task, bells.POLL_S * 3)

    @pytest.mark.usefixtures("polls_often")
    async def test_comes_after_lost_messages_for_who_waits_when_nobody_else_did(self, transactional_db: None) -> None:
        counted = Counted()
        async with ringing(counted) as notifier:
            image = Interest(queues=("image",))
            assert await waiting(notifier, image, timeout_s=0.1) is None
            assert await waiting(notifier, timeout_s=0.1) is None
            notifier._on_topics({"work:image"})  # while nobody waits there is no poll to come
            await settled(counted)
            task = waiting(notifier)
            await settled(counted)
            notifier._subscription.close()
            await connections.run(farm.submit, 1, "chat")
            assert await asyncio.wait_for(task, bells.POLL_S * 3)

    async def test_comes_after_a_reconnect(self, transactional_db: None) -> None:
        counted = Counted()
        async with ringing(counted) as notifier:
            task = waiting(notifier)
            await settled(counted)
            calls = len(counted.calls)
            notifier._on_topics({live.RECONNECTED})
            await settled(counted)
            assert len(counted.calls) > calls
            assert not task.done()

    async def test_ends_without_a_turn_when_the_time_or_the_process_does(self, transactional_db: None) -> None:
        async with ringing() as notifier:
            assert await waiting(notifier, timeout_s=0.05) is None
            tasks = [waiting(notifier) for _ in range(3)]
            await asyncio.sleep(0)
            await notifier.stop()
            assert await asyncio.gather(*tasks) == [None, None, None]


class TestAsking:
    @pytest.mark.usefixtures("polls_often")
    async def test_is_once_for_thousands_and_by_the_clock_at_most(self, transactional_db: None) -> None:
        counted = Counted()
        async with ringing(counted) as notifier:
            interests = [CHAT, Interest(queues=("image",)), Interest(queues=("*",))]
            loop = asyncio.get_running_loop()
            began = loop.time()
            tasks = [waiting(notifier, interests[number % 3]) for number in range(6000)]
            await settled(counted)
            calls, since = len(counted.calls), loop.time()
            while len(counted.calls) < calls + 2:  # noqa: ASYNC110  # the bell tells nobody that it asked
                await asyncio.sleep(0.05)
            assert loop.time() - since > bells.POLL_S
            assert [{interest for interest, _ in wanted} for wanted in counted.calls[-2:]] == [set(interests)] * 2
            assert len(counted.calls) <= 2 + (loop.time() - began) / bells.POLL_S
            assert not done(tasks)

    async def test_is_only_for_those_whom_a_change_concerns(self, transactional_db: None) -> None:
        counted = Counted()
        async with ringing(counted) as notifier:
            image = Interest(queues=("image",))
            tasks = [waiting(notifier), waiting(notifier, image)]
            await settled(counted)
            counted.calls.clear()
            await connections.run(farm.submit, 1, "image")
            wakeup = await woken(tasks)
            wakeup.used()
            assert counted.calls[0] == [(image, 1)]

    async def test_does_not_happen_for_jobs_of_tomorrow(self, transactional_db: None) -> None:
        counted = Counted()
        async with ringing(counted) as notifier:
            task = waiting(notifier)
            await settled(counted)
            calls = len(counted.calls)
            tomorrow = timezone.now() + timedelta(days=1)
            await connections.run(farm.submit, 20, "chat", run_at=tomorrow)
            await settled(counted)
            assert len(counted.calls) <= calls + 1  # the poll may have come
            assert not task.done()

    async def test_goes_on_after_the_database_failed(self, transactional_db: None) -> None:
        failures = iter([True, True])

        def unreliable(wanted: Sequence[tuple[Interest, int]]) -> Sequence[Claimable]:
            if next(failures, False):
                raise OSError("the database is away")
            return bells.claimable(wanted)

        async with ringing(unreliable) as notifier:
            task = waiting(notifier)
            await connections.run(farm.submit, 1, "chat")
            assert await asyncio.wait_for(task, PATIENCE_S)

    async def test_stops_when_nobody_waits(self, transactional_db: None) -> None:
        counted = Counted()
        async with ringing(counted) as notifier:
            assert await waiting(notifier, timeout_s=0.1) is None
            await settled(counted)
            calls = len(counted.calls)
            await connections.run(farm.submit, 3, "chat")
            await settled(counted)
            assert len(counted.calls) == calls
