"""Answers with jobs are megabytes: the event loop passes them on, and neither reads nor writes them."""

import asyncio
import json
import threading
from typing import Any, cast

import pytest
from pydantic import BaseModel

from core.asgi import Message, Receive, Scope, Send
from jobs import http, operations
from jobs.protocol import messages, sessions
from jobs.protocol.messages import Call
from jobs.waiting import upstream
from jobs.waiting.long_poll import LongPoll
from jobs.waiting.notifier import Notifier, Stopping
from jobs.waiting.places import Places
from jobs.waiting.upstream import Django
from postgres import connections
from tests import farm

JOBS = b'{"jobs": [{"id": 7}]}'
SCOPE = {"type": "http", "path": "/api/v1/worker/claim", "headers": []}


async def _application(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": JOBS})


async def test_a_claim_over_http_is_answered_with_jobs_that_nobody_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[Any] = []
    monkeypatch.setattr(upstream.Answer, "json", property(lambda _: decoded.append("answer")))
    sent: list[Message] = []
    incoming = [{"type": "http.request", "body": b'{"wait": 25}'}]

    async def receive() -> Message:
        return incoming.pop() if incoming else await asyncio.get_running_loop().create_future()

    async def send(message: Message) -> None:
        sent.append(message)

    django = Django(_application, notes=[http.WAITS_FOR])
    poll = LongPoll(django, cast("Notifier", None), Stopping(), Places())
    await poll.serve(SCOPE, receive, send)

    assert (sent[-1]["body"], decoded) == (JOBS, [])


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
