"""Which page sockets are let in, and what is remembered of their addresses; server and page are of the tests."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

import pytest
from pytest_django import Settings

from live import routing
from live.protocol import Bucket
from live.routing import SHARED, Admission

LONG_S = 60.0


class Clock:
    """Seconds, as the test wants them."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Socket:
    """One socket from its handshake on, as the server sees it."""

    def __init__(self, app: Admission, address: str | None, *, is_broken: bool = False) -> None:
        self.sent: list[str] = []
        self._is_broken = is_broken
        self._messages: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()
        self._messages.put_nowait({"type": "websocket.connect"})
        scope = {"type": "websocket", "client": address and (address, 7)}
        self.served = asyncio.create_task(app(scope, self._messages.get, self._send))

    async def _send(self, message: Mapping[str, Any]) -> None:
        if self._is_broken:
            raise OSError("gone")
        self.sent.append(message["type"])

    async def leave(self) -> None:
        """Go, and wait until that was noticed."""
        self._messages.put_nowait({"type": "websocket.disconnect"})
        await asyncio.wait_for(self.served, 10)


class Site:
    """Sockets, one after the other, and what the pages of an address share."""

    def __init__(self) -> None:
        self.admission = Admission(self._page)
        self.shared: list[Bucket | None] = []
        self._sockets: list[Socket] = []  # a task that nobody keeps may be collected with what it serves

    async def opens(self, address: str | None = "192.0.2.1", **how: bool) -> Socket:
        """One more socket, of which all is done that needs no waiting."""
        socket = Socket(self.admission, address, **how)
        self._sockets.append(socket)
        await settled()
        return socket

    async def _page(self, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        self.shared.append(scope.get(SHARED))
        await receive()
        await send({"type": "websocket.accept"})
        await receive()


async def settled() -> None:
    """All tasks have come as far as they can."""
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture
def site() -> Site:
    """One process without sockets."""
    return Site()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of the buckets and of the log."""
    made = Clock()
    monkeypatch.setattr(routing, "_now", made)
    return made


@pytest.fixture(autouse=True)
def _few(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of an address, and of openings one in 25 s; who is refused hears of it in a minute."""
    settings.LIVE = {"SOCKETS": 100, "SOCKETS_PER_ADDRESS": 2, "BURST": 1000, "PER_SECOND": 1}
    monkeypatch.setattr(routing, "_ANSWER_AFTER_S", LONG_S)


class TestRefusals:
    async def test_are_none_where_no_address_is_known_but_for_the_number_in_all(self, site: Site) -> None:
        sockets = [await site.opens(None) for _ in range(3)]
        assert [each.sent for each in sockets] == [["websocket.accept"]] * 3
        assert site.shared == [None] * 3

    async def test_come_late_and_not_to_a_page_that_is_gone(self, site: Site) -> None:
        for _ in range(2):
            await site.opens()
        refused = await site.opens()
        assert not refused.served.done()
        await refused.leave()
        assert refused.sent == []

    async def test_come_at_once_where_many_wait_for_theirs(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(routing, "_MOST_UNANSWERED", 1)
        for _ in range(2):
            await site.opens()
        waiting, at_once = await site.opens(), await site.opens()
        assert (waiting.sent, at_once.sent) == ([], ["websocket.close"])
        await waiting.leave()
        assert not (await site.opens()).served.done()

    async def test_come_when_their_time_is_over(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(routing, "_ANSWER_AFTER_S", 0)
        for _ in range(2):
            await site.opens()
        assert (await site.opens()).sent == ["websocket.close"]
        gone = await site.opens(is_broken=True)  # just then: that is no error of ours
        assert gone.served.done()
        assert gone.served.exception() is None

    async def test_are_a_line_a_minute(self, site: Site, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
        for _ in range(2):
            await site.opens()
        for clock.now in (0, 59, 60, 119):
            await site.opens()
        lines = [record for record in caplog.records if "are refused" in record.getMessage()]
        assert [record.levelno for record in lines] == [logging.WARNING] * 2
        assert "192.0.2.1 are refused (address, 2 open in all)" in lines[0].getMessage()


class TestAnAddress:
    async def test_is_forgotten_once_nothing_is_left_to_remember(self, site: Site, clock: Clock) -> None:
        socket = await site.opens()
        clock.now = 25
        await socket.leave()
        assert not site.admission._addresses

    async def test_is_remembered_until_it_may_open_as_many_again(self, site: Site, clock: Clock) -> None:
        for _ in range(2):
            await (await site.opens()).leave()
        refused = await site.opens()
        clock.now = 25
        assert ((await site.opens()).sent, refused.sent) == (["websocket.accept"], [])

    async def test_is_remembered_while_it_has_a_socket(self, site: Site, clock: Clock) -> None:
        _, other = await site.opens(), await site.opens()
        clock.now = 1000
        await other.leave()
        third, fourth = await site.opens(), await site.opens()
        assert (third.sent, fourth.sent) == (["websocket.accept"], [])

    async def test_is_remembered_until_what_its_pages_asked_for_is_paid(self, site: Site, clock: Clock) -> None:
        """Twenty times what one page may: 20,000 at once, and twenty a second after that."""
        socket = await site.opens()
        [bucket] = site.shared
        assert bucket is not None
        bucket.take(20_000, now=0)
        clock.now = 999
        await socket.leave()
        again = await site.opens()
        assert site.shared == [bucket, bucket]
        clock.now = 1000 + 25
        await again.leave()
        assert not site.admission._addresses

    async def test_that_has_a_socket_is_remembered_where_too_many_came_and_went(
        self, site: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(routing, "_MOST_REMEMBERED", 3)
        for _ in range(2):
            await site.opens()
        for number in (2, 3):
            await (await site.opens(f"192.0.2.{number}")).leave()
        await site.opens("192.0.2.4")
        assert list(site.admission._addresses) == ["192.0.2.1", "192.0.2.4"]
        assert (await site.opens()).sent == []
