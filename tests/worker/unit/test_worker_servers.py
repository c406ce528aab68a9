"""Calls of OpenAI-compatible servers: what is sent, however the answer is cut, and every way to get none."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from jobfarm_worker.handlers import pooling
from jobfarm_worker.handlers.servers import (
    BrokenStreamError,
    Request,
    Server,
    ServerError,
    StatusError,
    UnansweredError,
)
from tests.worker.unit.outside import Door, until

CALL = Request("chat/completions", {"model": "tiny"})
MOVED = {"/moved/chat/completions": b"", "/lost/chat/completions": b"http://127.0.0.1:9"}  # where nobody listens
Answering = Callable[[Any], Awaitable[None]]


class World:
    """Answers each call as the test has it, and remembers it."""

    def __init__(self) -> None:
        self.pieces: Sequence[bytes] = [b"{}"]
        self.status = 200
        self.headers: list[tuple[bytes, bytes]] = []
        self.is_silent = False
        self.is_endless = False
        self.left: list[str] = []
        self.calls: list[dict[str, Any]] = []
        self.url = ""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while (message := await receive()).get("more_body"):
            body += message["body"]
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        call = {"path": scope["path"], "headers": headers, "body": body + message["body"], "from": scope["client"]}
        self.calls.append(call)
        if self.is_silent:
            await receive()  # until the caller goes
            return
        status, headers_sent = self.status, self.headers
        if (place := MOVED.get(scope["path"])) is not None:
            status, headers_sent = 307, [(b"location", place + b"/v1/chat/completions")]
        await send({"type": "http.response.start", "status": status, "headers": headers_sent})
        for piece in self.pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            await asyncio.sleep(0)
        if self.is_endless:
            self.left.append((await receive())["type"])
        await send({"type": "http.response.body", "body": b""})


@pytest.fixture
def world(door: Door) -> World:
    there = World()
    door.app, there.url = there, door.url
    return there


def server(url: str, **environ: str) -> Server:
    return Server.named(url, key="JOBFARM_LLM_KEY", environ=environ)


async def streamed(at: Server) -> list[Any]:
    connection = at.connection()
    return [chunk async for chunk in connection.stream(CALL)]


async def posted(at: Server) -> Any:
    connection = at.connection()
    return (await connection.post(CALL)).json()


class TestACall:
    async def test_has_the_key_and_the_organisation_of_the_environment(self, world: World) -> None:
        names = {"OPENAI_API_KEY": "other", "OPENAI_ORG_ID": "org", "OPENAI_PROJECT_ID": "house"}
        await posted(server(f"{world.url}/v1/", JOBFARM_LLM_KEY="secret\n", **names))
        call = world.calls[0]
        assert (call["path"], json.loads(call["body"])) == ("/v1/chat/completions", {"model": "tiny"})
        sent = [call["headers"].get(name) for name in ("authorization", "openai-organization", "openai-project")]
        assert sent == ["Bearer secret", "org", "house"]

    @pytest.mark.parametrize("variable", ["http_proxy", "all_proxy"])
    @pytest.mark.parametrize("begin", ["http://", ""])
    async def test_goes_through_the_proxy_of_the_environment(
        self, world: World, monkeypatch: pytest.MonkeyPatch, variable: str, begin: str
    ) -> None:
        monkeypatch.setenv(variable, begin + world.url.removeprefix("http://"))
        assert await posted(server("http://models.invalid/v1")) == {}
        assert world.calls[0]["headers"]["host"] == "models.invalid"
        monkeypatch.setenv("no_proxy", "models.invalid")
        with pytest.raises(UnansweredError):
            await posted(server("http://models.invalid/v1"))

    async def test_fails_with_a_proxy_that_speaks_something_else(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("all_proxy", world.url.replace("http://", "socks5://"))
        with pytest.raises(UnansweredError):
            await posted(server("http://models.invalid/v1"))

    async def test_keeps_its_key_beside_passwords_for_the_same_machine(
        self, world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        (tmp_path / "netrc").write_text("machine 127.0.0.1 login somebody password else\n")
        monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
        await posted(server(f"{world.url}/v1", JOBFARM_LLM_KEY="secret"))
        assert world.calls[0]["headers"]["authorization"] == "Bearer secret"

    async def test_follows_to_where_the_server_has_moved(self, world: World) -> None:
        assert await posted(server(f"{world.url}/moved")) == {}
        assert json.loads(world.calls[1]["body"]) == {"model": "tiny"}

    async def test_fails_once_where_a_connection_that_is_kept_leads_to_a_server_that_is_not_there(
        self, world: World
    ) -> None:
        for _ in range(2):
            with pytest.raises(UnansweredError):
                await asyncio.wait_for(posted(server(f"{world.url}/lost")), 5)
        assert len(world.calls) == 2

    async def test_of_one_job_carries_no_cookie_of_another_answer(self, world: World) -> None:
        world.headers = [(b"set-cookie", b"of=somebody; Path=/")]
        connection = server(f"{world.url}/v1").connection()
        await connection.post(CALL)
        await connection.post(CALL)
        assert "cookie" not in world.calls[1]["headers"]

    async def test_with_a_file_is_a_form(self, world: World) -> None:
        body = {"model": "tiny", "stream": True, "include": ["logprobs", "x"], "chunking": {"type": "auto"}}
        request = Request("audio/transcriptions", {**body, "prompt": None}, file=("sound.mp3", b"\x00\xff"))
        connection = server(f"{world.url}/v1").connection()
        await connection.post(request)
        call = world.calls[0]
        assert call["headers"]["content-type"].startswith("multipart/form-data; boundary=")
        fields = [part.split(b"\r\n\r\n", 1) for part in call["body"].split(b"--")[1:] if b"\r\n\r\n" in part]
        sent = [(head.split(b'name="')[1].split(b'"')[0], value.strip()) for head, value in fields]
        assert sent == [
            (b"model", b"tiny"), (b"stream", b"true"), (b"include[]", b"logprobs"), (b"include[]", b"x"),
            (b"chunking[type]", b"auto"), (b"file", b"\x00\xff"),
        ]  # fmt: skip


class TestAStream:
    @pytest.mark.parametrize("size", [1, 2, 7, 1000])
    @pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
    async def test_is_read_however_it_is_cut_and_whichever_way_its_lines_end(
        self, world: World, size: int, end: str
    ) -> None:
        lines = [
            ": hello",
            "retry: 5",
            "",
            'data:{"a": "ö€😀"}',
            "",
            "event: x",
            'data: {"b":',
            "data: 2}",
            "",
            "data: 7",
        ]
        text = "\ufeff" + "".join(f"{line}{end}" for line in [*lines, "", "data: [DONE]", "", 'data: {"c": 3}', ""])
        data = text.encode()
        world.pieces = [data[start : start + size] for start in range(0, len(data), size)]
        assert await streamed(server(f"{world.url}/v1")) == [{"a": "ö€😀"}, {"b": 2}]

    async def test_may_have_an_event_of_megabytes(self, world: World) -> None:
        picture = "x" * 3_000_000
        world.pieces = [f'data: {{"b64": "{picture}"}}\n\n'.encode()]
        assert await streamed(server(f"{world.url}/v1")) == [{"b64": picture}]

    @pytest.mark.parametrize(
        ("piece", "why"),
        [
            (b"data: {oh}\n\n", "JSONDecodeError"),
            (b'data: {"error": {"message": "out of memory"}}\n\n', "out of memory"),
            (b'data: {"error": "out of memory"}\n\n', "out of memory"),
            (b'data: {"error": {"code": 7}}\n\n', "An error occurred"),
        ],
    )
    async def test_breaks_off_with_a_reason(self, world: World, piece: bytes, why: str) -> None:
        world.pieces = [b'data: {"a": 1}\n\n', piece]
        with pytest.raises(BrokenStreamError, match=why):
            await streamed(server(f"{world.url}/v1"))

    async def test_that_is_refused_has_a_status(self, world: World) -> None:
        world.status, world.pieces = 429, [b'{"error": {"message": "Busy."}}']
        world.headers = [(b"Retry-After", b"7")]
        with pytest.raises(StatusError) as refused:
            await streamed(server(f"{world.url}/v1"))
        assert (refused.value.status, refused.value.headers["retry-after"]) == (429, "7")

    async def test_that_has_ended_leaves_its_connection_to_the_next(self, world: World) -> None:
        at = server(f"{world.url}/v1")
        for last in ([b"data: [DONE]\n\n"], []):
            world.pieces = [b'data: {"a": 1}\n\n', *last]
            assert await streamed(at) == [{"a": 1}]
        world.pieces = [b"{}"]
        await posted(at)
        assert len({call["from"] for call in world.calls}) == 1

    async def test_goes_by_another_connection_now_and_then_as_a_balancer_knows_no_other_way_to_another_server(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(pooling, "LIFE_S", 0.2)
        at, until_s = server(f"{world.url}/v1"), asyncio.get_running_loop().time() + 0.5
        world.pieces = [b'data: {"a": 1}\n\n', b"data: [DONE]\n\n"]
        while asyncio.get_running_loop().time() < until_s:
            assert await streamed(at) == [{"a": 1}]
        assert 2 <= len({call["from"] for call in world.calls}) <= 5

    async def test_that_nobody_reads_any_more_is_closed_at_the_server(self, world: World) -> None:
        world.is_endless, world.pieces = True, [b'data: {"a": 1}\n\n']
        async with aclosing(server(f"{world.url}/v1").connection().stream(CALL)) as chunks:
            async for _ in chunks:
                break
        await until(lambda: world.left == ["http.disconnect"])

    async def test_of_a_server_that_says_done_and_does_not_end_is_not_waited_for(self, world: World) -> None:
        world.is_endless, world.pieces = True, [b'data: {"a": 1}\n\n', b"data: [DONE]\n\n"]
        assert await streamed(server(f"{world.url}/v1")) == [{"a": 1}]
        await until(lambda: world.left == ["http.disconnect"])


def test_connections_end_with_their_loop(
    world: World, recwarn: pytest.WarningsRecorder, caplog: pytest.LogCaptureFixture
) -> None:
    async def called() -> None:
        await posted(server(f"{world.url}/v1"))

    for _ in range(2):
        asyncio.run(called())
        gc.collect()
    assert ([*map(str, recwarn)], caplog.text) == ([], "")


class TestAConnectionThatWasKept:
    """By a server that speaks for itself: ours says when it ends one."""

    ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"

    async def test_and_has_ended_without_a_word_is_left_for_another(self) -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.closing(writer):
                await reader.readuntil(b'"tiny"}')
                writer.write(self.ANSWER)

        async with await asyncio.start_server(answer, "127.0.0.1", 0) as there:
            at = server(f"http://127.0.0.1:{there.sockets[0].getsockname()[1]}/v1")
            assert [await posted(at) for _ in range(4)] == [{}] * 4
        with pytest.raises(UnansweredError):
            await posted(at)

    async def test_and_brought_something_unasked_does_not_answer_the_next_call(self) -> None:
        is_read, is_sent, is_over = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.closing(writer):
                await reader.readuntil(b'"tiny"}')
                writer.write(self.ANSWER)
                await is_read.wait()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n" + b'{"a":1}')
                is_sent.set()
                await is_over.wait()

        async with await asyncio.start_server(answer, "127.0.0.1", 0) as there:
            at = server(f"http://127.0.0.1:{there.sockets[0].getsockname()[1]}/v1")
            assert await posted(at) == {}
            is_read.set()
            await is_sent.wait()
            for _ in range(10):  # turns of the loop, in which it arrives
                await asyncio.sleep(0)
            assert await posted(at) == {}
            is_over.set()


class TestNoAnswer:
    @pytest.mark.parametrize(
        ("body", "message"),
        [
            (b'{"error": {"message": "No such model."}}', "No such model."),
            (b'{"error": "model not found"}', "model not found"),
            (b'{"message": "Unauthorized"}', "Unauthorized"),
            (b'{"detail": "Not Found"}', "Not Found"),
            (b'{"detail": [{"loc": ["body"]}]}', '{"detail": [{"loc": ["body"]}]}'),
            (b"<h1>Bad Gateway</h1>", "<h1>Bad Gateway</h1>"),
            (b"[1]", "[1]"),
            (b"", ""),
        ],
    )
    async def test_but_an_error_has_the_servers_sentence(self, world: World, body: bytes, message: str) -> None:
        world.status, world.pieces = 404, [body]
        with pytest.raises(StatusError) as refused:
            await posted(server(f"{world.url}/v1"))
        assert refused.value.message == message

    async def test_in_time_is_an_error_that_does_not_say_where_the_server_is(
        self, world: World, caplog: pytest.LogCaptureFixture
    ) -> None:
        world.is_silent = True
        connection = server(f"{world.url}/v1").connection(timeout_s=0.1)
        with pytest.raises(UnansweredError) as refused:
            await connection.post(CALL)
        assert str(refused.value) == "it did not answer in time."
        assert f"the model server {world.url}/v1 does not answer" in caplog.text

    @pytest.mark.parametrize("url", ["http://127.0.0.1:9/v1", "http://models.invalid/v1", "tiny", "ftp://x/v1", ""])
    async def test_of_an_address_where_nobody_is(self, url: str, caplog: pytest.LogCaptureFixture) -> None:
        with pytest.raises(ServerError) as refused:
            await posted(server(url))
        assert str(refused.value) == "connection error."
        assert f"no connection to the model server {url}: " in caplog.text
