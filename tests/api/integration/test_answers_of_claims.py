"""Answers with jobs are megabytes: the event loop passes them on, and neither reads nor writes them."""

import asyncio
import json
import threading
from typing import IO, cast

import pytest
from django.http import HttpResponse
from pydantic import BaseModel

from core.asgi import Message, Scope, Send
from jobs import http, operations
from jobs.protocol import answers, messages, sessions
from jobs.protocol.messages import Call
from jobs.waiting.notifier import Notifier
from jobs.waiting.requests import Django, Handler, Places
from jobs.waiting.wrapper import LongPoll
from postgres import connections
from tests import farm

SCOPE = {"type": "http", "path": "/api/v1/worker/claim", "headers": []}


class Answering:
    """Django, which gives one job."""

    def __init__(self) -> None:
        self.sent: list[HttpResponse] = []

    async def send_response(self, response: HttpResponse, _send: Send) -> None:
        self.sent.append(response)

    async def respond(self, _scope: Scope, _body: IO[bytes]) -> HttpResponse:
        """An answer that no JSON could be."""
        return http.Noted(b"no JSON", note=answers.Claimed.model_construct(jobs=[7]))


async def test_a_claim_over_http_is_answered_with_jobs_that_nobody_decoded() -> None:
    django = Answering()
    incoming = [{"type": "http.request", "body": b'no JSON: {"wait": 25}'}]

    async def receive() -> Message:
        return incoming.pop() if incoming else await asyncio.get_running_loop().create_future()

    poll = LongPoll(Django(cast("Handler", django)), cast("Notifier", None), asyncio.Event(), Places())
    await poll.serve(SCOPE, receive, cast("Send", None))
    assert [answer.content for answer in django.sent] == [b"no JSON"]


@pytest.mark.django_db(transaction=True)
def test_a_claim_over_the_socket_is_encoded_in_the_thread_that_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    farm.kind("work")
    _, key = operations.create_worker("w", queues=["work"])
    farm.submit(2)
    threads: list[int] = []
    encode = messages.answer

    def noting(call: Call, body: BaseModel) -> str:
        threads.append(threading.get_ident())
        return encode(call, body)

    monkeypatch.setattr(messages, "answer", noting)
    call = messages.read('{"type": "claim", "ref": 1, "limit": 2}')

    async def perform() -> str:
        performed = await connections.run(sessions.perform, key, call)
        return performed.text

    text = asyncio.run(perform())
    assert [job["payload"] for job in json.loads(text)["jobs"]] == [{"n": 0}, {"n": 1}]
    assert threads
    assert threading.get_ident() not in threads
