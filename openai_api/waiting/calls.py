"""One call while it waits: Django is asked for it once, the hub reports what becomes of it, and the caller is
answered."""

import asyncio
import json
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, Final

from django.conf import settings

from core import asgi, bodies
from core.asgi import App, Receive, Scope, Send
from jobs import http as jobs_http
from jobs.waiting import clients
from jobs.waiting.events import PING_S, Note, Rights, first_of, piece
from jobs.waiting.notifier import Stopping
from jobs.waiting.places import Places
from jobs.waiting.upstream import Answer, Django
from live import hub
from live.feeds import Watch
from live.send_queue import SendQueue
from openai_api import domain, http, operations
from openai_api.operations import returning
from openai_api.waiting import pings
from openai_api.waiting.transcript import Transcript
from postgres import connections

_CALL: Final = re.compile(rf"/v1/({'|'.join(domain.PATHS)})(/(resp_)?[0-9]{{1,19}}(/events)?)?")
_DONE: Final = b"data: [DONE]\n\n"
_RETRY_AFTER_S: Final = 1
_QUIET_S: Final = 0.25  # after which a new job is looked at although nothing was heard of it

_FOLLOWERS: Final = Places()  # of this process's one loop


class WaitingCall:
    """Serves one request: a new call, or one for the answer or the chunks of an earlier call."""

    def __init__(self, django: Django, stopping: Stopping, scope: Scope, receive: Receive, send: Send) -> None:
        self._django = django
        self._stopping = stopping
        self._scope = scope
        self._receive = receive
        self._send = send
        self._send_queue = SendQueue()
        self._transcript = Transcript.resumed(asgi.header(scope, "last-event-id"))
        self._has_started = False
        self._has_pinged = False

    async def serve(self) -> None:
        """Answer when the call has ended, or piece by piece. Who goes away cancels it, unless it is to be kept, or may
        come back."""
        with bodies.Spooled() as body:
            try:
                await body.read_from(self._receive)
            except bodies.ClientGone:
                return
            await self._serve(body)

    async def _serve(self, body: bodies.Spooled) -> None:
        rights = Rights(self._django, self._scope, self._send_queue)
        client = clients.Connection(self._receive)
        try:
            answer, note = await rights.first_answer(self._scope, body, again=self._events)
            if note is None:
                await answer.send(self._send)
                return
            with _place_of(note) as refusal:
                if refusal is not None:
                    await _in_form(refusal).send(self._send)
                elif await client.during(self._follow(note, rights)) is None:
                    await self._left(note)
        finally:
            rights.close()
            client.close()

    async def _left(self, note: Note) -> None:
        """The caller went away. One that repeats its calls, as it does before an answer has begun, finds the job for a
        while; a server that ends leaves it to the next."""
        if note["again"] and not self._has_started:
            here = {"user_id": note["user"], "fingerprint": note["again"]}
            await connections.run(returning.leave, note["job"], **here)
            await first_of(asyncio.sleep(settings.OPENAI["RETRY_GRACE"]), self._stopping.wait())
            if not self._stopping:
                await connections.run(returning.end_grace, note["job"], is_kept=note["kept"])
        elif not note["kept"]:
            await connections.run(operations.give_up, note["job"])

    async def _follow(self, note: Note, rights: Rights) -> bool:
        """Whether the call was answered; None comes from who gave up first."""
        watches = [self._watch(note, "job-status")]
        if note["after"] is not None:
            self._transcript = Transcript.behind(note["after"])
        self._transcript.reads_output = note["stream"]
        self._transcript.is_typed = note["path"] in domain.TYPED
        try:
            # Rights are watched all the while: the queue is held back until they are known, the first message too.
            await first_of(self._stream(note, watches), rights.lost(), self._stopping.wait())
        finally:
            for watch in watches:
                watch.close()
        await self._end(note)
        return True

    def _watch(self, note: Note, query: str, *, seen: str | None = None) -> Watch:
        return hub.current().watch(
            self._send_queue,
            query,
            {"job_id": note["job"]},
            watch_id="",
            audience="member",
            language=settings.LANGUAGE_CODE,
            seen=seen,
            quiet_s=_QUIET_S if note["new"] else 0.0,
        )

    async def _stream(self, note: Note, watches: list[Watch]) -> None:
        """Pass on what comes: how the job stands first, which of a new one is known, and its output from there on."""
        if note["stream"]:
            if not note["new"]:
                await self._take()
            watches += [self._watch(note, "job-output", seen=self._transcript.cursor)]
        await self._pass_on(note)

    async def _take(self) -> bytes:
        return b"".join(self._transcript.take(await self._send_queue.take()))

    async def _pass_on(self, note: Note) -> None:
        """Send the chunks as they come until nothing more is to come. The head waits for the first, PING_S at most: a
        refusal by the model server has a status of its own until then."""
        while not self._transcript.is_over:
            try:
                async with asyncio.timeout(PING_S):
                    events = await self._take()
            except TimeoutError:
                events = pings.event(note, self._transcript, is_first=not self._has_pinged)
                self._has_pinged = True
            if note["stream"] and events:
                await self._send_piece(note, events)

    async def _end(self, note: Note) -> None:
        """Say how it ended: the end of the stream, the answer, or an error which names the job."""
        if self._transcript.is_broken:
            await self._break_off(note, 502, await connections.run(operations.broken, note["job"]))
            if not note["kept"]:
                await connections.run(operations.give_up, note["job"])
        elif self._transcript.is_success and self._transcript.has_ended:
            await self._send_last(note, self._done)
        elif self._stopping and not self._transcript.is_over:
            await self._break_off(note, 503, domain.interrupted(note["job"], path=note["path"]))
        else:
            await self._answer(note, await self._django.call(self._retrieval(note), b""))

    async def _answer(self, note: Note, answer: Answer) -> None:
        """Django's answer about the job: the whole of it, or the last events of a stream."""
        if not self._has_started and not (note["stream"] and answer.status == 200):
            await answer.send(self._send)
            return
        if answer.status != 200:
            await self._send_last(note, self._error(note, answer.json or {}))
        elif note["path"] == domain.RESPONSES:
            end = {"type": "response.completed", "sequence_number": self._transcript.next_number}
            await self._send_last(note, _event({**end, "response": answer.json}))
        else:
            await self._send_last(note, b"data: " + answer.body + b"\n\n" + self._done)

    @property
    def _done(self) -> bytes:
        return b"" if self._transcript.is_typed else _DONE

    def _error(self, note: Note, error: Mapping[str, Any]) -> bytes:
        """An error as the last event of the stream."""
        if note["path"] == domain.RESPONSES:
            return _event(domain.error_event(error, number=self._transcript.next_number))
        return b"data: " + json.dumps(error).encode() + b"\n\n"

    async def _break_off(self, note: Note, status: int, error: Mapping[str, Any]) -> None:
        if self._has_started:
            await self._send_last(note, self._error(note, error))
            return
        content = json.dumps(error).encode()
        # The clients of OpenAI repeat what failed: of a call without a key that would be a second job.
        is_repeatable = self._scope["method"] == "GET" or asgi.header(self._scope, "idempotency-key")
        repeat = b"true" if is_repeatable else b"false"
        headers = (*_head(note, b"application/json"), (b"retry-after", str(_RETRY_AFTER_S).encode()))
        again = (domain.NO_RETRY[0].encode(), repeat)
        await Answer(status=status, headers=(*headers, again), body=content).send(self._send)

    async def _send_piece(self, note: Note, events: bytes) -> None:
        if not self._has_started:
            self._has_started = True
            head = [
                *_head(note, b"text/event-stream; charset=utf-8"),
                (b"x-accel-buffering", b"no"),  # nginx would otherwise keep events back
            ]
            await self._send({"type": "http.response.start", "status": 200, "headers": head})
        await piece(self._send, events)

    async def _send_last(self, note: Note, events: bytes) -> None:
        await self._send_piece(note, events)
        await self._send({"type": "http.response.body", "body": b""})

    def _retrieval(self, note: Note) -> Scope:
        return self._asking_for(f"/v1/{note['path']}/{note['job']}")

    def _events(self, note: Note) -> Scope:
        return self._asking_for(f"/v1/{note['path']}/{note['job']}/events")

    def _asking_for(self, path: str) -> Scope:
        """This request as a GET of another address, with the caller's key."""
        path = self._scope.get("root_path", "") + path
        left_out = {b"content-length", b"content-type", b"transfer-encoding"}
        headers = [(name, value) for name, value in self._scope["headers"] if name not in left_out]
        fields = {"method": "GET", "path": path, "raw_path": path.encode(), "query_string": b"", "headers": headers}
        return {**self._scope, **fields}


def _event(fields: Mapping[str, Any]) -> bytes:
    return f"event: {fields['type']}\ndata: {json.dumps(fields)}\n\n".encode()


def _head(note: Note, content_type: bytes) -> tuple[tuple[bytes, bytes], ...]:
    return (
        (b"content-type", content_type),
        (b"cache-control", b"no-store"),
        (http.JOB_ID.lower().encode(), str(note["job"]).encode()),
    )


def _place_of(note: Note) -> AbstractContextManager[Answer | None]:
    """A place of its person for who follows an earlier call; a new one is a job, and jobs that wait are bounded."""
    if note["new"]:
        return nullcontext()
    most: int = settings.LIVE["STREAMS_PER_PERSON"]
    return _FOLLOWERS.one(note["user"], most=most, of="owner")


def _in_form(refusal: Answer) -> Answer:
    status, body = domain.refused(refusal.json, status=refusal.status)
    return replace(refusal, status=status, body=json.dumps(body).encode())


class OpenAICalls:
    def __init__(self, app: App, *, stopping: Stopping) -> None:
        self._app = app
        self._stopping = stopping
        self._django = Django(app, notes=[jobs_http.STREAMS])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match = _CALL.fullmatch(scope["path"].removeprefix(scope.get("root_path", "")))
        if match and scope["method"] == ("GET" if match[2] else "POST"):
            await WaitingCall(self._django, self._stopping, scope, receive, send).serve()
        else:
            await self._app(scope, receive, send)
