"""One call while it waits: Django is asked for it once, the hub reports what becomes of it, and the caller is
answered."""

import asyncio
import json
import re
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import IO, Any, Final

from django.conf import settings
from django.http import HttpResponse
from django.http.response import HttpResponseBase

from core import asgi
from core.asgi import Receive, Scope, Send
from jobs.errors import TooManyOpen
from jobs.waiting.events import EVENT_STREAM, PING_S, Rights, first_of
from jobs.waiting.requests import AT_ONCE, Connection, Django, Handler, Places
from live import hub
from live.feeds import Watch
from live.send_queue import SendQueue
from observing import numbers
from openai_api import domain, http, operations
from openai_api.domain import messages
from openai_api.http import Awaited
from openai_api.operations import call_hooks
from openai_api.waiting.transcript import Transcript, event, events_of, silent_event
from postgres import connections

_CALL: Final = re.compile(rf"/v1/({'|'.join(domain.PATHS)})(/(resp_)?[0-9]{{1,19}}(/events)?)?")
_DONE: Final = b"data: [DONE]\n\n"
_RETRY_AFTER_S: Final = 1
_QUIET_S: Final = 0.25  # after which a new job is looked at although nothing was heard of it

_FOLLOWERS: Final = Places()  # of this process's one loop


@cache
def _decide_threads() -> ThreadPoolExecutor:
    """Threads for answers that hooks decide about: others are read beside them."""
    return ThreadPoolExecutor(AT_ONCE, thread_name_prefix="jobfarm-hooks")


class WaitingCall:
    """Serves one request: a new call, or one for the answer or the chunks of an earlier call."""

    def __init__(self, django: Django, stopping: asyncio.Event, scope: Scope, receive: Receive, send: Send) -> None:
        self._django = django
        self._stopping = stopping
        self._scope = scope
        self._receive = receive
        self._send = send
        self._send_queue = SendQueue()
        self._authorization = asgi.header(scope, "authorization")
        self._transcript = Transcript.resumed(asgi.header(scope, "last-event-id"))
        self._has_started = False
        self._has_pinged = False
        self._pace = Pace()

    async def serve(self) -> None:
        """Answer when the call has ended, or piece by piece. Who goes away cancels it, unless it is to be kept, or may
        come back."""
        try:
            async with asgi.spooled(self._receive) as body:
                await self._serve(body)
        except asgi.ClientGone:
            return

    async def _serve(self, body: IO[bytes]) -> None:
        with Rights(self._send_queue) as rights:
            answer = await rights.first_answer(self._django.call(self._scope, body))
            body.close()  # a large one lies on the disk, and the call may last
            note: Awaited | None = rights.note
            if note is None:
                await self._django.send(answer, self._send)
                return
            try:
                with _place_of(note), Connection(self._receive) as client:
                    if await client.during(self._follow(note, rights)) is None:
                        await self._left(note)
            except TooManyOpen as refusal:
                await self._django.send(http.refused(refusal, path=note.path), self._send)

    async def _left(self, note: Awaited) -> None:
        """The caller went away. One that repeats its calls, as it does before an answer has begun, finds the job for a
        while; a server that ends leaves it to the next."""
        if note.again and not self._has_started:
            await connections.run(operations.leave, note.job_id, user_id=note.user_id, fingerprint=note.again)
            await first_of(asyncio.sleep(settings.OPENAI["RETRY_GRACE"]), self._stopping.wait())
            if not self._stopping.is_set():
                await connections.run(operations.end_grace, note.job_id, is_kept=note.is_kept)
        elif not note.is_kept:
            await connections.run(operations.give_up, note.job_id)

    async def _follow(self, note: Awaited, rights: Rights) -> bool:
        """Whether the call was answered; None comes from who gave up first."""
        watches = [self._watch(note, "job-status")]
        if note.after is not None:
            self._transcript = Transcript.behind(note.after)
        if call_hooks.is_held(note.path):
            self._transcript = Transcript()
        self._transcript.reads_output = note.is_stream and not call_hooks.is_held(note.path)
        self._transcript.is_typed = note.path in domain.TYPED

        async def is_allowed() -> bool:
            return await connections.run(http.is_own, note, self._authorization)

        try:
            # Rights are watched all the while: the queue is held back until they are known, the first message too.
            await first_of(self._stream(note, watches), rights.lost(is_allowed), self._stopping.wait())
        finally:
            for watch in watches:
                watch.close()
        await self._end(note)
        return True

    def _watch(self, note: Awaited, query: str, *, seen: str | None = None) -> Watch:
        return hub.current().watch(
            self._send_queue, query, {"job_id": note.job_id}, watch_id="", audience="member",
            language=settings.LANGUAGE_CODE, seen=seen, quiet_s=_QUIET_S if note.is_new else 0.0,
        )  # fmt: skip

    async def _stream(self, note: Awaited, watches: list[Watch]) -> None:
        """Pass on what comes: how the job stands first, which of a new one is known, and its output from there on."""
        if self._transcript.reads_output:
            if not note.is_new:
                await self._take()
            watches += [self._watch(note, "job-output", seen=self._transcript.cursor)]
        await self._pass_on(note)

    async def _take(self) -> bytes:
        return b"".join(self._transcript.take(await self._send_queue.take()))

    async def _pass_on(self, note: Awaited) -> None:
        """Send the chunks as they come until nothing more is to come. The head waits for the first, PING_S at most: a
        refusal by the model server has a status of its own until then."""
        while not self._transcript.is_over:
            try:
                async with asyncio.timeout(PING_S):
                    events = await self._take()
            except TimeoutError:
                events = silent_event(note, self._transcript, is_first=not self._has_pinged)
                self._has_pinged = True
            if note.is_stream and events:
                await self._send_piece(note, events)
                if note.is_new and self._pace.is_first(self._transcript.latest):
                    self._pace.begin(await self._answering(note), chunks=self._transcript.passed)

    async def _end(self, note: Awaited) -> None:
        """Say how it ended: the end of the stream, the answer, or an error which names the job."""
        if self._transcript.is_broken:
            await self._break_off(note, 502, await connections.run(operations.broken, note.job_id))
            if not note.is_kept:
                await connections.run(operations.give_up, note.job_id)
        elif self._transcript.is_success and self._transcript.has_ended:
            self._pace.end(chunks=self._transcript.passed)
            await self._send_piece(note, self._done, is_last=True)
        elif self._stopping.is_set() and not self._transcript.is_over:
            await self._break_off(note, 503, domain.interrupted(note.job_id, path=note.path))
        else:
            threads = _decide_threads() if call_hooks.is_held(note.path) else None
            answer = await connections.run_in(threads, http.awaited, note, self._authorization)
            await self._answer(note, answer)

    async def _answer(self, note: Awaited, answer: HttpResponseBase) -> None:
        """The answer about the job: the whole of it, or the last events of a stream."""
        if not isinstance(answer, HttpResponse) or not (
            self._has_started or (note.is_stream and answer.status_code == 200)
        ):
            await self._django.send(answer, self._send)
            return
        if answer.status_code != 200:
            await self._send_piece(
                note, self._error(note, answer.status_code, json.loads(answer.content)), is_last=True
            )
        else:
            begun = {"number": self._transcript.next_number, "is_begun": self._has_started}
            events = await asyncio.to_thread(_whole, note.path, answer, **begun)
            await self._send_piece(note, events + self._done, is_last=True)

    @property
    def _done(self) -> bytes:
        return b"" if self._transcript.is_typed else _DONE

    def _error(self, note: Awaited, status: int, error: Mapping[str, Any]) -> bytes:
        """An error as the last event of the stream."""
        if messages.is_at(note.path):
            return event(messages.error(error, status=status))
        if note.path == domain.RESPONSES:
            return event(domain.error_event(error, number=self._transcript.next_number))
        return b"data: " + json.dumps(error).encode() + b"\n\n"

    async def _break_off(self, note: Awaited, status: int, error: Mapping[str, Any]) -> None:
        if self._has_started:
            await self._send_piece(note, self._error(note, status, error), is_last=True)
            return
        # The clients of OpenAI repeat what failed: of a call without a key that would be a second job.
        is_repeatable = self._scope["method"] == "GET" or asgi.header(self._scope, "idempotency-key")
        headers = {
            "Cache-Control": "no-store", http.JOB_ID: str(note.job_id), "Retry-After": str(_RETRY_AFTER_S),
            domain.NO_RETRY[0]: "true" if is_repeatable else "false",
        }  # fmt: skip
        body = domain.in_form(error, status=status, path=note.path)
        answer = HttpResponse(json.dumps(body), status=status, content_type=domain.JSON, headers=headers)
        await self._django.send(answer, self._send)

    async def _send_piece(self, note: Awaited, events: bytes, *, is_last: bool = False) -> None:
        if not self._has_started:
            self._has_started = True
            fields = http.heads(note.job_id, await self._answering(note), note.limits)
            head = [*EVENT_STREAM, *((name.lower().encode(), value.encode()) for name, value in fields.items())]
            await self._send({"type": "http.response.start", "status": 200, "headers": head})
        await self._send({"type": "http.response.body", "body": events, "more_body": not is_last})

    async def _answering(self, note: Awaited) -> str:
        """The model that answers; "" while a call waits that another one may answer yet."""
        if not note.may_move:
            return note.model
        if self._transcript.status == "pending" and not self._transcript.passed:
            return ""
        return await connections.run(operations.answering, note.job_id)


def _whole(path: str, answer: HttpResponse, **begun: Any) -> bytes:
    is_json = answer["Content-Type"] == domain.JSON
    made = json.loads(answer.content) if is_json else {"text": answer.content.decode(errors="replace")}
    return b"".join(map(event, events_of(path, made, **begun)))


def _place_of(note: Awaited) -> AbstractContextManager[None]:
    """A place of its person for who follows an earlier call; a new one is a job, and jobs that wait are bounded. Raises
    TooManyOpen."""
    if note.is_new:
        return nullcontext()
    most: int = settings.LIVE["STREAMS_PER_PERSON"]
    return _FOLLOWERS.one(note.user_id, most=most, of="owner")


def _authorized(scope: Scope) -> Scope:
    """The request with the key that Anthropic's clients send by a header of their own where all others look for it."""
    key = asgi.header(scope, "x-api-key")
    if not key or asgi.header(scope, "authorization"):
        return scope
    return {**scope, "headers": [*scope["headers"], (b"authorization", f"Bearer {key}".encode("latin-1"))]}


class Pace:
    """When the first token of an answer came (a role or a status is none) and when the last, by monotonic time."""

    def __init__(self) -> None:
        self._began_s = self._last_s = time.monotonic()
        self._first_s = 0.0
        self._model = ""
        self._chunks = 0

    def is_first(self, chunk: Mapping[str, Any]) -> bool:
        """Whether the first token has come just now, with this chunk."""
        self._last_s = time.monotonic()
        return not self._first_s and bool(domain.text_of(chunk))

    def begin(self, model: str, *, chunks: int) -> None:
        """Count the first token, of this model; so many chunks came until then."""
        self._first_s, self._model, self._chunks = self._last_s, numbers.label_of_model(model), chunks
        numbers.FIRST_TOKEN_SECONDS.labels(self._model).observe(self._first_s - self._began_s)

    def end(self, *, chunks: int) -> None:
        """Count the mean time of the chunks after it: an answer of so many is complete."""
        if self._first_s and (more := chunks - self._chunks) > 0:
            per_chunk_s = (self._last_s - self._first_s) / more
            numbers.OUTPUT_TOKEN_SECONDS.labels(numbers.label_of_model(self._model)).observe(per_chunk_s)


class OpenAICalls:
    """Serves OpenAI's API: its calls wait here, and the rest is Django's."""

    def __init__(self, handler: Handler, *, stopping: asyncio.Event) -> None:
        self._handler = handler
        self._stopping = stopping
        self._django, self._hooked = Django(handler), Django(handler)  # a hook that hangs holds up the latter alone

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        scope, match = _authorized(scope), _CALL.fullmatch(path)
        if match and scope["method"] == ("GET" if match[2] else "POST"):
            django = self._hooked if call_hooks.is_hooked(match[1]) else self._django
            await WaitingCall(django, self._stopping, scope, receive, send).serve()
        else:
            await self._handler(scope, receive, send)
