"""Streams: everything, in order, once, whoever comes when."""

import asyncio
import random
from collections.abc import Callable, Sequence
from functools import partial

import pytest
from django.contrib.auth.models import Group

from live import hub
from live.feeds import Watch
from live.rendering import Page
from live.send_queue import SendQueue
from postgres import connections
from tests.live.integration.support import Notebook, eventually, log, reads, settled, write
from tests.live.integration.test_layer import end_listeners

pytestmark = pytest.mark.django_db(transaction=True)


async def new_log(log_id: int = 1) -> int:
    """A log without lines."""
    await connections.run(Group.objects.create, name=f"log:{log_id}")
    return log_id


def watch(here: hub.Hub, sink: Notebook | SendQueue, log_id: int, *, seen: str | None = None) -> Watch:
    """Watch a log."""
    return here.watch(
        sink, "test-log", {"log_id": log_id}, watch_id="w", audience="public", language="en-gb", seen=seen
    )


def all_of(log_id: int) -> list[str]:
    """What the log holds."""
    return [item.data for item in log.read(None, 100_000, log_id=log_id)]


class Failing(Notebook):
    """A sink that raises, though it must not."""

    def append(self, watch: Watch, page: Page) -> bool:
        """Raise."""
        raise ArithmeticError


async def test_a_watcher_that_fails_keeps_no_other_from_what_follows(here: hub.Hub) -> None:
    log_id = await new_log()
    failing, sink = Failing(), Notebook()
    for one in (failing, sink):
        watch(here, one, log_id)
    await connections.run(write, log_id, "one")
    await connections.run(write, log_id, "two")
    await eventually(lambda: len(sink.texts) == 2)
    assert failing.texts == []


async def all_have_all_of(
    log_id: int, *, rng: random.Random, watch: Callable[..., Watch], ways: Sequence[Callable[..., None]]
) -> None:
    """Watchers come and go, three write in these ways, connections are lost: each has each line once, in order."""
    sinks: list[Notebook] = []

    async def write_some(writer: int) -> None:
        for n in range(25):
            extra = ["extra"] * rng.randrange(3)
            await connections.run(rng.choice(ways), log_id, f"{writer}.{n}", *extra)

    async def come_and_go() -> None:
        for _ in range(40):
            sink = Notebook()
            joined = watch(sink, log_id)
            await asyncio.sleep(rng.random() / 100)
            if rng.random() < 0.5:  # a page that reconnects where it was
                joined.close()
                watch(sink, log_id, seen=joined.seen)
            sinks.append(sink)

    async def lose_connections() -> None:
        for _ in range(3):
            await asyncio.sleep(0.1)
            await end_listeners()

    await asyncio.gather(write_some(1), write_some(2), write_some(3), come_and_go(), lose_connections())
    written = await connections.run(all_of, log_id)
    await eventually(lambda: all(len(sink.texts) >= len(written) for sink in sinks))
    assert [sink.texts == written for sink in sinks] == [True] * 40


@pytest.mark.usefixtures("layer")
class TestStream:
    async def test_replays_what_there_is_and_appends_what_follows(self, here: hub.Hub) -> None:
        sink = Notebook()
        log_id = await new_log()
        await connections.run(write, log_id, *(f"line {n}" for n in range(30)))
        watch(here, sink, log_id)
        await eventually(lambda: len(sink.texts) == 30)
        await connections.run(write, log_id, "more", "and more")
        await eventually(lambda: sink.texts == [f"line {n}\n" for n in range(30)] + ["more\n", "and more\n"])

    async def test_begins_after_the_cursor_that_the_page_has(self, here: hub.Hub) -> None:
        sink = Notebook()
        log_id = await new_log()
        await connections.run(write, log_id, "one", "two")
        seen = (await connections.run(log.read, None, 1, log_id=log_id))[0].cursor
        watch(here, sink, log_id, seen=seen)
        await eventually(lambda: sink.texts == ["two\n"])

    async def test_reads_once_for_all_who_are_up_to_date(self, here: hub.Hub) -> None:
        sinks = [Notebook() for _ in range(300)]
        log_id = await new_log()
        for sink in sinks:
            watch(here, sink, log_id)
        await settled(lambda: reads.count)
        before = reads.count
        await connections.run(write, log_id, "one", "two")
        await eventually(lambda: all(sink.texts == ["one\n", "two\n"] for sink in sinks))
        assert reads.count - before == 1

    async def test_loses_and_doubles_nothing_whoever_comes_and_goes_while_others_write(self, here: hub.Hub) -> None:
        log_id = await new_log()
        await all_have_all_of(log_id, rng=random.Random(7), watch=partial(watch, here), ways=[write])

    async def test_goes_on_after_a_read_that_failed(self, here: hub.Hub) -> None:
        sink = Notebook()
        log_id = await new_log()
        reads.failures_left = 1
        await connections.run(write, log_id, "one")
        watch(here, sink, log_id)
        await eventually(lambda: sink.texts == ["one\n"])

    async def test_gives_nothing_for_a_cursor_that_is_none(self, here: hub.Hub) -> None:
        sink = Notebook()
        log_id = await new_log()
        await connections.run(write, log_id, "one")
        watch(here, sink, log_id, seen="99999999")
        await settled(lambda: reads.count)
        assert sink.texts == []


class TestSlowReaders:
    async def test_are_paused_and_go_on_where_they_were(self, here: hub.Hub) -> None:
        slow, quick = Notebook(), Notebook()
        slow.takes_more = False
        log_id = await new_log()
        paused = watch(here, slow, log_id)
        watch(here, quick, log_id)
        for n in range(5):
            await connections.run(write, log_id, *[f"{n}"] * 5)
            await eventually(lambda n=n: len(quick.texts) == 5 * n + 5)  # type: ignore[misc]
        so_far = list(slow.texts)
        slow.takes_more = True
        paused.resume()
        await eventually(lambda: slow.texts == quick.texts)
        assert len(so_far) <= 7  # a page
        assert len(slow.texts) == 25

    async def test_cost_no_more_memory_than_their_backlog_and_a_page(self, here: hub.Hub) -> None:
        send_queue = SendQueue(backlog_bytes=2000)
        log_id = await new_log()
        watch(here, send_queue, log_id)
        await connections.run(write, log_id, *["x" * 100] * 300)
        await settled(lambda: reads.count)
        waiting = send_queue._waiting_bytes
        texts: list[str] = []
        while len(texts) < 300:
            async with asyncio.timeout(10):
                for message in await send_queue.take():
                    assert message.page is not None
                    texts += lines(message.page.encoded)
        assert waiting < 2000 + 7 * 200
        assert texts == ["x" * 100 + "\n"] * 300


def lines(encoded: str) -> Sequence[str]:
    """The texts of a page as it is sent."""
    import json

    return [item["data"] for item in json.loads(encoded)]
