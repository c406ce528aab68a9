"""Bodies that come too slowly, and what is counted of them; the server around them is of the tests."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from pytest_django import Settings

from core.asgi import App
from jobfarm import requests
from jobfarm.requests import BoundedBodies

Message = dict[str, Any]
SCOPE = {"type": "http", "method": "POST", "path": "/", "headers": [], "client": ("192.0.2.1", 7)}


class Client:
    """One request whose pieces come when the test sends them."""

    def __init__(self, app: BoundedBodies, **scope: Any) -> None:
        self.pieces: asyncio.Queue[Message] = asyncio.Queue()
        self.answer: list[Message] = []
        self.is_answered = asyncio.Event()
        self.done = asyncio.create_task(app({**SCOPE, **scope}, self.pieces.get, self._send))

    async def _send(self, message: Mapping[str, Any]) -> None:
        self.answer.append(dict(message))
        self.is_answered.set()

    def say(self, body: bytes, *, more: bool) -> None:
        self.pieces.put_nowait({"type": "http.request", "body": body, "more_body": more})

    async def answered(self) -> int:
        """Wait for an answer to what was sent so far."""
        await asyncio.wait_for(self.is_answered.wait(), 10)
        return await self.status()

    async def status(self) -> int:
        self.say(b"", more=False)  # what a refusal waits for
        await asyncio.wait_for(self.done, 10)
        return int(self.answer[0]["status"])


def bounded(app: App) -> BoundedBodies:
    return BoundedBodies(app, half_sent=Counter())


async def reads_all(_scope: Any, receive: Any, send: Any) -> None:
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def waits_for_its_client(_scope: Any, receive: Any, send: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is waited for comes too late."""
    monkeypatch.setattr(requests, "_AT_ONCE_S", 0)
    monkeypatch.setattr(requests, "_GRACE_S", 0)


async def settled() -> None:
    """All tasks have come as far as they can."""
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture(autouse=True)
def _few(settings: Settings) -> None:
    settings.JOBFARM = settings.JOBFARM | {"HALF_SENT_PER_ADDRESS": 2}


async def half_sent(app: BoundedBodies, **scope: Any) -> Client:
    client = Client(app, **scope)
    client.say(b"x", more=True)
    await asyncio.sleep(0)
    return client


async def counted(app: BoundedBodies, count: int) -> None:
    async with asyncio.timeout(10):
        while sum(app._half_sent.values()) != count:  # noqa: ASYNC110 (the counter tells nobody)
            await asyncio.sleep(0.01)


async def test_one_that_comes_at_less_than_the_least_rate_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "_GRACE_S", 0.3)
    app = bounded(reads_all)
    slow = await half_sent(app)
    assert (await slow.answered(), dict(app._half_sent)) == (408, {})


async def test_what_was_sent_buys_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """8 KiB/s: after 81,920 bytes there are ten seconds more."""
    monkeypatch.setattr(requests, "_GRACE_S", 0.3)
    app = bounded(reads_all)
    quick = Client(app)
    quick.say(b"x" * 81_920, more=True)
    await counted(app, 1)
    await asyncio.sleep(0.5)
    assert not quick.answer
    assert await quick.status() == 200


async def test_a_byte_now_and_then_buys_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time runs from the request's beginning: a piece does not begin it anew, however soon it follows."""
    monkeypatch.setattr(requests, "_GRACE_S", 0.3)
    app = bounded(reads_all)
    slow = await half_sent(app)
    async with asyncio.timeout(10):
        while not slow.done.done():
            slow.say(b"x", more=True)
            await asyncio.sleep(0.05)
    assert (await slow.answered(), dict(app._half_sent)) == (408, {})


async def test_one_that_became_too_large_is_refused(settings: Settings) -> None:
    """Without an announced length it is counted as it comes."""
    settings.JOBFARM = settings.JOBFARM | {"BODY_BYTES": 3}
    fits, over = Client(bounded(reads_all)), Client(bounded(reads_all))
    for client, last in ((fits, b"x"), (over, b"xx")):
        client.say(b"xx", more=True)
        client.say(last, more=False)
    assert [await fits.answered(), await over.answered()] == [200, 413]


async def test_one_too_many_of_an_address_is_refused_and_another_address_served() -> None:
    app = bounded(reads_all)
    held = [await half_sent(app) for _ in range(2)]
    await counted(app, 2)
    third = await half_sent(app)
    assert await third.answered() == 429
    other = await half_sent(app, client=("192.0.2.2", 7))
    await counted(app, 3)
    assert [await each.status() for each in [other, *held]] == [200] * 3
    assert not app._half_sent


async def test_ipv6_counts_by_the_network_that_a_customer_has() -> None:
    app = bounded(reads_all)
    held = [await half_sent(app, client=(f"2001:db8::{n}", 7)) for n in range(2)]
    await counted(app, 2)
    assert await (await half_sent(app, client=("2001:db8::ffff", 7))).answered() == 429
    assert [await each.status() for each in held] == [200] * 2


async def test_whole_ones_are_not_counted() -> None:
    app = bounded(reads_all)
    held = [await half_sent(app) for _ in range(2)]
    await counted(app, 2)
    assert [await Client(app).status() for _ in range(3)] == [200] * 3
    assert [await each.status() for each in held] == [200] * 2


async def test_one_that_is_whole_may_wait_for_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long poll reads on, to learn whether its client is gone."""
    app = bounded(waits_for_its_client)
    waiting = await half_sent(app)
    await counted(app, 1)
    no_time(monkeypatch)
    waiting.say(b"x", more=False)
    await settled()
    assert (waiting.answer, dict(app._half_sent)) == ([], {})
    waiting.pieces.put_nowait({"type": "http.disconnect"})
    await asyncio.wait_for(waiting.done, 10)
    assert waiting.answer[0]["status"] == 200


async def test_those_without_an_address_are_not_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a UNIX socket without a proxy that names addresses, all clients look alike."""
    monkeypatch.setattr(requests, "_AT_ONCE_S", 0)
    app = bounded(reads_all)
    held = [await half_sent(app, client=None) for _ in range(3)]
    await settled()
    assert [await each.status() for each in held] == [200] * 3


async def test_one_that_is_gone_is_forgotten() -> None:
    app = bounded(reads_all)
    gone = await half_sent(app)
    await counted(app, 1)
    gone.pieces.put_nowait({"type": "http.disconnect"})
    await asyncio.wait_for(gone.done, 10)
    assert not app._half_sent
