"""What one slow or quick reader gets."""

import json
from typing import cast

from live.feeds import Feed, Watch
from live.registry import Item
from live.rendering import Page, Rendering
from live.send_queue import SendQueue


class Woken:
    """Stands where a feed is: notes that it was asked to go on."""

    def __init__(self) -> None:
        self.times = 0

    def wake(self) -> None:
        """Go on."""
        self.times += 1


def watch(send_queue: SendQueue, name: str = "w") -> tuple[Watch, Woken]:
    """A watch of which nobody reads."""
    woken = Woken()
    return Watch(watch_id=name, sink=send_queue, feed=cast("Feed", woken), seen=None), woken


def rendering(version: str) -> Rendering:
    """A state."""
    return Rendering(version=version, kind="html", body=version, encoded=json.dumps(version))


def page(*texts: str) -> Page:
    """Items of a stream."""
    return Page(items=tuple(Item(cursor=text[:9], data=text) for text in texts))


class TestOutbox:
    async def test_keeps_only_the_latest_of_each_state(self) -> None:
        send_queue = SendQueue()
        (one, _), (two, _) = watch(send_queue, "1"), watch(send_queue, "2")
        send_queue.state(one, rendering("a"))
        send_queue.state(two, rendering("b"))
        send_queue.state(one, rendering("c"))
        assert [json.loads(message.text()) for message in await send_queue.take()] == [
            {"state": "1", "version": "c", "html": "c"},
            {"state": "2", "version": "b", "html": "b"},
        ]

    async def test_keeps_all_of_a_stream_in_order(self) -> None:
        send_queue = SendQueue()
        one, _ = watch(send_queue)
        assert send_queue.append(one, page("a", "b"))
        assert send_queue.append(one, page("c"))
        messages = [json.loads(message.text()) for message in await send_queue.take()]
        assert [(each["append"], each["cursor"], len(each["items"])) for each in messages] == [
            ("w", "b", 2),
            ("w", "c", 1),
        ]

    async def test_pauses_a_stream_until_what_waits_was_sent(self) -> None:
        send_queue = SendQueue(backlog_bytes=100)
        one, woken = watch(send_queue)
        assert not send_queue.append(one, page("x" * 200))
        one.paused = True
        await send_queue.take()
        taken_but_not_sent = woken.times
        send_queue.state(one, rendering("a"))
        await send_queue.take()
        assert (taken_but_not_sent, woken.times, one.paused) == (0, 1, False)

    async def test_says_that_it_is_gone_instead_of_what_was_pending(self) -> None:
        send_queue = SendQueue()
        one, _ = watch(send_queue)
        send_queue.state(one, rendering("a"))
        send_queue.append(one, page("b"))
        send_queue.gone(one)
        assert [json.loads(message.text()) for message in await send_queue.take()] == [{"gone": "w"}]

    async def test_forgets_what_a_watcher_ended(self) -> None:
        send_queue = SendQueue(backlog_bytes=100)
        (one, woken), (two, _) = watch(send_queue, "1"), watch(send_queue, "2")
        send_queue.append(one, page("x" * 200))
        send_queue.forget(one)
        assert send_queue.append(two, page("y"))
        await send_queue.take()
        assert woken.times == 0

    async def test_writes_ids_as_json_whatever_they_hold(self) -> None:
        send_queue = SendQueue()
        one, _ = watch(send_queue, 'a"\\</script>')
        send_queue.state(one, rendering("v"))
        [message] = await send_queue.take()
        assert json.loads(message.text())["state"] == 'a"\\</script>'
