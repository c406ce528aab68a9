"""A call of /v1 while it waits: Django is entered for it once, and its answer comes from beside Django."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import IO, Any, cast

import pytest
import pytest_asyncio
from django.contrib.auth.models import User
from django.http.response import HttpResponseBase

from accounts import operations as accounts
from accounts.models import ApiToken
from core.asgi import Message, Scope
from jobfarm.server import OneHop
from jobs import operations as jobs
from jobs.domain.workers import Facts
from jobs.models import Job, Worker
from jobs.waiting.requests import Handler
from live import hub
from openai_api.waiting.calls import OpenAICalls
from postgres import connections
from tests import farm

pytestmark = pytest.mark.django_db(transaction=True)
CHUNK = {"object": "chat.completion.chunk", "choices": [{"delta": {"content": "a"}}]}


class Counted:
    """Django, and which requests it was entered for."""

    def __init__(self) -> None:
        self._django = OneHop()
        self.send_response = self._django.send_response
        self.entered: list[str] = []

    async def respond(self, scope: Scope, body: IO[bytes]) -> HttpResponseBase:
        """The answer to one request."""
        self.entered.append(scope["path"])
        return await self._django.respond(scope, body)


class Caller:
    """Somebody who makes a call and waits for its answer."""

    def __init__(self, django: Counted, key: str, at: str = "", **body: Any) -> None:
        """`at`: where an earlier call is fetched."""
        self._messages: asyncio.Queue[Message] = asyncio.Queue()
        content = json.dumps({"model": "tiny", "messages": [{"role": "user", "content": "x"}], **body}).encode()
        self._messages.put_nowait({"type": "http.request", "body": content})
        self.status, self.body = 0, b""
        scope: dict[str, Any] = {
            "type": "http", "method": "GET" if at else "POST", "path": at or "/v1/chat/completions",
            "query_string": b"",
            "headers": [(b"authorization", f"Bearer {key}".encode()), (b"host", b"127.0.0.1")],
        }  # fmt: skip
        calls = OpenAICalls(cast("Handler", django), stopping=asyncio.Event())
        self.waiting = asyncio.create_task(calls(scope, self._messages.get, self._send))

    async def _send(self, message: Message) -> None:
        self.status = message.get("status", self.status)
        self.body += message.get("body", b"")


@pytest_asyncio.fixture
async def _hears() -> AsyncIterator[None]:
    """The hub hears what is touched."""
    running = hub.current()
    await running.ready()
    yield
    await running.stop()


def _set_up() -> tuple[Worker, str]:
    jobs.sync()
    worker = farm.worker("w", "openai")
    jobs.introduce(worker, Facts(models=("tiny",)))
    return farm.stored_worker(worker), accounts.create_token(farm.user(), name="tests")[1]


def _submitted() -> None:
    farm.until(Job.objects.exists, what="the job of the call")


def _answered(worker: Worker, result: Any, path: str = "") -> int:
    """Have the worker answer the call that waits, or one at this path, so."""
    if path:
        jobs.submit("openai", {"path": path, "body": {"model": "tiny"}}, owner=User.objects.get(), queue="openai.tiny")
    claimed = farm.claim_one(worker)
    farm.succeed(worker, claimed, result)
    return claimed.id


def _run_by(worker: Worker) -> None:
    claimed = farm.claim_one(worker)
    text = json.dumps(CHUNK) + "\n"
    jobs.write_output(worker, claimed.id, claimed.lease, seq=0, text=text)
    farm.succeed(worker, claimed, {"id": "c", "choices": []})


@pytest.mark.usefixtures("_hears")
class TestACall:
    @pytest.mark.parametrize(
        ("is_stream", "answer"),
        [
            (False, b'{"id": "c", "choices": []}'),
            (True, b"data: " + json.dumps(CHUNK).encode() + b"\n\ndata: [DONE]\n\n"),
        ],
    )
    async def test_enters_django_once(self, is_stream: bool, answer: bytes) -> None:
        worker, key = await connections.run(_set_up)
        django = Counted()
        caller = Caller(django, key, stream=is_stream)
        await connections.run(_submitted)
        await connections.run(_run_by, worker)
        await asyncio.wait_for(caller.waiting, 10)
        assert (caller.status, caller.body[-len(answer) :], django.entered) == (200, answer, ["/v1/chat/completions"])

    async def test_is_not_answered_to_a_token_that_was_revoked_though_nobody_heard_of_that(self) -> None:
        worker, key = await connections.run(_set_up)
        caller = Caller(Counted(), key)
        await connections.run(_submitted)
        await connections.run(lambda: ApiToken.objects.update(revoked_at=farm.now()))
        await connections.run(_run_by, worker)
        await asyncio.wait_for(caller.waiting, 10)
        assert (caller.status, json.loads(caller.body)["error"]["code"]) == (401, "unauthorized")

    @pytest.mark.parametrize("is_stream", [False, True])
    @pytest.mark.parametrize("result", [None, 7, "text", []])
    async def test_whose_answer_is_no_object_gets_an_error_that_names_its_job(
        self, is_stream: bool, result: Any
    ) -> None:
        worker, key = await connections.run(_set_up)
        caller = Caller(Counted(), key, stream=is_stream)
        await connections.run(_submitted)
        job_id = await connections.run(_answered, worker, result)
        await asyncio.wait_for(caller.waiting, 10)
        assert (caller.status, json.loads(caller.body)["error"]["code"]) == (502, "broken_answer")
        assert str(job_id) in json.loads(caller.body)["error"]["message"]

    @pytest.mark.parametrize(
        ("path", "result", "answer"),
        [
            (
                "audio/transcriptions", {"answer_text": "Hello.", "content_type": "text/vtt"},
                b'event: transcript.text.done\ndata: {"type": "transcript.text.done", "text": "Hello."}\n\n',
            ),
            ("chat/completions", {"choices": 5}, b"data: [DONE]\n\n"),
            ("messages", {"content": 5}, b'event: message_stop\ndata: {"type": "message_stop"}\n\n'),
        ],
    )  # fmt: skip
    async def test_that_is_fetched_as_events_ends_whatever_its_answer_is(
        self, path: str, result: Any, answer: bytes
    ) -> None:
        worker, key = await connections.run(_set_up)
        job_id = await connections.run(_answered, worker, result, path)
        caller = Caller(Counted(), key, at=f"/v1/{path}/{job_id}/events")
        await asyncio.wait_for(caller.waiting, 10)
        assert (caller.status, caller.body[-len(answer) :]) == (200, answer)

    async def test_that_is_a_sound_has_no_events(self) -> None:
        worker, key = await connections.run(_set_up)
        result = {"answer_file": "answer.mp3", "content_type": "audio/mpeg"}
        job_id = await connections.run(_answered, worker, result, "audio/speech")
        caller = Caller(Counted(), key, at=f"/v1/audio/speech/{job_id}/events")
        await asyncio.wait_for(caller.waiting, 10)
        assert (caller.status, json.loads(caller.body)["error"]["param"]) == (400, "path")

    async def test_is_known_to_its_caller_as_it_stands_without_a_read(self) -> None:
        """What this process has done to a job it need not ask for."""
        worker, key = await connections.run(_set_up)
        here = hub.current()
        async with here.permits.acquire("one"), here.permits.acquire("another"):  # no feed reads meanwhile
            caller = Caller(Counted(), key, stream=True)
            await connections.run(_submitted)
            await connections.run(_run_by, worker)
            await asyncio.wait_for(caller.waiting, 10)
        assert caller.body.endswith(b"data: [DONE]\n\n")
