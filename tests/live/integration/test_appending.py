"""Items that the process which stored them hands over: in order, once, and without a read where nobody needs one."""

import asyncio
import contextlib
import random
from functools import partial
from typing import Any

import pytest
from django.db import transaction

from live import hub, operations
from live.feeds import Watch
from live.registry import Item
from live.rendering import Page
from postgres import connections
from tests.live.integration.support import Notebook, append, eventually, reads, settled, write
from tests.live.integration.test_streams import all_have_all_of, new_log

pytestmark = pytest.mark.django_db(transaction=True)


class Pages(Notebook):
    """A sink that keeps what came together, too."""

    def __init__(self) -> None:
        super().__init__()
        self.pages: list[int] = []

    def append(self, watch: Watch, page: Page) -> bool:
        """Note how much came."""
        self.pages.append(len(page.items))
        return super().append(watch, page)


def watch(here: hub.Hub, sink: Notebook, log_id: int, **options: Any) -> Watch:
    """Watch a log whose lines may be handed over."""
    here_is = {"watch_id": "w", "audience": "public", "language": "en-gb", **options}
    return here.watch(sink, "test-appended", {"log_id": log_id}, **here_is)


async def up_to_date(here: hub.Hub, sink: Notebook, log_id: int) -> Watch:
    """Watch a log, and wait until what it holds was read."""
    watched = watch(here, sink, log_id)
    await settled(lambda: reads.count)
    return watched


class TestWhoIsUpToDate:
    async def test_gets_them_without_a_read_the_first_one_too(self, here: hub.Hub) -> None:
        sinks, log_id = [Notebook(), Notebook()], await new_log()
        for sink in sinks:
            await up_to_date(here, sink, log_id)
        before = reads.count
        for n in range(20):
            await connections.run(append, log_id, f"{n}.a", f"{n}.b")
        lines = [f"{n}.{letter}\n" for n in range(20) for letter in "ab"]
        await eventually(lambda: [sink.texts for sink in sinks] == [lines, lines])
        assert reads.count == before

    async def test_gets_the_first_at_once_also_right_after_a_read_that_found_nothing(
        self, here: hub.Hub, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("live.feeds._MERGE_S", 3600.0)
        sink, log_id = Notebook(), await new_log()
        await up_to_date(here, sink, log_id)
        await connections.run(append, log_id, "one")
        await eventually(lambda: sink.texts == ["one\n"])

    async def test_reads_what_was_stored_elsewhere_and_then_goes_on_without(self, here: hub.Hub) -> None:
        sink, log_id = Notebook(), await new_log()
        await up_to_date(here, sink, log_id)
        await connections.run(append, log_id, "one")
        await connections.run(write, log_id, "two")  # by its topic alone, as another process says it
        await eventually(lambda: sink.texts == ["one\n", "two\n"])
        before = await settled(lambda: reads.count)
        await connections.run(append, log_id, "three")
        await eventually(lambda: sink.texts == ["one\n", "two\n", "three\n"])
        assert reads.count == before

    async def test_gets_those_of_one_moment_together(self, here: hub.Hub) -> None:
        """As it is with reads: a page takes 50 messages a second, however many pieces there are."""
        sink, log_id = Pages(), await new_log()
        await up_to_date(here, sink, log_id)
        before = reads.count

        def write_many() -> None:
            for n in range(60):
                append(log_id, str(n))

        began_s = asyncio.get_running_loop().time()
        await connections.run(write_many)
        await eventually(lambda: sink.texts == [f"{n}\n" for n in range(60)])
        took_s = asyncio.get_running_loop().time() - began_s
        assert len(sink.pages) <= 2 + took_s / 0.02
        assert reads.count == before

    async def test_gets_nothing_of_what_was_rolled_back(self, here: hub.Hub) -> None:
        def half() -> None:
            with transaction.atomic():
                with contextlib.suppress(ZeroDivisionError), transaction.atomic():
                    append(log_id, "never")
                    raise ZeroDivisionError
                append(log_id, "kept")

        sink, log_id = Notebook(), await new_log()
        await up_to_date(here, sink, log_id)
        await connections.run(half)
        await eventually(lambda: sink.texts == ["kept\n"])
        await connections.run(append, log_id, "more")
        await eventually(lambda: sink.texts == ["kept\n", "more\n"])


class TestWhoIsNot:
    async def test_reads_what_it_lacks(self, here: hub.Hub) -> None:
        early, late, log_id = Notebook(), Notebook(), await new_log()
        await up_to_date(here, early, log_id)
        await connections.run(append, log_id, "one", "two")
        await eventually(lambda: len(early.texts) == 2)
        watch(here, late, log_id)
        await connections.run(append, log_id, "three")
        await eventually(lambda: early.texts == late.texts == ["one\n", "two\n", "three\n"])

    async def test_is_not_given_an_item_behind_a_gap(self, here: hub.Hub) -> None:
        sink, log_id = Notebook(), await new_log()
        await up_to_date(here, sink, log_id)
        item = Item(cursor="99999999", data="far\n", follows={"99999998"})
        await connections.run(operations.append, {f"log:{log_id}": item})
        await settled(lambda: reads.count)
        assert sink.texts == []
        await connections.run(append, log_id, "near")
        await eventually(lambda: sink.texts == ["near\n"])

    async def test_gets_them_once_while_a_read_is_under_way(self, here: hub.Hub) -> None:
        """The read holds, or does not hold, what is handed over meanwhile."""
        sink, log_id = Notebook(), await new_log()
        await up_to_date(here, sink, log_id)
        before = reads.count
        reads.may_go_on.clear()
        await connections.run(write, log_id, "one")
        await eventually(lambda: reads.count > before)
        await connections.run(append, log_id, "two")
        await connections.run(append, log_id, "three")
        reads.may_go_on.set()
        await eventually(lambda: len(sink.texts) >= 3)
        await settled(lambda: reads.count)
        assert sink.texts == ["one\n", "two\n", "three\n"]

    async def test_waits_while_it_takes_no_more_and_goes_on_where_it_was(self, here: hub.Hub) -> None:
        slow, quick, log_id = Notebook(), Notebook(), await new_log()
        slow.takes_more = False
        paused = await up_to_date(here, slow, log_id)
        await up_to_date(here, quick, log_id)
        for n in range(5):
            await connections.run(append, log_id, str(n))
        await eventually(lambda: len(quick.texts) == 5)
        assert slow.texts == ["0\n"]
        slow.takes_more = True
        paused.resume()
        await eventually(lambda: slow.texts == quick.texts)


@pytest.mark.usefixtures("layer")
async def test_nothing_is_lost_or_doubled_whoever_comes_and_goes_while_others_write(here: hub.Hub) -> None:
    ways = [append, append, write]
    log_id = await new_log()
    await all_have_all_of(log_id, rng=random.Random(11), watch=partial(watch, here), ways=ways)


class TestWhoWatchesSomethingNew:
    async def test_reads_nothing_while_all_is_handed_over(self, here: hub.Hub) -> None:
        sink, log_id = Notebook(), await new_log()
        before = reads.count
        watch(here, sink, log_id, quiet_s=2)
        await connections.run(append, log_id, "one")
        await eventually(lambda: sink.texts == ["one\n"])
        later, other = Notebook(), await new_log(2)
        watch(here, later, other, quiet_s=2.2)  # its read comes after that of the first would have
        await eventually(lambda: reads.count > before)
        assert reads.count == before + 1

    async def test_reads_after_a_while_what_was_stored_before(self, here: hub.Hub) -> None:
        sink, log_id = Notebook(), await new_log()
        await connections.run(append, log_id, "one")
        watch(here, sink, log_id, quiet_s=0.05)
        await eventually(lambda: sink.texts == ["one\n"])

    async def test_reads_at_once_what_is_stored_elsewhere_or_after_a_gap(self, here: hub.Hub) -> None:
        elsewhere, sink, log_id = Notebook(), Notebook(), await new_log()
        watch(here, elsewhere, log_id, quiet_s=3600)
        await connections.run(write, log_id, "one")
        await eventually(lambda: elsewhere.texts == ["one\n"])
        watch(here, sink, log_id, quiet_s=3600)
        await connections.run(append, log_id, "two")
        await eventually(lambda: [elsewhere.texts, sink.texts] == [["one\n", "two\n"]] * 2)

    async def test_reads_nothing_once_it_left(self, here: hub.Hub) -> None:
        sink, log_id = Notebook(), await new_log()
        before = reads.count
        watch(here, sink, log_id, quiet_s=0.05).close()
        stays = Notebook()
        watch(here, stays, await new_log(2), quiet_s=0.1)
        await eventually(lambda: reads.count > before)
        assert reads.count == before + 1


def stated(here: hub.Hub) -> Notebook:
    """Somebody who watches a state, and to whom nobody has said how it is."""
    sink = Notebook()
    here.watch(sink, "test-stated", {"prefix": "x"}, watch_id="w", audience="public", language="en-gb", quiet_s=3600)
    return sink


class TestAState:
    async def test_that_is_handed_over_is_not_read(self, here: hub.Hub) -> None:
        sink, other, before = stated(here), stated(here), reads.count
        for n in (3, 4, 4):
            await connections.run(operations.append, {"count:x": Item(cursor="", data={"count": n})})
        await eventually(lambda: [sink.bodies, other.bodies] == [['{"count": 3}', '{"count": 4}']] * 2)
        assert reads.count == before

    @pytest.mark.parametrize("are_together", [False, True])
    async def test_that_is_handed_over_late_is_none_any_more(self, here: hub.Hub, are_together: bool) -> None:
        """Of two who commit one after the other the second may be the first to say so."""
        sink = stated(here)
        for cursor, n in (("1.1", 4), ("1.0", 3)):
            if are_together:
                operations.append_committed({"count:x": Item(cursor=cursor, data={"count": n})})
            else:
                await connections.run(operations.append, {"count:x": Item(cursor=cursor, data={"count": n})})
        await eventually(lambda: bool(sink.bodies))
        await connections.run(operations.append, {"count:x": Item(cursor="2.0", data={"count": 5})})
        await eventually(lambda: '{"count": 5}' in sink.bodies)
        assert sink.bodies == ['{"count": 4}', '{"count": 5}']

    async def test_is_read_where_its_topic_is_touched_beside_or_a_read_is_under_way(self, here: hub.Hub) -> None:
        def both() -> None:
            with transaction.atomic():
                operations.append({"count:x": Item(cursor="", data={"count": 99})})
                operations.touch("count:x")

        sink, before = stated(here), reads.count
        await connections.run(both)
        await eventually(lambda: sink.bodies == ['{"count": 0}'])
        reads.may_go_on.clear()
        await connections.run(operations.touch, "count:x")
        await eventually(lambda: reads.count > before + 1)
        await connections.run(operations.append, {"count:x": Item(cursor="", data={"count": 99})})
        reads.may_go_on.set()
        await settled(lambda: reads.count)
        assert sink.bodies == ['{"count": 0}']
