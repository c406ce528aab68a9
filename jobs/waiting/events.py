"""The event stream of a job, or of some: Django decides once whether the caller may see them, the hub reports what
happens to them."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Final

from django.conf import settings

from core import asgi, bodies
from core.asgi import Receive, Scope, Send
from jobs import http
from jobs.waiting import clients
from jobs.waiting.notifier import Stopping
from jobs.waiting.places import Places
from jobs.waiting.story import Stories
from jobs.waiting.upstream import Answer, Django
from live import RECONNECTED, hub
from live.send_queue import Message, SendQueue
from live.subscriptions import Subscription

# About a stream that Django allows: the `job` or the `jobs`, and whose rights count, the `user`.
Note = dict[str, Any]
PING_S: Final = 15.0
_PING: Final = b": still here\n\n"
_HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # nginx would otherwise keep events back
]


class EventStream:
    """Serves one request for `GET /api/v1/jobs/{id}/events`, or for `GET /api/v1/jobs/events?ids=`."""

    def __init__(self, django: Django, stopping: Stopping, places: Places) -> None:
        self._django = django
        self._stopping = stopping
        self._places = places

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream until the jobs have ended, the client goes, its rights do, or the process ends."""
        try:
            await bodies.whole(receive)
        except bodies.ClientGone:
            return
        send_queue = SendQueue()
        rights = Rights(self._django, scope, send_queue)
        client: clients.Connection | None = None
        try:
            answer, note = await rights.first_answer()
            if note is None:
                await answer.send(send)
                return
            most: int = settings.LIVE["STREAMS_PER_PERSON"]
            with self._places.one(("streams", note["user"]), most=most, of="owner") as refusal:
                if refusal is not None:
                    await refusal.send(send)
                    return
                client = clients.Connection(receive)
                await client.during(self._stream(scope, send, send_queue, rights, note))
        finally:
            rights.close()
            if client is not None:
                client.close()

    async def _stream(self, scope: Scope, send: Send, send_queue: SendQueue, rights: "Rights", note: Note) -> None:
        job_ids = note.get("jobs") or [note["job"]]
        last_event_id = asgi.header(scope, "last-event-id")
        stories = Stories(job_ids, last_event_id=last_event_id, are_named="jobs" in note)
        here, followed = hub.current(), set[str]()
        watched: dict[str, Any] = {"audience": "member", "language": settings.LANGUAGE_CODE}
        # From the start, whatever the client has seen: of an ended job the end has to be sent once more.
        watches = [
            here.watch(send_queue, "job-json", {"job_id": job_id}, watch_id=str(job_id), **watched)
            for job_id in job_ids
        ]

        def follow_output(messages: Sequence[Message]) -> None:
            """Once for each: the job itself is sent before its output."""
            for job_id in {message.watch_id for message in messages} - followed:
                followed.add(job_id)
                of_one = {"watch_id": job_id, "seen": stories.of[job_id].cursor, **watched}
                watches.append(here.watch(send_queue, "job-output", {"job_id": int(job_id)}, **of_one))

        try:
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            await first_of(
                self._send_events(stories, send_queue, send, follow_output), rights.lost(), self._stopping.wait()
            )
            await send({"type": "http.response.body", "body": b""})
        finally:
            for watch in watches:
                watch.close()

    async def _send_events(
        self, stories: Stories, send_queue: SendQueue, send: Send, follow_output: Callable[[Sequence[Message]], None]
    ) -> None:
        """Send the hub's messages, as events, until nothing more comes."""
        await piece(send, b"retry: 2000\n\n")
        while not stories.are_over:
            try:
                async with asyncio.timeout(PING_S):
                    messages = await send_queue.take()
            except TimeoutError:
                await piece(send, _PING)
                continue
            follow_output(messages)
            await piece(send, b"".join(stories.events(messages)))


class Rights:
    """Whether the caller may see the job: Django is called again whenever the caller's rights changed.

    What comes for the caller meanwhile waits in the queue for its answer.
    """

    def __init__(self, django: Django, scope: Scope, send_queue: SendQueue) -> None:
        self._django = django
        self._scope = scope
        self._send_queue = send_queue
        self._changed = asyncio.Event()
        self._listening: Subscription | None = None

    async def first_answer(
        self,
        scope: Scope | None = None,
        body: bytes | bodies.Spooled = b"",
        *,
        again: Callable[[Note], Scope] | None = None,
    ) -> tuple[Answer, Note | None]:
        """Django's first answer, and its note about the job; None where it is a refusal.

        `scope` and `body` are that call where it is no GET, and may not be made again: `again` gives the one that may.
        Changes are watched before that call, of everybody's rights: whose they are is in the answer.
        """
        touched: set[str] = set()
        early = hub.current().watch_topics(["user:*"], touched.update)
        try:
            answer = await self._django.call(scope or self._scope, body)
            note = _note(answer)
            if note is None:
                return answer, None
            self._scope = again(note) if again else self._scope
            own = f"user:{note['user']}"
            self._listening = hub.current().watch_topics([own], self._change)
            if touched & {own, RECONNECTED}:
                self._change()
            return answer, note
        finally:
            early.close()

    async def lost(self) -> None:
        """Return when the caller may not see the job any more."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            if _note(await self._django.call(self._scope, b"")) is None:
                return
            if not self._changed.is_set():
                self._send_queue.let_go()

    def close(self) -> None:
        if self._listening is not None:
            self._listening.close()

    def _change(self, _topics: Iterable[str] = ()) -> None:
        self._changed.set()
        self._send_queue.hold()


def _note(answer: Answer) -> Note | None:
    """Django's note about a stream that it allows: the job's id and the person's."""
    note = answer.notes.get(http.STREAMS.lower())
    return None if note is None else json.loads(note)


async def piece(send: Send, body: bytes) -> None:
    if body:
        await send({"type": "http.response.body", "body": body, "more_body": True})


async def first_of(*works: Coroutine[Any, Any, Any]) -> None:
    """Run all until one ends; the others are canceled. Raises what that one raised."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
