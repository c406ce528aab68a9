"""The `chat` and `image` handlers against a small server that speaks the published OpenAI format."""

from __future__ import annotations

import base64
import io
import json
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from PIL import Image

from jobfarm_worker import BadOption
from jobfarm_worker.handlers import chat, image, named
from jobfarm_worker.handlers.servers import BrokenStreamError, ServerError, is_worth_retrying, retry_after_s
from tests.looped import looped
from tests.worker.unit import own_handlers
from tests.worker.unit.outside import Door
from tests.worker.unit.test_worker_demonstrators import run

QUICK = (0.01, 0.01, 0.01)
WORDS = ["Once", " upon", " a", " time", "."]


class ModelServer:
    """Answers each request with the next of its scripts, and remembers what it was asked."""

    def __init__(self) -> None:
        self.scripts: list[Any] = []
        self.requests: list[dict[str, Any]] = []
        self.url = ""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while (message := await receive()).get("more_body") or "body" in message:
            body += message["body"]
            if not message.get("more_body"):
                break
        if scope["path"] == "/picture":
            return await self._send(send, 200, png("JPEG"), content_type=b"image/jpeg")
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.requests.append({**json.loads(body), "path": scope["path"], "key": headers.get("authorization", "")})
        status, content, more = self.scripts.pop(0)
        is_stream = isinstance(content, list)
        if not is_stream:
            return await self._send(send, status, json.dumps(content).encode(), headers=more)
        await send({"type": "http.response.start", "status": 200, "headers": [SSE]})
        for event in content:
            await send({"type": "http.response.body", "body": event, "more_body": True})
        if more.get("whole", True):
            await send({"type": "http.response.body", "body": b""})
        return None

    async def _send(
        self, send: Any, status: int, body: bytes, *, content_type: bytes = b"application/json", headers: Any = ()
    ) -> None:
        request = [(b"content-type", content_type), *((k.encode(), v.encode()) for k, v in dict(headers).items())]
        await send({"type": "http.response.start", "status": status, "headers": request})
        await send({"type": "http.response.body", "body": body})


SSE = (b"content-type", b"text/event-stream")


def event(text: str | None, *, finish: str | None = None) -> bytes:
    delta = {} if text is None else {"content": text}
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "tiny", "choices": [choice]}
    return f"data: {json.dumps(chunk)}\n\n".encode()


def usage() -> bytes:
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "tiny", "choices": []}
    return f"data: {json.dumps(chunk)}\n\n".encode()


def whole(words: list[str]) -> tuple[int, list[bytes], dict[str, Any]]:
    return 200, [*map(event, words), event(None, finish="stop"), usage(), b"data: [DONE]\n\n"], {}


def broken(words: list[str]) -> tuple[int, list[bytes], dict[str, Any]]:
    return 200, list(map(event, words)), {"whole": False}


def error(status: int, **headers: str) -> tuple[int, dict[str, Any], dict[str, str]]:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return status, {"error": {"message": "Busy.", "type": "x", "param": None, "code": None}}, names


def png(form: str = "PNG") -> bytes:
    data = io.BytesIO()
    Image.new("RGB", (8, 4), (200, 20, 20)).save(data, format=form)
    return data.getvalue()


@pytest.fixture
def server(door: Door) -> ModelServer:
    model = ModelServer()
    door.app, model.url = model, door.url
    return model


def chatting(server: ModelServer, **environ: str) -> Any:
    return chat.handler(url=f"{server.url}/v1", environ=environ, delays_s=QUICK)


class TestChat:
    async def test_streams_the_tokens_and_returns_the_whole(self, server: ModelServer) -> None:
        server.scripts = [whole(WORDS)]
        handler = chatting(server, JOBFARM_LLM_MODEL="usual", OPENAI_API_KEY="secret")

        outcome, context = await run(handler, {"prompt": "A tale", "temperature": 0})

        assert context.texts == WORDS
        assert outcome.result == {"text": "".join(WORDS), "model": "tiny", "finish_reason": "stop"}
        assert server.requests == [
            {
                "messages": [{"role": "user", "content": "A tale"}],
                "model": "usual",
                "temperature": 0,
                "stream": True,
                "path": "/v1/chat/completions",
                "key": "Bearer secret",
            }
        ]

    async def test_takes_messages_and_the_model_of_the_payload(self, server: ModelServer) -> None:
        server.scripts = [whole(WORDS)]
        messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]
        await run(chatting(server), {"messages": messages, "model": "big"})
        assert [(requests["messages"], requests["model"]) for requests in server.requests] == [(messages, "big")]

    @pytest.mark.parametrize("trouble", [error(429), error(500), error(503), error(408), error(409)])
    async def test_asks_again_after_trouble_that_passes(self, server: ModelServer, trouble: Any) -> None:
        server.scripts = [trouble, trouble, trouble, whole(WORDS)]
        outcome, context = await run(chatting(server), {"prompt": "A tale"})
        assert (outcome.success, context.texts, len(server.requests)) == (True, WORDS, 4)

    async def test_gives_up_after_four_times_and_lets_the_farm_try_again(self, server: ModelServer) -> None:
        server.scripts = [error(503)] * 9
        outcome, _ = await run(chatting(server), {"prompt": "A tale"})
        assert (outcome.success, outcome.retryable, len(server.requests)) == (False, True, 4)
        assert outcome.error.startswith("The model server answered 503: ")

    @pytest.mark.parametrize("trouble", [error(400), error(404), error(429, x_should_retry="false")])
    async def test_fails_for_good_after_trouble_that_stays(self, server: ModelServer, trouble: Any) -> None:
        server.scripts = [trouble] * 9
        outcome, _ = await run(chatting(server), {"prompt": "A tale"})
        assert (outcome.success, outcome.retryable, len(server.requests)) == (False, False, 1)

    async def test_lets_the_server_decide_whether_to_ask_again(self, server: ModelServer) -> None:
        server.scripts = [error(400, x_should_retry="true"), whole(WORDS)]
        outcome, _ = await run(chatting(server), {"prompt": "A tale"})
        assert (outcome.success, len(server.requests)) == (True, 2)

    @pytest.mark.parametrize(
        "headers", [{"retry_after": "1"}, {"retry_after_ms": "300"}, {"retry_after": "9", "retry_after_ms": "250.5"}]
    )
    async def test_waits_as_long_as_the_server_asks(self, server: ModelServer, headers: dict[str, str]) -> None:
        server.scripts = [error(429, **headers), whole(WORDS)]
        started_s = time.monotonic()
        outcome, _ = await run(chatting(server), {"prompt": "A tale"})
        assert (outcome.success, len(server.requests)) == (True, 2)
        assert time.monotonic() - started_s >= 0.25  # and not the 0.01 s of this handler

    @pytest.mark.parametrize("header", ["121", "3600", "Sat, 22 Nov 2053 10:00:00 GMT"])
    async def test_leaves_a_longer_wait_to_the_farm(self, server: ModelServer, header: str) -> None:
        server.scripts = [error(503, retry_after=header)] * 9
        outcome, _ = await run(chatting(server), {"prompt": "A tale"})
        assert (outcome.success, outcome.retryable, len(server.requests)) == (False, True, 1)
        assert "503" in outcome.error
        assert "longer than the 120 s that a worker waits" in outcome.error

    async def test_asks_again_when_the_stream_broke_before_the_first_token(self, server: ModelServer) -> None:
        server.scripts = [broken([]), whole(WORDS)]
        outcome, context = await run(chatting(server), {"prompt": "A tale"})
        assert (outcome.success, context.texts) == (True, WORDS)

    async def test_fails_when_the_stream_broke_after_it(self, server: ModelServer) -> None:
        server.scripts = [broken(WORDS[:2]), whole(WORDS)]
        outcome, context = await run(chatting(server), {"prompt": "A tale"})
        assert (outcome.success, outcome.retryable, len(server.requests)) == (False, True, 1)
        assert context.texts == WORDS[:2]
        assert "broke off" in outcome.error

    async def test_fails_when_the_stream_ends_without_a_reason(self, server: ModelServer) -> None:
        server.scripts = [(200, [event("Once")], {})]
        outcome, _ = await run(chatting(server), {"prompt": "A tale"})
        assert (outcome.success, "broke off" in outcome.error) == (False, True)

    async def test_is_finished_where_the_server_says_done_and_not_why(self, server: ModelServer) -> None:
        server.scripts = [(200, [event("Once"), b"data: [DONE]\n\n"], {})]
        outcome, _ = await run(chatting(server), {"prompt": "A tale"})
        assert (outcome.result["text"], outcome.result["finish_reason"]) == ("Once", "stop")

    async def test_fails_on_an_error_in_the_stream(self, server: ModelServer) -> None:
        wrong = b'data: {"error": {"message": "out of memory"}}\n\n'
        server.scripts = [(200, [event("Once"), wrong], {})]
        outcome, _ = await run(chatting(server), {"prompt": "A tale"})
        assert (outcome.success, "out of memory" in outcome.error) == (False, True)

    async def test_fails_on_an_empty_answer(self, server: ModelServer) -> None:
        server.scripts = [whole([])]
        outcome, _ = await run(chatting(server), {"prompt": "A tale"})
        assert (outcome.success, outcome.error) == (False, "The model answered with nothing.")

    async def test_says_when_no_server_is_there(self) -> None:
        handler = chat.handler(url="http://127.0.0.1:9/v1", environ={}, delays_s=QUICK)
        outcome, _ = await run(handler, {"prompt": "A tale"})
        assert (outcome.success, outcome.retryable) == (False, True)
        assert outcome.error == "The model server failed: connection error."


class TestImage:
    @pytest.mark.parametrize("form", ["PNG", "JPEG"])
    async def test_stores_the_picture_as_a_png(self, server: ModelServer, form: str) -> None:
        picture = base64.b64encode(png(form)).decode()
        server.scripts = [error(429), (200, {"created": 1, "data": [{"b64_json": picture}]}, {})]
        handler = image.handler(url=f"{server.url}/v1", environ={}, delays_s=QUICK)

        outcome, context = await run(handler, {"prompt": "Red", "size": "512x256", "model": "painter"})

        assert outcome.result == {"file": "image.png", "model": "painter", "width": 8, "height": 4}
        assert [file.name for file in context.files] == ["image.png"]
        assert context.files[0].data.startswith(b"\x89PNG")
        request = {name: server.requests[-1][name] for name in ("prompt", "size", "model", "path")}
        assert request == {"prompt": "Red", "size": "512x256", "model": "painter", "path": "/v1/images/generations"}

    async def test_fetches_a_picture_that_is_elsewhere(self, server: ModelServer) -> None:
        server.scripts = [(200, {"created": 1, "data": [{"url": f"{server.url}/picture"}]}, {})]
        handler = image.handler(url=f"{server.url}/v1", environ={}, delays_s=QUICK)
        outcome, context = await run(handler, {"prompt": "Red"})
        assert (outcome.success, context.files[0].data[:4]) == (True, b"\x89PNG")

    @pytest.mark.parametrize(
        ("data", "sentence"),
        [
            ([], "no picture"),
            ([{"b64_json": "???"}], "not base64"),
            ([{"b64_json": base64.b64encode(b"text").decode()}], "no picture"),
            ([{"url": "http://127.0.0.1:9/x"}], "could not be fetched"),
        ],
    )
    async def test_fails_with_a_sentence_without_one(self, server: ModelServer, data: Any, sentence: str) -> None:
        server.scripts = [(200, {"created": 1, "data": data}, {})]
        handler = image.handler(url=f"{server.url}/v1", environ={}, delays_s=QUICK)
        outcome, context = await run(handler, {"prompt": "Red"})
        assert (outcome.success, sentence in outcome.error, context.files) == (False, True, [])


class TestNamed:
    def test_come_along_as_demonstrators_until_a_server_is_named(self) -> None:
        def modules(environ: dict[str, str]) -> list[str]:
            chosen = [next(iter(named.handlers(what, environ=environ).values())) for what in ("chat", "image")]
            return [function.__module__.rsplit(".", maxsplit=1)[-1] for function in chosen]

        assert modules({"OPENAI_API_KEY": "secret"}) == ["chat_demo", "image_demo"]
        assert modules({"JOBFARM_LLM_URL": "http://x/v1"}) == ["chat", "image_demo"]
        assert modules({"JOBFARM_IMAGE_URL": "http://x/v1"}) == ["chat_demo", "image"]
        assert modules({"OPENAI_BASE_URL": "http://x/v1"}) == ["chat", "image"]

    def test_may_serve_another_kind_and_be_functions_or_sets_of_ones_own(self) -> None:
        assert list(named.handlers("story=chat-demo", environ={})) == ["story"]
        assert named.handlers("shout=builtins:print", environ={}).get("shout") is print
        assert sorted(named.handlers("tests.worker.unit.own_handlers:handlers")) == sorted(own_handlers.handlers)

    @pytest.mark.parametrize(
        ("what", "sentence"),
        [
            ("chatt", "There is no handler 'chatt'"),
            ("no_such_module:x", "cannot be imported"),
            ("builtins:no_such_name", "has no no_such_name"),
            ("builtins:print", "say for which kind"),
            ("kind=builtins:__name__", "neither a function"),
            ("kind=tests.worker.unit.own_handlers:handlers", "neither a function"),
        ],
    )
    def test_that_name_nothing_are_refused_with_a_sentence(self, what: str, sentence: str) -> None:
        with pytest.raises(BadOption, match=sentence):
            named.handlers(what, environ={})


class TestRetryAfter:
    @looped(
        ("headers", "seconds"),
        [
            ({"retry-after": "7"}, 7),
            ({"retry-after": "2.5"}, 2.5),
            ({"retry-after-ms": "1500", "retry-after": "7"}, 1.5),
            ({"retry-after-ms": "soon", "retry-after": "7"}, 7),
            ({"retry-after": "Sat, 22 Nov 2025 10:00:30 GMT"}, 30),
            ({"retry-after": "Sat, 22 Nov 2025 10:00:30 GMT", "date": "Sat, 22 Nov 2025 10:00:10 GMT"}, 20),
            ({"retry-after": "Sat, 22 Nov 2025 09:00:00 GMT"}, None),
            ({"retry-after": "0"}, None),
            ({"retry-after": "-1"}, None),
            ({"retry-after": "nan"}, None),
            ({"retry-after": "later"}, None),
            ({}, None),
        ],
    )
    def test_is_read_as_seconds_or_as_a_date(self, headers: dict[str, str], seconds: float | None) -> None:
        assert retry_after_s(headers, now=datetime(2025, 11, 22, 10, 0, 0, tzinfo=UTC)) == seconds


def test_other_errors_are_not_worth_retrying() -> None:
    assert is_worth_retrying(BrokenStreamError("x"))
    assert not is_worth_retrying(ValueError("x"))
    assert not is_worth_retrying(ServerError("x"))
