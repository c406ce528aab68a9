"""In a process with a hub topics leave by its event loop, those of one moment together; elsewhere at once."""

import asyncio
import json

import pytest
from pytest_django import Settings

from live import configuration, hub, operations
from live.operations import home
from postgres import connections
from tests.live.integration.support import eventually, listening
from tests.ports import free_port

pytestmark = pytest.mark.django_db(transaction=True)
TOPICS = {f"job:{number}" for number in range(400)}


async def _touch_all() -> None:
    """Each topic by a call of its own, by threads that take turns."""
    await asyncio.gather(*(connections.run(operations.touch, topic) for topic in sorted(TOPICS)))


def _topics(payloads: list[str]) -> list[str]:
    return [topic for payload in payloads for topic in json.loads(payload)["message"]["topics"]]


@pytest.mark.usefixtures("layer")
async def test_what_many_threads_touch_arrives(here: hub.Hub) -> None:
    received: set[str] = set()
    here.watch_topics(["job:*"], received.update)
    await _touch_all()
    await eventually(lambda: received == TOPICS)


@pytest.mark.usefixtures("layer")
async def test_who_watches_in_the_same_process_hears_of_it_once(here: hub.Hub) -> None:
    """At once, and not again when the message comes back: each call is a read of a feed."""
    calls: list[set[str]] = []
    here.watch_topics(["job:1", "marker"], lambda touched: calls.append(set(touched)))
    await here.ready()
    await connections.run(operations.touch, "job:1")
    await home.leave(asyncio.get_running_loop())  # it has gone out; what follows comes behind it
    await connections.run(operations.touch, "marker")
    await eventually(lambda: {"marker"} in calls)
    assert calls == [{"job:1"}, {"marker"}]


async def test_who_watches_in_the_same_process_hears_of_it_without_any_channel_layer(settings: Settings) -> None:
    settings.CHANNEL_LAYERS = configuration.channel_layers(f"redis://127.0.0.1:{free_port()}/0")  # nobody there
    alone, received = hub.current(), set[str]()
    alone.watch_topics(["job:1"], received.update)
    await connections.run(operations.touch, "job:1")
    await eventually(lambda: received == {"job:1"})
    await alone.stop()


@pytest.mark.usefixtures("here")
async def test_what_many_threads_touch_goes_in_few_messages_each_topic_once() -> None:
    with listening() as published:
        await _touch_all()
        await home.leave(asyncio.get_running_loop())
        payloads = published()
    assert sorted(_topics(payloads)) == sorted(TOPICS)
    assert len(payloads) <= len(TOPICS) / 4


async def test_what_was_handed_over_has_gone_out_when_the_hub_has_stopped(here: hub.Hub) -> None:
    with listening() as published:
        await connections.run(operations.touch, "job:1")
        await connections.run(operations.touch, "job:2")
        await here.stop()
        assert _topics(published()) == ["job:1", "job:2"]


async def test_what_is_touched_when_the_hub_has_stopped_goes_at_once(here: hub.Hub) -> None:
    await here.stop()
    with listening() as published:
        await connections.run(operations.touch, "job:3")
        assert _topics(published()) == ["job:3"]
