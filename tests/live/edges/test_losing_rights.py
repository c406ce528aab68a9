"""Rights taken away at the worst moment: while they are judged, while what they show is rendered, before they are
listened for. Nothing that was rendered meanwhile reaches the page (promise 13)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg
import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from live import RECONNECTED, hub, operations
from live.feeds import Feed, StateFeed
from postgres import connections
from tests.live.edges.page import Page
from tests.live.edges.test_socket import ada_in, new_group
from tests.live.integration.support import eventually, reads, rename, verdicts, write

pytestmark = pytest.mark.django_db(transaction=True)


@asynccontextmanager
async def notified(topic: str) -> AsyncIterator[None]:
    """The block touches this topic; at its end the hub has told all who listen to it, in one turn of the loop."""
    arrived = asyncio.Event()
    listening = hub.current().watch_topics([topic], lambda _: arrived.set())
    yield
    await asyncio.wait_for(arrived.wait(), 10)
    listening.close()


async def loses(user: User, group_id: int) -> None:
    """The person leaves the group, and the hub has heard of it."""
    async with notified(f"user:{user.pk}"):
        await connections.run(user.groups.remove, group_id)


def feeds() -> list[Feed]:
    """Those that read now, and go on with that when nobody watches them any more."""
    return [feed for feed, _ in hub.current()._feeds.values()]


async def are_done(those: list[Feed]) -> None:
    """They have read, and handed on what they read."""
    await eventually(lambda: reads.count and all(feed._task is None for feed in those))


async def is_renamed(group_id: int, name: str) -> None:
    """The group has another name, and its one feed has handed that on."""
    [feed] = [feed for feed in feeds() if isinstance(feed, StateFeed)]
    before = feed._version
    await connections.run(rename, group_id, name)
    await eventually(lambda: feed._version != before and feed._task is None)


async def closed_group() -> tuple[int, User, Client]:
    """A group that its one member may see alone, the member, and their browser."""
    await hub.current().ready()  # who comes before is told that messages may be lost, and asks once more for that
    group_id = await new_group("closed")
    return group_id, *await ada_in(group_id)


async def shown_group(pages: type[Page]) -> tuple[int, User, Page]:
    """The same with a page of the member's, which shows the group."""
    group_id, user, client = await closed_group()
    page = await pages.open(client)
    await page.watches("test-judged", group_id=group_id)
    assert "closed" in (await page.hears())["html"]
    return group_id, user, page


async def renders(pages: type[Page], group_id: int, client: Client) -> tuple[Page, list[Feed]]:
    """A page that wants to show the group, and what reads it for that and does not come to an end."""
    page = await pages.open(client)
    reads.may_go_on.clear()
    await page.watches("test-judged", group_id=group_id)
    await eventually(lambda: reads.count == 1)
    return page, feeds()


def let_one_verdict_go() -> None:
    """Whoever waits for the brake goes on; the next one waits."""
    verdicts.may_go_on.set()
    verdicts.may_go_on.clear()


class TestRightsThatAreTakenAway:
    async def test_while_a_watch_is_judged_show_nothing(self, pages: type[Page]) -> None:
        group_id, user, client = await closed_group()
        page = await pages.open(client)
        verdicts.may_go_on.clear()
        await page.watches("test-judged", group_id=group_id)
        await eventually(lambda: verdicts.count == 1)  # it has read that she is a member
        await loses(user, group_id)
        let_one_verdict_go()
        await eventually(lambda: verdicts.count == 2)  # asked again, since they changed
        await are_done(feeds())
        assert not await page.has_message()
        verdicts.may_go_on.set()
        assert await page.hears() == {"gone": "a"}
        assert await page.hears_nothing()

    async def test_by_a_ticket_that_is_withdrawn_while_it_is_judged_show_nothing(self, pages: type[Page]) -> None:
        """Nobody is logged in: what may change the verdict is named by the wish alone."""
        group_id, _, _ = await closed_group()
        await new_group(f"ticket:{group_id}:sesame")
        page = await pages.open()
        verdicts.may_go_on.clear()
        await page.watches("test-judged", group_id=group_id, ticket="sesame")
        await eventually(lambda: verdicts.count == 1)
        async with notified(f"share:{group_id}"):
            await connections.run(Group.objects.filter(name__startswith="ticket").delete)
            await connections.run(operations.touch, f"share:{group_id}")
        verdicts.may_go_on.set()
        assert await page.hears() == {"gone": "a"}
        assert await page.hears_nothing()

    async def test_while_it_is_rendered_show_nothing(self, pages: type[Page]) -> None:
        group_id, user, client = await closed_group()
        page, reading = await renders(pages, group_id, client)
        await loses(user, group_id)
        assert await page.hears() == {"gone": "a"}
        reads.may_go_on.set()
        await are_done(reading)
        assert await page.hears_nothing()

    async def test_show_nothing_that_is_rendered_while_they_are_asked_again(self, pages: type[Page]) -> None:
        group_id, user, page = await shown_group(pages)
        verdicts.may_go_on.clear()
        await loses(user, group_id)
        await eventually(lambda: verdicts.count == 2)
        await is_renamed(group_id, "closed, changed")
        assert not await page.has_message()
        verdicts.may_go_on.set()
        assert await page.hears() == {"gone": "a"}
        assert await page.hears_nothing()

    async def test_while_they_are_asked_again_are_asked_once_more(self, pages: type[Page]) -> None:
        group_id, user, page = await shown_group(pages)
        verdicts.may_go_on.clear()
        async with notified(f"share:{group_id}"):
            await connections.run(operations.touch, f"share:{group_id}")
        await eventually(lambda: verdicts.count == 2)  # it has read that she still is a member
        await is_renamed(group_id, "closed, changed")
        await loses(user, group_id)
        let_one_verdict_go()
        await eventually(lambda: verdicts.count == 3)
        assert not await page.has_message()
        verdicts.may_go_on.set()
        assert await page.hears() == {"gone": "a"}

    async def test_while_they_are_asked_again_are_asked_once_more_though_messages_were_lost_since(
        self, pages: type[Page]
    ) -> None:
        group_id, user, page = await shown_group(pages)
        verdicts.may_go_on.clear()
        async with notified(f"share:{group_id}"):
            await connections.run(operations.touch, f"share:{group_id}")
        await eventually(lambda: verdicts.count == 2)  # it has read that she still is a member
        await is_renamed(group_id, "closed, changed")
        await loses(user, group_id)
        hub.current().notify({RECONNECTED})
        let_one_verdict_go()
        await eventually(lambda: verdicts.count == 3, within_s=3)
        assert not await page.has_message()
        verdicts.may_go_on.set()
        assert await page.hears() == {"gone": "a"}

    async def test_but_for_those_of_everybody_leave_what_was_rendered_for_members_unsaid(
        self, pages: type[Page]
    ) -> None:
        group_id, user, client = await closed_group()
        await connections.run(rename, group_id, "open")
        page, reading = await renders(pages, group_id, client)
        await loses(user, group_id)
        await eventually(lambda: reads.count == 2)  # for everybody; the one for members is still under way
        reads.may_go_on.set()
        assert (await page.hears())["html"] == '<b class="public">open</b>'
        await are_done(reading)
        assert await page.hears_nothing()

    async def test_but_for_those_of_everybody_drop_what_waits_for_the_verdict(self, pages: type[Page]) -> None:
        group_id, user, client = await closed_group()
        await connections.run(rename, group_id, "open")
        page = await pages.open(client)
        await page.watches("test-judged", group_id=group_id)
        assert (await page.hears())["html"] == '<b class="member">open</b>'
        verdicts.may_go_on.clear()
        await loses(user, group_id)
        await eventually(lambda: verdicts.count == 2)
        await is_renamed(group_id, "open, changed")
        verdicts.may_go_on.set()
        assert (await page.hears())["html"] == '<b class="public">open, changed</b>'
        assert await page.hears_nothing()

    async def test_and_given_back_bring_what_changed_meanwhile(self, pages: type[Page]) -> None:
        """What is held back while they are asked is not lost to who keeps them."""
        group_id, user, page = await shown_group(pages)
        verdicts.may_go_on.clear()
        async with notified(f"user:{user.pk}"):
            await connections.run(operations.touch, f"user:{user.pk}")
        await eventually(lambda: verdicts.count == 2)
        await is_renamed(group_id, "closed, changed")
        verdicts.may_go_on.set()
        assert (await page.hears())["html"] == '<b class="member">closed, changed</b>'


class TestALogOut:
    async def test_while_the_person_is_looked_up_leaves_nobody_logged_in(self, pages: type[Page]) -> None:
        """The session has been read, the person not yet, and nobody can know whose changes to listen for."""
        group_id, user, client = await closed_group()
        with psycopg.connect(connections.conninfo()) as other:
            other.execute("LOCK TABLE auth_user IN ACCESS EXCLUSIVE MODE")
            page = await pages.open(client)
            await page.watches("test-judged", group_id=group_id)
            await eventually(lambda: _waits_for_lock(other))
            async with notified(f"user:{user.pk}"):
                await connections.run(client.session.flush)
            other.rollback()
        assert await page.hears() == {"gone": "a"}


class TestAStream:
    async def test_that_is_watched_no_more_while_it_is_read_says_nothing(self, pages: type[Page]) -> None:
        await connections.run(Group.objects.create, name="log:1")
        await connections.run(write, 1, "one")
        page = await pages.open()
        reads.may_go_on.clear()
        await page.watches("test-log", log_id=1)
        await eventually(lambda: reads.count == 1)
        reading = feeds()
        await page.says(unwatch=["a"])
        assert await page.hears_nothing()
        reads.may_go_on.set()
        await are_done(reading)
        assert await page.hears_nothing()


def _waits_for_lock(other: psycopg.Connection) -> bool:
    row = other.execute(
        "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'auth_user'::regclass"
    ).fetchone()
    return row is not None and row[0] > 0
