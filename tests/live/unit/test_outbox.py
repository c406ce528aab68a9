"""What one slow or quick reader gets."""

import json
from typing import cast

from live.feeds import Feed, Watch
from live.outbox import Outbox
from live.registry import Item
from live.rendering import Page, Rendering


class Woken:
    """Stands where a feed is: notes that it was asked to go on."""

    def __init__(self) -> None:
        self.times = 0

    def wake(self) -> None:
        """Go on."""
        self.times += 1


def watch(outbox: Outbox, name: str = "w") -> tuple[Watch, Woken]:
    """A watch of which nobody reads."""
    woken = Woken()
    return Watch(watch_id=name, sink=outbox, feed=cast("Feed", woken), seen=None), woken


def rendering(version: str) -> Rendering:
    """A state."""
    return Rendering(version=version, kind="html", body=version, encoded=json.dumps(version))


def page(*texts: str) -> Page:
    """Items of a stream."""
    items = tuple(Item(cursor=text[:9], data=text) for text in texts)
    return Page(
        items=items, encoded=json.dumps([{"cursor": item.cursor, "data": item.data} for item in items])
    )


class TestOutbox:
    async def test_keeps_only_the_latest_of_each_state(self) -> None:
        outbox = Outbox()
        (one, _), (two, _) = watch(outbox, "1"), watch(outbox, "2")
        outbox.state(one, rendering("a"))
        outbox.state(two, rendering("b"))
        outbox.state(one, rendering("c"))
        assert [json.loads(message.text()) for message in await outbox.take()] == [
            {"state": "1", "version": "c", "html": "c"},
            {"state": "2", "version": "b", "html": "b"},
        ]

    async def test_keeps_all_of_a_stream_in_order(self) -> None:
        outbox = Outbox()
        one, _ = watch(outbox)
        assert outbox.append(one, page("a", "b"))
        assert outbox.append(one, page("c"))
        messages = [json.loads(message.text()) for message in await outbox.take()]
        assert [(each["append"], each["cursor"], len(each["items"])) for each in messages] == [
            ("w", "b", 2),
            ("w", "c", 1),
        ]

    async def test_pauses_a_stream_until_what_waits_was_sent(self) -> None:
        outbox = Outbox(backlog_bytes=100)
        one, woken = watch(outbox)
        assert not outbox.append(one, page("x" * 200))
        one.paused = True
        await outbox.take()
        taken_but_not_sent = woken.times
        outbox.state(one, rendering("a"))
        await outbox.take()
        assert (taken_but_not_sent, woken.times, one.paused) == (0, 1, False)

    async def test_says_that_it_is_gone_instead_of_what_was_pending(self) -> None:
        outbox = Outbox()
        one, _ = watch(outbox)
        outbox.state(one, rendering("a"))
        outbox.append(one, page("b"))
        outbox.gone(one)
        assert [json.loads(message.text()) for message in await outbox.take()] == [{"gone": "w"}]

    async def test_forgets_what_a_watcher_ended(self) -> None:
        outbox = Outbox(backlog_bytes=100)
        (one, woken), (two, _) = watch(outbox, "1"), watch(outbox, "2")
        outbox.append(one, page("x" * 200))
        outbox.forget(one)
        assert outbox.append(two, page("y"))
        await outbox.take()
        assert woken.times == 0

    async def test_writes_ids_as_json_whatever_they_hold(self) -> None:
        outbox = Outbox()
        one, _ = watch(outbox, 'a"\\</script>')
        outbox.state(one, rendering("v"))
        [message] = await outbox.take()
        assert json.loads(message.text())["state"] == 'a"\\</script>'
