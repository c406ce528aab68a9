"""The channel layer on NOTIFY: what Channels asks of one, and what happens when its connection is lost."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
import pytest_asyncio
from channels.exceptions import MessageTooLarge

from live.layer import NotifyChannelLayer
from postgres import connections
from tests.live.integration.support import eventually

pytestmark = pytest.mark.django_db(transaction=True)

RECONNECTED = {"type": "live.reconnected"}


@pytest_asyncio.fixture
async def layers() -> AsyncIterator[tuple[NotifyChannelLayer, NotifyChannelLayer]]:
    """Two layers on a channel of their own, as two processes have."""
    pair = (NotifyChannelLayer(notify_channel="test"), NotifyChannelLayer(notify_channel="test"))
    yield pair
    for layer in pair:
        await layer.close()


async def received(layer: NotifyChannelLayer, channel: str) -> dict[str, Any]:
    """The next message, which must come."""
    async with asyncio.timeout(15):
        return await layer.receive(channel)


async def end_listeners() -> int:
    """Have the server close every connection that listens for tests; how many there were."""
    conninfo = await asyncio.to_thread(connections.direct_conninfo)
    async with await psycopg.AsyncConnection.connect(conninfo, autocommit=True) as connection:
        cursor = await connection.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE application_name = 'jobfarm live' AND datname = current_database()"
        )
        row = await cursor.fetchone()
        assert row is not None
        return int(row[0])


Pair = tuple[NotifyChannelLayer, NotifyChannelLayer]


class TestNotifyChannelLayer:
    async def test_brings_a_message_to_the_channel_of_another_process(self, layers: Pair) -> None:
        here, there = layers
        channel = await there.new_channel()
        await there.group_add("all", channel)
        await here.send(channel, {"type": "hello", "n": 1, "text": "größer 🖼"})
        assert await received(there, channel) == {"type": "hello", "n": 1, "text": "größer 🖼"}

    async def test_brings_a_group_message_to_every_member_everywhere(self, layers: Pair) -> None:
        here, there = layers
        members = [(layer, await layer.new_channel()) for layer in (here, here, there)]
        for layer, channel in members:
            await layer.group_add("all", channel)
        await here.group_send("all", {"type": "hello"})
        assert [await received(*member) for member in members] == [{"type": "hello"}] * 3

    async def test_brings_nothing_to_who_left_the_group(self, layers: Pair) -> None:
        here, _ = layers
        stays, leaves = await here.new_channel(), await here.new_channel()
        await here.group_add("all", stays)
        await here.group_add("all", leaves)
        await here.group_discard("all", leaves)
        await here.group_send("all", {"type": "first"})
        await here.send(leaves, {"type": "second"})
        assert await received(here, stays) == {"type": "first"}
        assert await received(here, leaves) == {"type": "second"}

    async def test_keeps_the_order(self, layers: Pair) -> None:
        here, there = layers
        channel = await there.new_channel()
        await there.group_add("all", channel)
        for n in range(50):
            await here.group_send("all", {"n": n})
        assert [(await received(there, channel))["n"] for _ in range(50)] == list(range(50))

    async def test_says_that_messages_were_lost_when_a_channel_overflows(self) -> None:
        layer = NotifyChannelLayer(notify_channel="test", capacity=3)
        channel = await layer.new_channel()
        await layer.group_add("all", channel)
        layer_done = await layer.new_channel("other")
        for n in range(4):
            await layer.group_send("all", {"n": n})
        await layer.send(layer_done, {"type": "done"})
        await received(layer, layer_done)
        assert [await received(layer, channel), await received(layer, channel)] == [RECONNECTED, {"n": 3}]
        await layer.close()

    async def test_posts_by_the_connection_that_listens_to_all_but_its_own_process(self, layers: Pair) -> None:
        members = [(layer, await layer.new_channel()) for layer in layers]
        for layer, channel in members:
            await layer.group_add("all", channel)
        here, _ = layers
        text = "größer 'as' \\n 🖼"
        assert here.post(group="all", messages=[{"n": 1, "text": text}, {"n": 2}])
        assert here.is_posting
        assert not here.post(group="all", messages=[{"n": 3}])
        assert [await received(*members[1]), await received(*members[1])] == [{"n": 1, "text": text}, {"n": 2}]
        await here.group_send("all", {"n": 4})
        assert [await received(*member) for member in members] == [{"n": 4}] * 2
        await eventually(lambda: not here.is_posting)

    async def test_posts_nothing_while_it_does_not_listen(self, layers: Pair) -> None:
        here, there = layers
        assert not here.post(group="all", messages=[{"n": 1}])
        channel = await there.new_channel()
        await there.group_add("all", channel)
        await end_listeners()
        assert await received(there, channel) == RECONNECTED
        assert there.post(group="all", messages=[{"n": 2}])

    async def test_reconnects_and_says_so(self, layers: Pair) -> None:
        here, there = layers
        channel = await there.new_channel()
        await there.group_add("all", channel)
        assert await end_listeners() >= 1  # a server of a test before may still be ending
        assert await received(there, channel) == RECONNECTED
        await here.group_send("all", {"type": "again"})
        assert await received(there, channel) == {"type": "again"}

    async def test_reconnects_as_often_as_it_takes(self, layers: Pair) -> None:
        _, there = layers
        channel = await there.new_channel()
        await there.group_add("all", channel)
        for _ in range(3):
            await end_listeners()
            assert await received(there, channel) == RECONNECTED

    async def test_ignores_what_others_say_on_its_channel(self, layers: Pair, caplog: pytest.LogCaptureFixture) -> None:
        here, there = layers
        channel = await there.new_channel()
        await there.group_add("all", channel)
        foreign = ["", "garbage", "[]", "7", '{"group": "all"}', '{"message": {}}', '{"group": [], "message": {}}']
        foreign += ['{"channel": {}, "message": {}}', '{"group": "all", "message": 7}', "[" * 5000]
        await connections.run(here._notify, foreign)
        await here.send(channel, {"type": "ours"})
        assert await received(there, channel) == {"type": "ours"}
        assert not [record for record in caplog.records if record.exc_info]

    async def test_refuses_what_notify_cannot_carry(self, layers: Pair) -> None:
        with pytest.raises(MessageTooLarge):
            await layers[0].group_send("all", {"text": "x" * 8000})

    async def test_carries_what_just_fits(self, layers: Pair) -> None:
        here, there = layers
        channel = await there.new_channel()
        await there.group_add("all", channel)
        await here.group_send("all", {"text": "x" * 7900})
        assert len((await received(there, channel))["text"]) == 7900

    @pytest.mark.parametrize("name", ["job:7", "", "x" * 101, "größe"])
    async def test_refuses_names_that_channels_refuses(self, layers: Pair, name: str) -> None:
        with pytest.raises(TypeError):
            await layers[0].group_send(name, {})

    async def test_refuses_channels_that_belong_to_no_process(self, layers: Pair) -> None:
        with pytest.raises(TypeError, match="one process"):
            await layers[0].send("everybody", {})

    async def test_forgets_everything_when_flushed(self, layers: Pair) -> None:
        here, _ = layers
        channel = await here.new_channel()
        await here.group_add("all", channel)
        await here.flush()
        await here.group_send("all", {"type": "to nobody"})
        other = await here.new_channel()
        await here.send(other, {"type": "that was all"})
        await received(here, other)
        await here.group_add("all", channel)
        await here.group_send("all", {"type": "to us"})
        assert await received(here, channel) == {"type": "to us"}

    async def test_stops_listening_when_closed(self, layers: Pair) -> None:
        here, _ = layers
        await here.group_add("all", await here.new_channel())
        await here.close()
        async with asyncio.timeout(10):
            while await end_listeners():
                pass  # a backend needs a moment to notice that its client left

    async def test_waits_for_a_database_that_is_not_there_yet(
        self, monkeypatch: pytest.MonkeyPatch, layers: Pair
    ) -> None:
        """It asks for the address before each attempt: a server that was moved is found."""
        calls = []
        real = connections.direct_conninfo

        def sometimes() -> str:
            calls.append(1)
            if len(calls) < 4:
                raise OSError("not there yet")
            return real()

        monkeypatch.setattr(connections, "direct_conninfo", sometimes)
        here, _ = layers
        channel = await here.new_channel()
        await here.group_add("all", channel)
        await here.group_send("all", {"type": "at last"})
        assert await received(here, channel) == {"type": "at last"}
        assert len(calls) == 4


class TestLoops:
    def test_starts_over_on_the_next_event_loop(self) -> None:
        """A loop that ended without closing the layer leaves nothing that the next one stumbles over."""
        layer = NotifyChannelLayer(notify_channel="test")

        async def use() -> dict[str, Any]:
            channel = await layer.new_channel()
            await layer.group_add("all", channel)
            await layer.group_send("all", {"type": "hello"})
            return await received(layer, channel)

        async def use_and_close() -> dict[str, Any]:
            answer = await use()
            await layer.close()
            return answer

        assert asyncio.run(use()) == asyncio.run(use_and_close()) == {"type": "hello"}

    async def test_refuses_to_receive_on_two_loops_at_once(self, layers: Pair) -> None:
        here, _ = layers
        await here.new_channel()
        with pytest.raises(RuntimeError, match="another event loop"):
            await asyncio.to_thread(asyncio.run, here.new_channel())
