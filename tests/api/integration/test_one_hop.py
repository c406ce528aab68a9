"""Django's part of the server: one hop into a thread, and nothing kept of it."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

import pytest
from django.core.signals import request_finished
from django.db import connection, connections
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import path
from pytest_django import Settings

from jobfarm.server import OneHop

pytestmark = pytest.mark.django_db(transaction=True)

seen: list[str] = []


def _asks(request: HttpRequest) -> HttpResponse:
    seen.append(threading.current_thread().name)
    with connection.cursor() as cursor:
        cursor.execute("SELECT 7")
        return HttpResponse(f"{request.body.decode()} {cursor.fetchone()}")


def _streams(request: HttpRequest) -> StreamingHttpResponse:
    _asks(request)

    async def pieces() -> Any:
        yield b"one "
        yield b"two"

    response: Any = StreamingHttpResponse(pieces())
    response._resource_closers.append(lambda: seen.append("closed"))
    return cast("StreamingHttpResponse", response)


def _breaks(request: HttpRequest) -> HttpResponse:
    _asks(request)
    raise ZeroDivisionError


urlpatterns = [path("asks", _asks), path("streams", _streams), path("breaks", _breaks)]


@pytest.fixture(autouse=True)
def _site(settings: Settings) -> Iterator[None]:
    settings.ROOT_URLCONF = __name__
    settings.MIDDLEWARE = []
    seen.clear()
    yield
    seen.clear()


def _scope(address: str) -> dict[str, Any]:
    head = {"type": "http", "method": "POST", "path": address, "raw_path": address.encode(), "headers": []}
    return {**head, "query_string": b"", "client": ("127.0.0.1", 5), "server": ("127.0.0.1", 80)}


async def _ask(handler: OneHop, address: str, on_sent: Callable[[], None] = lambda: None) -> tuple[int, bytes]:
    sent: list[Mapping[str, Any]] = []
    pending = [{"type": "http.request", "body": b"hello"}]

    async def receive() -> dict[str, Any]:
        if pending:
            return pending.pop()
        never: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        return await never

    async def send(message: Mapping[str, Any]) -> None:
        on_sent()
        sent.append(message)

    await handler(_scope(address), receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent)


class TestARequest:
    async def test_is_answered_from_a_thread_that_is_kept(self) -> None:
        handler = OneHop()
        for _ in range(20):
            assert await _ask(handler, "/asks") == (200, b"hello (7,)")
        assert len(seen) == 20
        # One that has just answered may not be back in its pool when the next request comes: then there is another.
        assert len(set(seen)) < len(seen) / 2

    @pytest.mark.parametrize("address", ["/asks", "/streams", "/breaks", "/nowhere"])
    async def test_has_given_its_connection_back_when_its_answer_is_sent(self, address: str) -> None:
        pool: Any = connections["default"].pool  # type: ignore[attr-defined]
        kept: list[int] = []

        def look() -> None:
            stats = pool.get_stats()
            kept.append(stats.get("pool_size", 0) - stats.get("pool_available", 0))

        before = len(kept)
        await _ask(OneHop(), address, look)
        assert set(kept[before:]) == {0}

    async def test_that_streams_is_closed_when_all_is_sent(self) -> None:
        sent: list[str] = []
        status, body = await _ask(OneHop(), "/streams", lambda: sent.extend(seen[-1:]))
        assert (status, body) == (200, b"one two")
        assert "closed" not in sent
        assert seen[-1] == "closed"

    async def test_ends_with_djangos_signal_once(self) -> None:
        ended: list[object] = []
        request_finished.connect(note := lambda **_: ended.append(1))
        try:
            await _ask(OneHop(), "/asks")
            await _ask(OneHop(), "/streams")
        finally:
            request_finished.disconnect(note)
        assert len(ended) == 2
