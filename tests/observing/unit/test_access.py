"""The access log: a line for each request and for each end of a socket."""

import asyncio
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from django.urls import URLPattern, URLResolver, get_resolver

from core.asgi import App, Message, Receive, Scope, Send
from jobfarm import requests
from jobfarm.requests import Observed
from observing import fields, logs

SECRET = "Zm9vYmFyYmF6cXV4"


class Lines(logging.Handler):
    """What was logged, as JSON and as text."""

    def __init__(self) -> None:
        super().__init__()
        self.addFilter(logs.About())
        self.objects: list[dict[str, Any]] = []
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.objects.append(json.loads(logs.JsonLines().format(record)))
        self.texts.append(logs.TextLines().format(record))


@pytest.fixture
def lines() -> Iterator[Lines]:
    handler = Lines()
    requests.log.addHandler(handler)
    requests.log.setLevel(logging.INFO)
    yield handler
    requests.log.setLevel(logging.NOTSET)
    requests.log.removeHandler(handler)


def scope_of(path: str = "/jobs/7/", **headers: str) -> Scope:
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    query = f"lease=1-{SECRET}&key={SECRET}".encode()
    return {
        "type": "http", "method": "GET", "path": path, "root_path": "", "query_string": query,
        "headers": raw, "client": ("192.0.2.7", 1234),
    }  # fmt: skip


async def receive() -> Message:
    return {"type": "websocket.disconnect", "code": 1001}


async def drop(message: Message) -> None:
    """Nobody looks at what is sent."""


async def answers(scope: Scope, receive: Receive, send: Send) -> None:
    """Who called is found out in a thread, as in a request to Django."""
    await asyncio.to_thread(lambda: fields.note(user=3, token=5))
    await send({"type": "http.response.start", "status": 201, "headers": []})
    await send({"type": "http.response.body", "body": b"hello", "more_body": True})
    await send({"type": "http.response.body", "body": b" you"})


class TestARequest:
    async def test_is_one_line_that_says_who_asked_what_and_what_came_of_it(self, lines: Lines) -> None:
        await Observed(answers)(scope_of(x_request_id="from-the-proxy"), receive, drop)
        [line] = lines.objects
        assert 0 <= line.pop("ms") < 10_000
        for name in ("time", "pid", "message"):
            del line[name]
        assert line == {
            "level": "INFO", "logger": "jobfarm.access", "method": "GET", "path": "/jobs/7/", "status": 201,
            "bytes": 9, "client": "192.0.2.7", "request_id": "from-the-proxy", "job_id": 7, "user": 3, "token": 5,
        }  # fmt: skip

    async def test_is_one_line_of_text_as_well(self, lines: Lines) -> None:
        await Observed(answers)(scope_of(x_request_id="from-the-proxy"), receive, drop)
        [text] = lines.texts
        assert " INFO jobfarm.access: GET /jobs/7/ 201 " in text
        assert text.endswith("9 bytes from 192.0.2.7 [request_id=from-the-proxy job_id=7 user=3 token=5]")

    async def test_names_no_secret_of_its_query(self, lines: Lines) -> None:
        await Observed(answers)(scope_of(), receive, drop)
        assert SECRET not in lines.texts[0] + json.dumps(lines.objects)

    async def test_is_a_line_also_if_it_breaks_or_the_client_leaves(self, lines: Lines) -> None:
        async def breaks(scope: Scope, receive: Receive, send: Send) -> None:
            raise ZeroDivisionError

        async def leaves(scope: Scope, receive: Receive, send: Send) -> None:
            """Never answered."""

        with fields.about(), pytest.raises(ZeroDivisionError):
            await Observed(breaks)(scope_of(x_request_id="that-one-broke"), receive, drop)
        with fields.about():
            await Observed(leaves)(scope_of(), receive, drop)
        assert [line["status"] for line in lines.objects] == [500, 499]

    async def test_that_breaks_leaves_its_id_to_what_the_server_logs_of_it(self) -> None:
        async def breaks(scope: Scope, receive: Receive, send: Send) -> None:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await Observed(breaks)(scope_of(x_request_id="that-one-broke"), receive, drop)
        assert fields.current()["request_id"] == "that-one-broke"

    async def test_cannot_write_a_line_of_its_own(self, lines: Lines) -> None:
        await Observed(answers)(scope_of("/a\n2026-11-23 ERROR b" + "c" * 9999), receive, drop)
        assert "\n" not in lines.texts[0]
        assert len(lines.texts[0]) < 1200

    async def test_is_not_logged_above_that_level(self, lines: Lines) -> None:
        requests.log.setLevel(logging.WARNING)
        await Observed(answers)(scope_of(), receive, drop)
        assert lines.objects == []


class TestASocket:
    async def _serve(self, app: App, **headers: str) -> None:
        await requests.LoggedSocket(app)({**scope_of("/ws/worker/", **headers), "type": "websocket"}, receive, drop)

    async def test_is_a_line_when_it_opens_and_one_when_it_is_closed(self, lines: Lines) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await send({"type": "websocket.accept"})
            fields.note(worker="gpu-box")
            await receive()
            await send({"type": "websocket.close", "code": 1000})

        await self._serve(app, x_request_id="from-the-proxy")
        opened, closed = lines.objects
        assert (opened["method"], opened["path"], opened["request_id"]) == ("OPEN", "/ws/worker/", "from-the-proxy")
        assert (closed["method"], closed["code"], closed["request_id"]) == ("CLOSE", 1001, "from-the-proxy")
        assert (closed["worker"], closed["client"]) == ("gpu-box", "192.0.2.7")

    async def test_that_is_shown_out_says_with_which_code(self, lines: Lines) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await send({"type": "websocket.accept"})
            await send({"type": "websocket.close", "code": 4401})

        await self._serve(app)
        assert [line.get("code") for line in lines.objects] == [None, 4401]


class TestFields:
    async def test_what_outlives_a_request_is_about_nothing_of_it(self) -> None:
        async def current() -> dict[str, Any]:
            return dict(fields.current())

        with fields.about(request_id="of-the-first"):
            with fields.apart():
                task = asyncio.create_task(current())
            assert fields.current() == {"request_id": "of-the-first"}
        assert await task == {}


def test_no_address_that_lets_somebody_in_is_shown() -> None:
    routes = [
        route.replace("<base36:uidb36>", "1").replace("<str:key>", "<str:token>")
        for route in _routes(get_resolver())
        if "token>" in route or (route.startswith("accounts/") and "key>" in route)
    ]
    assert len(routes) >= 8
    for route in routes:
        path = "/" + route.replace("<str:token>", SECRET).replace("<str:name>", "a.png").replace("<int:fence>", "1")
        assert SECRET not in requests.shown(path)
    assert requests.shown("/jobs/7/files/a b.png") == "/jobs/7/files/a%20b.png"


def _routes(resolver: URLResolver, before: str = "") -> Iterator[str]:
    for entry in resolver.url_patterns:
        route = before + str(entry.pattern)
        if isinstance(entry, URLPattern):
            yield route
        elif not route.startswith("admin/"):
            yield from _routes(entry, route)
