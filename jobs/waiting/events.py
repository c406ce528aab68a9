"""A job's event stream: Django says once whether the caller may see the job, the hub says what happens to
it."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any, Final

from django.conf import settings

from jobs import http
from jobs.waiting import asking, clients
from jobs.waiting.asking import Answer, Django, Receive, Scope, Send
from jobs.waiting.stopping import Stopping
from jobs.waiting.story import Story
from live import hub
from live.outbox import Outbox

PING_S: Final = 15.0
_PING: Final = b": still here\n\n"
_HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # nginx would otherwise keep events back
]


class EventStream:
    """Serves one request for `GET /api/v1/jobs/{id}/events`."""

    def __init__(self, django: Django, stopping: Stopping) -> None:
        self._django = django
        self._stopping = stopping

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream until the job has ended, the client goes, its rights do, or the process ends."""
        try:
            await clients.body(receive)
        except clients.ClientGone:
            return
        answer = await self._django.ask(scope, b"")
        note = answer.notes.get(http.STREAMS.lower())
        if note is None:
            await answer.send(send)
            return
        client = clients.Presence(receive)
        try:
            await client.during(self._stream(scope, send, **json.loads(note)))
        finally:
            client.close()

    async def _stream(self, scope: Scope, send: Send, *, job: int, user: int) -> None:
        story = Story.resumed(asking.header(scope, "last-event-id"))
        rights_changed = asyncio.Event()
        outbox = Outbox()
        here = hub.current()
        watched = {"watch_id": "", "audience": "member", "language": settings.LANGUAGE_CODE}
        subscription = here.watch_topics([f"user:{user}"], lambda _: rights_changed.set())
        # From the start, whatever the client has seen: an ended job has to be told of its end once more.
        watches = [here.watch(outbox, "job-json", {"job_id": job}, **watched)]

        def follow_output() -> None:
            """Once: the job itself is told before its output."""
            if len(watches) == 1:
                seen = story.cursor
                watches.append(here.watch(outbox, "job-output", {"job_id": job}, seen=seen, **watched))

        try:
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            await _first_of(
                self._tell(story, outbox, send, follow_output),
                self._rights_lost(scope, rights_changed),
                self._stopping.wait(),
            )
            await send({"type": "http.response.body", "body": b""})
        finally:
            subscription.close()
            for watch in watches:
                watch.close()

    async def _tell(
        self, story: Story, outbox: Outbox, send: Send, follow_output: Callable[[], None]
    ) -> None:
        """Send what the hub says, as events, until the story is over."""
        await _piece(send, b"retry: 2000\n\n")
        while not story.is_over:
            try:
                async with asyncio.timeout(PING_S):
                    messages = await outbox.take()
            except TimeoutError:
                await _piece(send, _PING)
                continue
            follow_output()
            await _piece(send, b"".join(story.events(messages)))

    async def _rights_lost(self, scope: Scope, changed: asyncio.Event) -> None:
        """Return when the caller may not see the job any more: asked again whenever their rights changed."""
        while True:
            await changed.wait()
            changed.clear()
            if not _is_allowed(await self._django.ask(scope, b"")):
                return


def _is_allowed(answer: Answer) -> bool:
    return http.STREAMS.lower() in answer.notes


async def _piece(send: Send, body: bytes) -> None:
    if body:
        await send({"type": "http.response.body", "body": body, "more_body": True})


async def _first_of(*works: Coroutine[Any, Any, Any]) -> None:
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
