"""Many watchers, one read; and the truth arrives, also when messages do not."""

import asyncio
import random
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest
from channels.layers import get_channel_layer
from django.contrib.auth.models import Group
from django.db import connection
from pytest_django import Settings

from live import RECONNECTED, configuration, errors, hub, operations
from live.feeds import Watch
from live.rendering import Rendering
from postgres import connections
from tests.doctor import named_errors
from tests.live.integration.conftest import running_redis
from tests.live.integration.support import Notebook, eventually, reads, rename, settled
from tests.live.integration.test_layer import end_listeners

pytestmark = pytest.mark.django_db(transaction=True)


class Failing(Notebook):
    """A sink that raises, though it must not."""

    def state(self, watch: Watch, latest: Rendering) -> None:
        """Raise."""
        raise ArithmeticError


async def new_group(name: str) -> int:
    """A group's id."""
    return (await connections.run(Group.objects.create, name=name)).pk


def watch(here: hub.Hub, sink: Notebook, group_id: int, *, audience: str = "member", seen: str | None = None) -> Watch:
    """Watch a group."""
    return here.watch(
        sink, "test-group", {"group_id": group_id}, watch_id="w", audience=audience, language="en-gb", seen=seen
    )


def shown(name: str, audience: str = "member") -> str:
    """What the test's template makes of a group."""
    return f'<b class="{audience}">{name}</b>'


def _shows(sink: Notebook, name: str) -> bool:
    return sink.bodies[-1:] == [shown(name)]


@pytest.mark.usefixtures("layer")
class TestWatchingTopics:
    async def test_calls_back_with_the_topics_that_are_watched(self, here: hub.Hub) -> None:
        received: list[set[str]] = []
        here.watch_topics(["job:7", "work:*"], received.append)
        await connections.run(operations.touch, "job:7", "job:8", "work:images", "worker:3", "homework:1")
        await eventually(lambda: received == [{"job:7", "work:images"}])

    async def test_is_told_of_what_goes_stale_by_time_and_nobody_elsewhere_is(self, here: hub.Hub) -> None:
        received: list[set[str]] = []
        here.watch_topics(["processes"], received.append)
        hub.touch_here({"processes", "job:7"})
        assert received == [{"processes"}]  # at once, without a message

    async def test_calls_back_no_more_after_the_end(self, here: hub.Hub) -> None:
        ended: list[set[str]] = []
        received: list[set[str]] = []
        subscription = here.watch_topics(["job:7"], ended.append)
        here.watch_topics(["job:7"], received.append)
        subscription.close()
        subscription.close()
        await connections.run(operations.touch, "job:7")
        await eventually(lambda: received)
        assert ended == []

    async def test_goes_on_when_a_callback_fails(self, here: hub.Hub, caplog: pytest.LogCaptureFixture) -> None:
        def fail(_: set[str]) -> None:
            raise ArithmeticError

        received: list[set[str]] = []
        here.watch_topics(["job:7"], fail)
        here.watch_topics(["job:7"], received.append)
        await connections.run(operations.touch, "job:7")
        await connections.run(operations.touch, "job:7")
        await eventually(lambda: len(received) == 2)
        assert len([record for record in caplog.records if record.exc_info]) == 2

    async def test_hears_a_thread_that_has_no_loop(self, here: hub.Hub) -> None:
        def write() -> None:
            operations.touch("job:7")
            connection.close()

        received: list[set[str]] = []
        here.watch_topics(["job:7"], received.append)
        await asyncio.to_thread(write)
        await eventually(lambda: received == [{"job:7"}])

    async def test_tells_who_came_before_it_was_ready_that_something_may_be_lost(self, layer: str) -> None:
        early = hub.current()
        received: list[set[str]] = []
        early.watch_topics(["job:7"], received.append)
        await eventually(lambda: received == [{RECONNECTED}])
        await early.stop()


@pytest.mark.usefixtures("layer")
class TestWatchingAState:
    async def test_brings_the_first_and_every_later_rendering(self, here: hub.Hub) -> None:
        sink = Notebook()
        group_id = await new_group("one")
        watch(here, sink, group_id)
        await eventually(lambda: sink.bodies == [shown("one")])
        await connections.run(rename, group_id, "two & <three>")
        await eventually(lambda: sink.bodies[1:] == [shown("two &amp; &lt;three&gt;")])

    async def test_reads_once_for_all_who_watch(self, here: hub.Hub) -> None:
        sinks = [Notebook() for _ in range(1000)]
        group_id = await new_group("one")
        for sink in sinks:
            watch(here, sink, group_id)
        await eventually(lambda: all(sink.bodies for sink in sinks))
        first = reads.count
        await connections.run(rename, group_id, "two")
        await eventually(lambda: all(sink.bodies == [shown("one"), shown("two")] for sink in sinks))
        assert (first, reads.count) == (1, 2)

    async def test_reads_once_for_each_audience(self, here: hub.Hub) -> None:
        public, member = Notebook(), Notebook()
        group_id = await new_group("one")
        watch(here, public, group_id, audience="public")
        watch(here, member, group_id)
        await eventually(lambda: (public.bodies, member.bodies) == ([shown("one", "public")], [shown("one")]))

    async def test_merges_changes_that_come_while_it_reads(self, here: hub.Hub) -> None:
        sink = Notebook()
        group_id = await new_group("0")
        watch(here, sink, group_id)
        await eventually(lambda: sink.bodies)
        before = reads.count
        reads.may_go_on.clear()
        for n in range(1, 20):
            await connections.run(rename, group_id, str(n))
        reads.may_go_on.set()
        await eventually(lambda: sink.bodies[-1] == shown("19"))
        # Three, if all were heard of before the read went on; Redis tells them a moment after they were said.
        assert await settled(lambda: reads.count) - before < 10

    async def test_says_nothing_to_who_has_this_version(self, here: hub.Hub) -> None:
        knows, new = Notebook(), Notebook()
        group_id = await new_group("one")
        first = watch(here, new, group_id)
        await eventually(lambda: new.bodies)
        watch(here, knows, group_id, seen=first.seen)
        await connections.run(operations.touch, f"group:{group_id}")
        await settled(lambda: reads.count)
        assert (knows.bodies, len(new.bodies)) == ([], 1)

    async def test_says_that_it_is_gone(self, here: hub.Hub) -> None:
        sink = Notebook()
        group_id = await new_group("one")
        watch(here, sink, group_id)
        await eventually(lambda: sink.bodies)
        await connections.run(Group.objects.all().delete)
        await connections.run(operations.touch, f"group:{group_id}")
        await eventually(lambda: sink.ended)

    async def test_tries_again_when_a_read_fails(self, here: hub.Hub, caplog: pytest.LogCaptureFixture) -> None:
        sink = Notebook()
        reads.failures_left = 1
        watch(here, sink, await new_group("one"))
        await eventually(lambda: sink.bodies == [shown("one")])
        assert "ArithmeticError" in caplog.text

    async def test_goes_on_for_others_when_a_watcher_fails(
        self, here: hub.Hub, caplog: pytest.LogCaptureFixture
    ) -> None:
        sinks, group_id = [Failing(), Notebook()], await new_group("one")
        for sink in sinks:
            watch(here, sink, group_id)
        for name in ("one", "two"):
            await connections.run(rename, group_id, name)
            await eventually(partial(_shows, sinks[1], name))
        assert caplog.text.count("A watcher of test-group") == 1
        await connections.run(Group.objects.all().delete)
        await connections.run(operations.touch, f"group:{group_id}")
        await eventually(lambda: sinks[1].ended)

    async def test_of_one_query_that_fails_for_ever_keeps_no_other_from_being_read(self, here: hub.Hub) -> None:
        broken, sink = Notebook(), Notebook()
        group_id = await new_group("one")
        here.watch(broken, "test-broken", {}, watch_id="w", audience="public", language="en-gb")
        watch(here, sink, group_id)
        for name in ("two", "three"):
            await connections.run(rename, group_id, name)
            await eventually(partial(_shows, sink, name))
        assert broken.bodies == []
        assert "test-broken" in await connections.run(named_errors)

    async def test_reads_no_more_when_nobody_watches(self, here: hub.Hub) -> None:
        sink = Notebook()
        group_id = await new_group("one")
        ended = watch(here, sink, group_id)
        await eventually(lambda: sink.bodies)
        ended.close()
        ended.close()
        before = reads.count
        await connections.run(rename, group_id, "two")
        assert await settled(lambda: reads.count) == before
        assert here._feeds == {}

    async def test_sends_data_where_a_query_renders_json(self, here: hub.Hub) -> None:
        sink = Notebook()
        here.watch(sink, "test-count", {}, watch_id="w", audience="public", language="en-gb")
        await eventually(lambda: sink.bodies == ['{"count": 0}'])

    async def test_reads_no_more_often_than_a_query_allows(self, here: hub.Hub) -> None:
        """`test-count` allows ten reads a second: a burst of changes costs one now and one at the end."""
        sink = Notebook()
        here.watch(sink, "test-count", {}, watch_id="w", audience="public", language="en-gb")
        await eventually(lambda: sink.bodies)
        began, before = asyncio.get_running_loop().time(), reads.count
        for _ in range(30):
            await connections.run(operations.touch, "groups")
        took = asyncio.get_running_loop().time() - began
        assert await settled(lambda: reads.count) - before <= 2 + took / 0.1

    async def test_refuses_what_is_not_declared(self, here: hub.Hub) -> None:
        with pytest.raises(errors.UnknownQuery):
            here.watch(Notebook(), "nothing", {}, watch_id="w", audience="public", language="en-gb")
        with pytest.raises(errors.BadArguments):
            here.watch(Notebook(), "test-group", {}, watch_id="w", audience="public", language="en-gb")


class TestLosingMessages:
    async def test_reads_everything_again_when_the_listening_connection_was_lost(self, here: hub.Hub) -> None:
        sink = Notebook()
        received: list[set[str]] = []
        group_id = await new_group("one")
        watch(here, sink, group_id)
        here.watch_topics(["job:7"], received.append)
        await eventually(lambda: sink.bodies)
        await connections.run(Group.objects.filter(pk=group_id).update, name="two")  # nobody says so
        assert await end_listeners() == 1
        await eventually(lambda: sink.bodies[-1] == shown("two"))
        assert received == [{RECONNECTED}]

    async def test_shows_the_final_state_when_connections_are_lost_again_and_again(self, here: hub.Hub) -> None:
        sink = Notebook()
        group_id = await new_group("0")
        watch(here, sink, group_id)
        for n in range(1, 31):
            if n % 10 == 5:
                await end_listeners()
            await connections.run(rename, group_id, str(n))
        await eventually(lambda: sink.bodies[-1] == shown("30"))

    async def test_polls_slowly_in_case_a_message_never_came(self) -> None:
        here = hub.Hub(rng=random.Random(7), poll_every_s=0.2)
        sink = Notebook()
        group_id = await new_group("one")
        watch(here, sink, group_id)
        await eventually(lambda: sink.bodies)
        await connections.run(Group.objects.filter(pk=group_id).update, name="two")  # nobody says so
        await eventually(lambda: sink.bodies[-1] == shown("two"))
        await here.stop()

    @pytest.mark.parametrize("was_there", [True, False])
    async def test_polls_often_while_there_is_no_redis(
        self, tmp_path: Path, settings: Settings, unused_tcp_port: int, was_there: bool
    ) -> None:
        """The slow poll alone, here of a quarter of an hour, would not come in this test."""
        settings.CHANNEL_LAYERS = configuration.channel_layers(f"redis://127.0.0.1:{unused_tcp_port}/0")
        sink, group_id = Notebook(), await new_group("one")
        with running_redis(unused_tcp_port, tmp_path) if was_there else nullcontext():
            here = hub.Hub(rng=random.Random(7), poll_every_s=900)
            if was_there:
                await here.ready()
            watch(here, sink, group_id)
            await eventually(lambda: sink.bodies)
        for name in ("two", "three"):
            await connections.run(Group.objects.filter(pk=group_id).update, name=name)  # nobody says so
            await eventually(partial(_shows, sink, name), within_s=30)
        await here.stop()

    async def test_finds_a_redis_again_that_forgot_everything(
        self, tmp_path: Path, settings: Settings, unused_tcp_port: int
    ) -> None:
        settings.CHANNEL_LAYERS = configuration.channel_layers(f"redis://127.0.0.1:{unused_tcp_port}/0")
        sink = Notebook()
        group_id = await new_group("one")
        with running_redis(unused_tcp_port, tmp_path):
            here = hub.current()
            await here.ready()
            watch(here, sink, group_id)
            await eventually(lambda: sink.bodies)
        await connections.run(rename, group_id, "two")
        with running_redis(unused_tcp_port, tmp_path):
            await eventually(lambda: sink.bodies[-1] == shown("two"), within_s=30)
            await connections.run(rename, group_id, "three")
            await eventually(lambda: sink.bodies[-1] == shown("three"), within_s=30)
            await here.stop()

    async def test_starts_without_a_redis_and_finds_it_later(
        self, tmp_path: Path, settings: Settings, unused_tcp_port: int
    ) -> None:
        settings.CHANNEL_LAYERS = configuration.channel_layers(f"redis://127.0.0.1:{unused_tcp_port}/0")
        received: list[set[str]] = []
        here = hub.current()
        here.watch_topics(["job:7"], received.append)
        await asyncio.sleep(0)
        with running_redis(unused_tcp_port, tmp_path):
            await eventually(lambda: received == [{RECONNECTED}], within_s=30)
            await here.stop()


class TestStopping:
    async def test_leaves_nothing_running(self) -> None:
        before = asyncio.all_tasks()
        here = hub.current()
        await here.ready()
        watch(here, Notebook(), await new_group("one"))
        await here.stop()
        assert asyncio.all_tasks() == before
        assert get_channel_layer()._task is None

    async def test_can_be_followed_by_a_new_hub(self) -> None:
        await hub.current().stop()
        sink = Notebook()
        watch(hub.current(), sink, await new_group("one"))
        await eventually(lambda: sink.bodies)
        await hub.current().stop()

    async def test_is_the_same_for_all_on_a_loop(self, here: hub.Hub) -> None:
        assert hub.current() is here
