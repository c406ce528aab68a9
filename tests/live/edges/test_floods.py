"""Pages that ask without end: what they get, and that everybody else goes on."""

import asyncio
import itertools
import json
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from typing import Any

import httpx
import pytest
from django.contrib.auth.models import User
from django.db import connection
from prometheus_client import REGISTRY
from pytest_django import DjangoDbBlocker, Settings
from websockets.asyncio.client import ClientConnection, connect
from websockets.sync.client import ClientConnection as SyncConnection, connect as sync_connect

from jobs import operations
from postgres import connections
from tests import farm
from tests.fuzz.crowd import as_page_of
from tests.live.edges.page import Page, logged_in
from tests.live.edges.test_socket import new_group
from tests.live.integration.support import eventually, reads
from tests.servers import Server, database_away, serve

pytestmark = pytest.mark.django_db(transaction=True)

TOO_FAST = 4429
_addresses = itertools.count(1)


@pytest.fixture
def address() -> str:
    """One that no other test has."""
    return f"192.0.2.{next(_addresses)}"


def limits(settings: Settings, **changed: float) -> None:
    """The limits of this test; what is not named is far away."""
    far: dict[str, float] = {
        "SOCKETS": 1000,
        "SOCKETS_PER_PERSON": 1000,
        "SOCKETS_PER_ADDRESS": 1000,
        "BURST": 1000,
        "PER_SECOND": 1000,
    }
    settings.LIVE = far | changed


def counted(name: str, **labels: str) -> float:
    """A number of this process."""
    return REGISTRY.get_sample_value(name, labels) or 0.0


async def is_refused(pages: type[Page], address: str) -> bool:
    """Whether a socket of this address is not let in."""
    try:
        await pages.open(address=address)
    except AssertionError as error:
        return error.args == ({"type": "websocket.close"},)
    return False


class TestOnePage:
    async def test_gets_its_burst_and_waits_for_the_rest_while_others_go_on(
        self, pages: type[Page], settings: Settings
    ) -> None:
        limits(settings, BURST=50, PER_SECOND=3)
        flooding, other = await pages.open(), await pages.open()
        delayed = counted("jobfarm_page_messages_delayed_total")
        for _ in range(9):
            await flooding.says(ping=True)
        for _ in range(6):  # the sixth is on credit
            assert await flooding.hears() == {"pong": True}
        await other.watches("test-group", group_id=await new_group("open"))
        assert (await other.hears())["state"] == "a"
        assert not await flooding.has_message()
        assert await flooding.hears() == {"pong": True}  # in time it goes on
        assert counted("jobfarm_page_messages_delayed_total") == delayed + 1

    async def test_that_repeats_a_watch_has_it_judged_only_so_often(
        self, pages: type[Page], settings: Settings
    ) -> None:
        limits(settings, BURST=110, PER_SECOND=0.1)
        page = await pages.open()
        group_id = await new_group("open")
        for number in range(15):
            await page.watches("test-group", f"w{number}", group_id=group_id)
        states = [(await page.hears())["state"] for _ in range(11)]
        assert states == [f"w{number}" for number in range(11)]
        assert not await page.has_message()

    async def test_whose_messages_pile_up_is_closed_and_counted(self, pages: type[Page], settings: Settings) -> None:
        limits(settings, BURST=50, PER_SECOND=10)
        page, other = await pages.open(), await pages.open()
        refused = counted("jobfarm_page_sockets_refused_total", reason="messages")
        for _ in range(40):
            await page.says(ping=True)
        while (message := await page.receives())["type"] == "websocket.send":
            assert json.loads(message["text"]) == {"pong": True}
        assert (message["type"], message["code"]) == ("websocket.close", TOO_FAST)
        assert counted("jobfarm_page_sockets_refused_total", reason="messages") == refused + 1
        assert await other.hears_nothing()

    async def test_with_all_it_may_watch_is_served_at_once_when_it_comes_back(
        self, pages: type[Page], settings: Settings
    ) -> None:
        """By the limits that the farm has: 200 parts, in messages of fifty, with versions and arguments."""
        assert settings.LIVE["BURST"] < 2 * 200
        page = await pages.open()
        group_id = await new_group("open")
        watch_request = {"name": "test-group", "args": {"group_id": group_id}, "version": "0" * 16, "ticket": "t" * 43}
        delayed = counted("jobfarm_page_messages_delayed_total")
        for start in range(0, 200, 50):
            await page.says(watch=[{"id": f"p{start + n}", **watch_request} for n in range(50)], language="en-GB")
        states = {(await page.hears())["state"] for _ in range(200)}
        assert len(states) == 200
        assert counted("jobfarm_page_messages_delayed_total") == delayed

    async def test_that_names_a_thousand_and_one_at_once_is_no_page(self, pages: type[Page]) -> None:
        page = await pages.open()
        await page.says(unwatch=["w"] * 1001)
        assert await page.is_closed_with() == 4400

    async def test_has_one_read_at_a_time_so_that_another_page_is_read_for(self, pages: type[Page]) -> None:
        """Four slow reads of one page had all threads, and everybody else waited."""
        flooding, other = await pages.open(), await pages.open()
        groups = [await new_group(f"open {number}") for number in range(8)]
        reads.may_go_on.clear()
        await flooding.says(
            watch=[{"id": str(each), "name": "test-group", "args": {"group_id": each}} for each in groups]
        )
        await eventually(lambda: reads.count == 1)
        await other.watches("test-log", log_id=1)  # its read waits at the brake as well, beside the other's
        await eventually(lambda: reads.count == 2)
        assert not await flooding.has_message()
        reads.may_go_on.set()
        assert {(await flooding.hears())["state"] for _ in groups} == {str(each) for each in groups}


class TestOnePerson:
    async def test_has_so_many_sockets_from_wherever_and_others_are_let_in(
        self, pages: type[Page], settings: Settings
    ) -> None:
        limits(settings, SOCKETS_PER_PERSON=2)
        ada, bob = [await logged_in(await connections.run(farm.user, name)) for name in ("ada", "bob")]
        opened = [await pages.open(ada, address=f"198.51.100.{number}") for number in range(2)]
        for page in opened:
            assert await page.hears_nothing()
        refused = counted("jobfarm_page_sockets_refused_total", reason="person")
        third = await pages.open(ada, address="198.51.100.3")
        assert await third.is_closed_with() == TOO_FAST
        assert counted("jobfarm_page_sockets_refused_total", reason="person") == refused + 1
        assert await (await pages.open(bob)).hears_nothing()
        assert await (await pages.open()).hears_nothing()
        await opened[0].close()
        assert await (await pages.open(ada)).hears_nothing()


class TestOneAddress:
    async def test_has_so_many_sockets_and_others_are_let_in(
        self, pages: type[Page], settings: Settings, address: str
    ) -> None:
        limits(settings, SOCKETS_PER_ADDRESS=3)
        first, _, _ = [await pages.open(address=address) for _ in range(3)]
        refused = counted("jobfarm_page_sockets_refused_total", reason="address")
        assert await is_refused(pages, address)
        assert counted("jobfarm_page_sockets_refused_total", reason="address") == refused + 1
        await pages.open(address=f"2001:db8::{next(_addresses)}")
        await pages.open()  # one without an address: of a UNIX socket
        assert await first.hears_nothing()

    async def test_of_ipv6_is_a_network(self, pages: type[Page], settings: Settings) -> None:
        limits(settings, SOCKETS_PER_ADDRESS=2)
        network = f"2001:db8:77:{next(_addresses)}"
        for host in (1, 2):
            await pages.open(address=f"{network}::{host}")
        assert await is_refused(pages, f"{network}::3")

    async def test_may_open_another_when_one_is_closed(
        self, pages: type[Page], settings: Settings, address: str
    ) -> None:
        limits(settings, SOCKETS_PER_ADDRESS=100)
        opened = [await pages.open(address=address) for _ in range(50)]
        settings.LIVE["SOCKETS_PER_ADDRESS"] = 50
        assert await is_refused(pages, address)
        await opened[0].close()
        assert not await is_refused(pages, address)

    async def test_that_comes_and_goes_without_end_is_refused_after_a_while(
        self, pages: type[Page], settings: Settings, address: str
    ) -> None:
        limits(settings, SOCKETS_PER_ADDRESS=5)
        for _ in range(5):
            await (await pages.open(address=address)).close()
        refused = counted("jobfarm_page_sockets_refused_total", reason="openings")
        assert await is_refused(pages, address)
        assert counted("jobfarm_page_sockets_refused_total", reason="openings") == refused + 1
        assert not await is_refused(pages, f"{address}0")

    async def test_whose_page_was_closed_for_its_flood_may_open_fewer(
        self, pages: type[Page], settings: Settings, address: str
    ) -> None:
        limits(settings, SOCKETS_PER_ADDRESS=10, BURST=50, PER_SECOND=10)
        flooding = await pages.open(address=address)
        for _ in range(20):
            await flooding.says(ping=True)
        while (await flooding.receives())["type"] != "websocket.close":
            pass
        assert await is_refused(pages, address)

    async def test_asks_for_so_much_in_all_its_pages(self, pages: type[Page], settings: Settings, address: str) -> None:
        """Twenty times what one may, and the last of each is on credit."""
        limits(settings, BURST=100, PER_SECOND=0.1)
        many = [await pages.open(address=address) for _ in range(25)]
        other = await pages.open(address=f"{address}0")
        for page in many:
            for _ in range(11):
                await page.says(ping=True)
        assert 20 * 10 <= sum([await _pongs(page) for page in many]) <= 20 * 10 + 25
        await other.says(ping=True)
        assert await other.hears() == {"pong": True}


async def _pongs(page: Page) -> int:
    count = 0
    while await page.has_message():
        await page.receives()
        count += 1
    return count


class TestAllTogether:
    async def test_are_so_many_in_a_process(self, pages: type[Page], settings: Settings, address: str) -> None:
        limits(settings, SOCKETS=2)
        for number in range(2):
            await pages.open(address=f"{address}{number}")
        refused = counted("jobfarm_page_sockets_refused_total", reason="process")
        assert await is_refused(pages, f"{address}2")
        assert counted("jobfarm_page_sockets_refused_total", reason="process") == refused + 1


@asynccontextmanager
async def page(server: Server, **headers: str) -> AsyncIterator[ClientConnection]:
    """A socket of nobody, or with headers of somebody's."""
    async with connect(
        f"{server.ws_url}/ws/live/", additional_headers={"Origin": server.url, **headers}, open_timeout=20
    ) as opened:
        yield opened


async def asks(opened: ClientConnection, **message: Any) -> dict[str, Any]:
    """Send a message; what comes next."""
    await opened.send(json.dumps(message))
    answer: dict[str, Any] = json.loads(await asyncio.wait_for(opened.recv(), 20))
    return answer


def says(opened: SyncConnection, **message: Any) -> dict[str, Any]:
    """Send a message; what comes next."""
    opened.send(json.dumps(message))
    answer: dict[str, Any] = json.loads(opened.recv(20))
    return answer


@pytest.fixture(scope="module")
def server(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Server]:
    """One with the limits that a farm has: a start takes two seconds of a processor."""
    with django_db_blocker.unblock():
        with serve() as made:
            yield made
        connection.close()


class TestAnonymousPages:
    def test_are_refused_what_needs_a_person_without_the_database(self, server: Server) -> None:
        """A database that is away cannot have been asked: a socket that has to ask it closes with 1011."""
        own = {"id": "a", "name": "imagegame-submission", "args": {"submission_id": 1, "job_id": 1}}
        shared = {"id": "b", "name": "job", "args": {"job_id": 1}}
        address, origin = f"{server.ws_url}/ws/live/", {"Origin": server.url}
        with sync_connect(address, additional_headers=origin, open_timeout=20) as stranger:
            assert says(stranger, ping=True) == {"pong": True}
            with database_away():
                assert says(stranger, watch=[own]) == {"gone": "a"}
                assert says(stranger, watch=[shared]) == {"gone": "b"}
                assert says(stranger, watch=[{**own, "args": {}}])["error"] == "bad_arguments"
                assert says(stranger, ping=True) == {"pong": True}


class TestALongMessage:
    def test_is_refused_by_its_announced_length_and_not_kept(self, server: Server) -> None:
        """Up to twenty megabytes were, of whoever came, until they were whole."""
        for path in ("/ws/live/", "/ws/live/?page=1"):
            with closing(_opened(server, path)) as raw:
                raw.sendall(b"\x81\xff" + (10 << 20).to_bytes(8, "big") + bytes(4))
                frame = raw.recv(100)
            assert (frame[0], int.from_bytes(frame[2:4], "big")) == (0x88, 1009), path


def _opened(server: Server, path: str) -> socket.socket:
    """A socket after its handshake, for frames that no library sends."""
    host, port = server.url.removeprefix("http://").split(":")
    raw = socket.create_connection((host, int(port)), timeout=20)
    lines = [
        *(f"GET {path} HTTP/1.1", f"Host: {host}:{port}", f"Origin: {server.url}", "Upgrade: websocket"),
        *("Connection: Upgrade", "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {'A' * 22}==", "", ""),
    ]
    raw.sendall("\r\n".join(lines).encode())
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += raw.recv(1)
    assert b" 101 " in answer
    return raw


FLOODING, BURST, PER_SECOND = 50, 220, 11
# A job by a link that somebody made up: each takes a look at the database.
INVENTED = {"id": "a", "name": "job", "args": {"job_id": 1}, "ticket": "x" * 43}


class Flood:
    """Sockets that repeat a watch as soon as they were answered; how often each was."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._tasks: list[asyncio.Task[None]] = []
        self.answers = [0] * FLOODING
        self.began = time.monotonic()

    async def __aenter__(self) -> "Flood":
        self._tasks = [asyncio.create_task(self._repeat(number)) for number in range(FLOODING)]
        await eventually(lambda: min(self.answers) > 0, within_s=60)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert not any(task.done() for task in self._tasks), "the flood ended by itself"
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def most(self) -> float:
        """How many answers one of them can have had: a message weighs ten, a wish one, and the last is on credit."""
        return (BURST + PER_SECOND * (time.monotonic() - self.began)) / 11 + 1

    async def _repeat(self, number: int) -> None:
        async with page(self._server) as opened:
            while True:
                await opened.send(json.dumps({"watch": [INVENTED]}))
                await opened.recv()
                self.answers[number] += 1


class TestFiftyFlooding:
    async def test_leave_everybody_else_their_answers(self) -> None:
        """They were answered as often as they asked, and the log-in page took seconds."""
        ada = await connections.run(User.objects.create_user, "ada")
        job = await connections.run(operations.submit, "chat", {}, owner=ada)
        limits = {"JOBFARM_PAGE_BURST": str(BURST), "JOBFARM_PAGE_PER_SECOND": str(PER_SECOND)}
        with serve(**limits) as server:
            mine = await connections.run(as_page_of, server)
            async with AsyncExitStack() as stack:
                flood = await stack.enter_async_context(Flood(server))
                client = await stack.enter_async_context(httpx.AsyncClient(base_url=server.url, timeout=20))
                for _ in range(50):
                    for path in ("/health/live", "/accounts/login/"):
                        assert (await client.get(path)).status_code == 200
                for number in range(5):
                    async with page(server, Cookie=mine["Cookie"]) as own:
                        watch_request = {"id": "mine", "name": "job-json", "args": {"job_id": job.pk}}
                        assert (await asks(own, watch=[watch_request]))["state"] == "mine", number
                assert max(flood.answers) <= flood.most
                before = sum(flood.answers)
                await eventually(lambda: sum(flood.answers) > before, within_s=60)  # it still goes on
            assert "Traceback" not in server.log
