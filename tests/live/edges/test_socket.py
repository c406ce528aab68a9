"""The browser's socket: what pages say, what they hear, and who may."""

import asyncio
import json
import logging
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.contrib.sessions.models import Session
from django.test import Client
from pytest_django import Settings

from live import hub, operations
from live.conversation import BROKEN, Conversation
from live.protocol import TOO_FAST
from postgres import connections
from tests import farm
from tests.live.edges.page import Page, logged_in
from tests.live.integration.support import eventually, reads, rename, settled, write

pytestmark = pytest.mark.django_db(transaction=True)


async def new_group(name: str) -> int:
    """A group's id. Names that begin with "open" are for everybody."""
    return (await connections.run(Group.objects.create, name=name)).pk


async def ada_in(group_id: int) -> tuple[User, Client]:
    """A person in the group, and their browser."""

    def make() -> User:
        user = User.objects.create_user(username="ada", password=farm.PASSWORD)
        user.groups.add(group_id)
        return user

    user = await connections.run(make)
    return user, await logged_in(user)


class TestWatching:
    async def test_brings_the_state_and_its_changes(self, pages: type[Page]) -> None:
        page = await pages.open()
        group_id = await new_group("open")
        await page.watches("test-group", group_id=group_id)
        first = await page.hears()
        await connections.run(rename, group_id, "open & <two>")
        second = await page.hears()
        assert {**first, "version": ""} == {"state": "a", "version": "", "html": '<b class="public">open</b>'}
        assert second["html"] == '<b class="public">open &amp; &lt;two&gt;</b>'
        assert first["version"] != second["version"]

    async def test_says_nothing_when_the_page_has_this_version(self, pages: type[Page]) -> None:
        group_id = await new_group("open")
        first, second = await pages.open(), await pages.open()
        await first.watches("test-group", group_id=group_id)
        version = (await first.hears())["version"]
        await second.watches("test-group", group_id=group_id, version=version)
        assert await second.hears_nothing()
        await connections.run(rename, group_id, "open two")
        assert (await second.hears())["html"] == '<b class="public">open two</b>'

    async def test_brings_a_stream_from_the_cursor_on(self, pages: type[Page]) -> None:
        await connections.run(Group.objects.create, name="log:1")
        await connections.run(write, 1, "one", "two")
        page = await pages.open()
        await page.watches("test-log", log_id=1)
        messages = await page.hears()
        assert [item["data"] for item in messages["items"]] == ["one\n", "two\n"]
        assert messages["cursor"] == messages["items"][-1]["cursor"]
        later = await pages.open()
        await later.watches("test-log", log_id=1, cursor=messages["items"][0]["cursor"])
        assert [item["data"] for item in (await later.hears())["items"]] == ["two\n"]

    async def test_ends_when_the_page_says_so(self, pages: type[Page]) -> None:
        page = await pages.open()
        group_id, other_id = await new_group("open"), await new_group("open too")
        await page.watches("test-group", "a", group_id=group_id)
        await page.hears()
        await page.says(unwatch=["a", "never watched"])
        await page.watches("test-group", "b", group_id=other_id)
        await page.hears()
        await connections.run(rename, group_id, "open changed")
        await connections.run(rename, other_id, "open too, changed")
        assert (await page.hears())["state"] == "b"

    async def test_sends_data_for_a_query_that_renders_json(self, pages: type[Page]) -> None:
        page = await pages.open()
        await page.watches("test-count")
        assert (await page.hears())["data"] == {"count": 0}

    async def test_leaves_nothing_behind_when_the_page_goes(self, pages: type[Page]) -> None:
        page = await pages.open()
        await page.watches("test-group", group_id=await new_group("open"))
        await page.hears()
        await page.close()
        here = hub.current()
        await eventually(lambda: not here._feeds and not here._subscriptions)

    async def test_warns_nobody_of_a_page_that_is_gone_before_its_answer(
        self, pages: type[Page], caplog: pytest.LogCaptureFixture
    ) -> None:
        """Uvicorn says so by an OSError without words. It is what closed tabs do, and nothing to look into."""

        async def gone(_: str) -> None:
            raise OSError

        talk = Conversation(session_key=None, send=gone)
        talk.receive(json.dumps({"ping": True}))
        assert await talk.run() == BROKEN
        assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []

    async def test_ends_when_what_it_watches_is_deleted(self, pages: type[Page]) -> None:
        page = await pages.open()
        group_id = await new_group("open")
        await page.watches("test-group", group_id=group_id)
        await page.hears()
        await connections.run(Group.objects.all().delete)
        await connections.run(operations.touch, f"group:{group_id}")
        assert await page.hears() == {"gone": "a"}
        here = hub.current()
        assert await page.hears_nothing()
        assert len(here._subscriptions._all) == 1  # the page's own, for what it may see


class TestRights:
    async def test_are_those_of_the_person_of_the_session(self, pages: type[Page]) -> None:
        group_id = await new_group("closed")
        _, client = await ada_in(group_id)
        page, stranger = await pages.open(client), await pages.open()
        await page.watches("test-group", group_id=group_id)
        await stranger.watches("test-group", group_id=group_id)
        assert (await page.hears())["html"] == '<b class="member">closed</b>'
        assert await stranger.hears() == {"gone": "a"}

    async def test_do_not_tell_what_is_not_there_from_what_is_not_allowed(self, pages: type[Page]) -> None:
        page = await pages.open()
        await page.watches("test-group", group_id=123456)
        assert await page.hears() == {"gone": "a"}

    async def test_come_with_a_ticket(self, pages: type[Page]) -> None:
        group_id = await new_group("closed")
        await new_group(f"ticket:{group_id}:sesame")
        page = await pages.open()
        await page.watches("test-group", group_id=group_id, ticket="sesame")
        assert (await page.hears())["html"] == '<b class="public">closed</b>'

    async def test_end_on_the_open_socket_when_the_ticket_is_withdrawn(self, pages: type[Page]) -> None:
        group_id = await new_group("closed")
        await new_group(f"ticket:{group_id}:sesame")
        page = await pages.open()
        await page.watches("test-group", group_id=group_id, ticket="sesame")
        await page.hears()
        await connections.run(Group.objects.filter(name__startswith="ticket").delete)
        await connections.run(operations.touch, f"share:{group_id}")
        assert await page.hears() == {"gone": "a"}

    async def test_end_on_the_open_socket_when_the_person_loses_them(self, pages: type[Page]) -> None:
        group_id, open_id = await new_group("closed"), await new_group("open")
        user, client = await ada_in(group_id)
        page = await pages.open(client)
        await page.watches("test-group", "a", group_id=group_id)
        await page.hears()
        await page.watches("test-group", "b", group_id=open_id)
        await page.hears()
        await connections.run(user.groups.clear)
        await connections.run(operations.touch, f"user:{user.pk}")
        assert await page.hears() == {"gone": "a"}
        await connections.run(rename, group_id, "closed, changed")
        await connections.run(rename, open_id, "open, changed")
        assert (await page.hears())["state"] == "b"

    async def test_change_the_audience_on_the_open_socket(self, pages: type[Page]) -> None:
        group_id = await new_group("open")
        user, client = await ada_in(group_id)
        page = await pages.open(client)
        await page.watches("test-group", group_id=group_id)
        assert (await page.hears())["html"] == '<b class="member">open</b>'
        await connections.run(user.groups.clear)
        await connections.run(operations.touch, f"user:{user.pk}")
        assert (await page.hears())["html"] == '<b class="public">open</b>'

    @pytest.mark.parametrize("change", ["inactive", "deleted", "password", "logged out"])
    async def test_close_the_socket_when_it_is_not_that_person_any_more(self, pages: type[Page], change: str) -> None:
        group_id = await new_group("closed")
        user, client = await ada_in(group_id)
        page = await pages.open(client)
        await page.watches("test-group", group_id=group_id)
        await page.hears()
        await connections.run(_CHANGES[change], user, client)
        await connections.run(operations.touch, f"user:{user.pk}")
        assert await page.is_closed_with() == 4401

    async def test_lose_nothing_of_a_stream_when_they_are_asked_again(self, pages: type[Page]) -> None:
        await connections.run(Group.objects.create, name="log:1")
        user, client = await ada_in(await new_group("closed"))
        page = await pages.open(client)
        await page.watches("test-log", log_id=1)
        for n in range(20):
            await connections.run(write, 1, f"{n}")
            await connections.run(operations.touch, f"user:{user.pk}")
        texts: list[str] = []
        while len(texts) < 20:
            texts += [item["data"] for item in (await page.hears())["items"]]
        assert texts == [f"{n}\n" for n in range(20)]

    async def test_leave_the_session_as_it_is(self, pages: type[Page], settings: Settings) -> None:
        """With a new SECRET_KEY a request renews the session's key; a socket could not tell the browser."""
        group_id = await new_group("closed")
        _, client = await ada_in(group_id)
        settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
        settings.SECRET_KEY = "another one, as long as a secret key should be, for whoever asks"
        page = await pages.open(client)
        await page.watches("test-group", group_id=group_id)
        assert (await page.hears())["html"] == '<b class="member">closed</b>'
        assert await connections.run(Session.objects.filter(pk=client.session.session_key).exists)

    async def test_stay_when_nothing_changed(self, pages: type[Page]) -> None:
        group_id = await new_group("closed")
        user, client = await ada_in(group_id)
        page = await pages.open(client)
        await page.watches("test-group", group_id=group_id)
        await page.hears()
        await connections.run(operations.touch, f"user:{user.pk}")
        assert await page.hears_nothing()

    async def test_of_another_site_are_none(self, pages: type[Page]) -> None:
        with pytest.raises(AssertionError):
            await pages.open(origin="https://evil.example")


def _deactivate(user: User, _: Client) -> None:
    User.objects.filter(pk=user.pk).update(is_active=False)


def _delete(user: User, _: Client) -> None:
    User.objects.filter(pk=user.pk).delete()


def _change_password(user: User, _: Client) -> None:
    user.set_password("another horse battery")
    user.save()


def _log_out(_: User, client: Client) -> None:
    client.session.flush()


_CHANGES = {"inactive": _deactivate, "deleted": _delete, "password": _change_password, "logged out": _log_out}

GARBAGE = [
    "",
    "garbage",
    "null",
    "7",
    "[]",
    "{}",
    '{"hello": 1}',
    '{"watch": {}}',
    '{"watch": [7]}',
    '{"watch": [{}]}',
    '{"watch": [{"id": 7, "name": "test-count"}]}',
    '{"watch": [{"id": "", "name": "test-count"}]}',
    '{"watch": [{"id": "' + "x" * 65 + '", "name": "test-count"}]}',
    '{"watch": [{"id": "a", "name": "test-count", "args": {}, "ticket": 7}]}',
    '{"unwatch": [7]}',
    "[" * 60_000,
    '{"ping": "' + "x" * 65_536 + '"}',
    '{"ping": NaN, "watch": 1e999}',
]

BAD_WATCHES: list[tuple[dict[str, Any], str]] = [
    ({}, "unknown_query"),
    ({"name": 7}, "unknown_query"),
    ({"name": ["test-group"]}, "unknown_query"),
    ({"name": "nothing", "args": {}}, "unknown_query"),
    ({"name": "test-group"}, "bad_arguments"),
    ({"name": "test-group", "args": []}, "bad_arguments"),
    ({"name": "test-group", "args": {}}, "bad_arguments"),
    ({"name": "test-group", "args": {"group_id": "7"}}, "bad_arguments"),
    ({"name": "test-group", "args": {"group_id": True}}, "bad_arguments"),
    ({"name": "test-group", "args": {"group_id": 1.5}}, "bad_arguments"),
    ({"name": "test-group", "args": {"group_id": None}}, "bad_arguments"),
    ({"name": "test-group", "args": {"group_id": 10**30}}, "bad_arguments"),
    ({"name": "test-group", "args": {"group_id": 1, "other": 1}}, "bad_arguments"),
    ({"name": "test-count", "args": {"prefix": "x" * 1001}}, "bad_arguments"),
    ({"name": "test-count", "args": {"prefix": "\x00"}}, "bad_arguments"),
    ({"name": "test-count", "args": {"prefix": "\ud800"}}, "bad_arguments"),
]


class TestBadInput:
    @pytest.mark.parametrize("text", GARBAGE)
    async def test_that_is_garbage_closes_the_socket(
        self, pages: type[Page], text: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        page = await pages.open()
        await page.says_text(text)
        assert await page.is_closed_with() == 4400
        assert not [record for record in caplog.records if record.exc_info]

    async def test_that_is_binary_closes_the_socket(self, pages: type[Page]) -> None:
        page = await pages.open()
        await page.says_bytes(b"\x00\xff")
        assert await page.is_closed_with() == 4400

    @pytest.mark.parametrize(("watch", "code"), BAD_WATCHES)
    async def test_in_a_watch_request_is_refused_with_a_sentence(
        self, pages: type[Page], watch: dict[str, Any], code: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        page = await pages.open()
        await page.says(watch=[{"id": "a", **watch}])
        answer = await page.hears()
        assert (answer["refused"], answer["error"], bool(answer["message"])) == ("a", code, True)
        assert await page.hears_nothing()
        assert not [record for record in caplog.records if record.exc_info]

    @pytest.mark.parametrize("cursor", ["garbage", "-1", "x" * 200, "\x00", "1; --"])
    async def test_in_a_cursor_brings_no_error(
        self, pages: type[Page], cursor: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        page = await pages.open()
        await page.watches("test-log", log_id=1, cursor=cursor)
        await eventually(lambda: reads.count)
        assert await page.hears_nothing()
        assert not [record for record in caplog.records if record.exc_info]

    async def test_beyond_200_watches_is_refused(self, pages: type[Page]) -> None:
        page = await pages.open()
        group_id = await new_group("open")
        watches = [{"id": f"w{n}", "name": "test-group", "args": {"group_id": group_id}} for n in range(202)]
        await page.says(watch=watches)
        messages = [await page.hears() for _ in range(202)]
        refused = [(each["refused"], each["error"]) for each in messages if "refused" in each]
        assert refused == [("w200", "too_many_watches"), ("w201", "too_many_watches")]
        await page.says(unwatch=["w0"])
        await page.watches("test-group", "again", group_id=group_id)
        assert (await page.hears())["state"] == "again"

    async def test_that_repeats_an_id_leaves_one_watch(self, pages: type[Page]) -> None:
        page = await pages.open()
        first, second = await new_group("open one"), await new_group("open two")
        watches = [{"id": "a", "name": "test-group", "args": {"group_id": each}} for each in (first, second)]
        await page.says(watch=watches)
        assert (await page.hears())["html"] == '<b class="public">open two</b>'
        await connections.run(rename, first, "open changed")
        assert await page.hears_nothing()

    async def test_that_floods_closes_the_socket(self, pages: type[Page], settings: Settings) -> None:
        page = await pages.open()
        reads.may_go_on.clear()
        await page.watches("test-count")  # whose rights take a while now, so that the rest has to wait
        for _ in range(2 * settings.LIVE["BURST"]):
            await page.says(ping=True)
        code = await page.is_closed_with()
        reads.may_go_on.set()
        assert code == TOO_FAST

    async def test_does_not_disturb_the_other_pages(self, pages: type[Page]) -> None:
        bad, good = await pages.open(), await pages.open()
        await bad.says_text("garbage")
        group_id = await new_group("open")
        await good.watches("test-group", group_id=group_id)
        assert (await good.hears())["state"] == "a"


class TestLanguages:
    async def test_are_those_of_the_site(self, pages: type[Page], settings: Settings) -> None:
        group_id = await new_group("open")
        page = await pages.open()
        watch = {"name": "test-group", "args": {"group_id": group_id}}
        for number, language in enumerate(["de", "klingon", 7, None]):
            await page.says(watch=[{"id": str(number), **watch}], language=language)
            await page.hears()
        languages = sorted(key[3] for key in hub.current()._feeds)
        assert languages == ["de", settings.LANGUAGE_CODE]


class TestManyPages:
    async def test_share_one_read_for_each_change(self, pages: type[Page]) -> None:
        group_id = await new_group("open 0")
        many = [await pages.open() for _ in range(40)]
        for page in many:
            await page.watches("test-group", group_id=group_id)
        for page in many:
            await page.hears()
        before = await settled(lambda: reads.count)  # one who came while it was read has it read once more
        await connections.run(rename, group_id, "open 1")
        messages = await asyncio.gather(*(page.hears() for page in many))
        assert {json.dumps(each) for each in messages} == {json.dumps(messages[0])}
        assert reads.count - before == 1
