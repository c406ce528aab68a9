"""The event stream of a job, or of some: Django decides once whether the caller may see them, the hub reports what
happens to them, and each event that is sent has an id that says how far the client is."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from typing import Any, Final, Self

from django.conf import settings
from django.http.response import HttpResponseBase

from core import api, asgi
from core.asgi import Receive, Scope, Send
from jobs import http
from jobs.domain import changes, states
from jobs.errors import TooManyOpen
from jobs.protocol.jobs import as_view
from jobs.waiting import matching
from jobs.waiting.matching import Changes
from jobs.waiting.requests import Connection, Django, Places
from live import RECONNECTED, hub
from live.hub import Subscription
from live.send_queue import Message, SendQueue
from postgres import clock, connections

PING_S: Final = 15.0
_PING: Final = b": still here\n\n"
EVENT_STREAM: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # nginx would otherwise keep events back
]
# Fence, number of the next piece of output, version of the job: what an event's id says.
_EVENT_ID: Final = re.compile(r"([0-9]{1,18})\.([0-9]{1,9})\.([0-9a-f]{0,64})")
_SHORT: Final = 12  # characters of a version in the id of a stream of many jobs, which has one of each

Step = tuple[str, str]  # the name of an event, and its data: an object as JSON


class Story:
    """How far one client is in a job's events."""

    def __init__(self, *, fence: int = 0, next_seq: int = 0, version: str = "", is_view: bool = False) -> None:
        self._is_view = is_view
        self._fence = fence
        self._next_seq = next_seq
        self._version = version
        self._end: dict[str, Any] | None = None
        self.is_over = False

    @classmethod
    def resumed(cls, position: str, *, is_view: bool = False) -> Self:
        """Where the client at this position left off; the beginning for what is none of ours."""
        match = _EVENT_ID.fullmatch(position)
        if match is None:
            return cls(is_view=is_view)
        return cls(fence=int(match[1]), next_seq=int(match[2]), version=match[3], is_view=is_view)

    @property
    def cursor(self) -> str | None:
        """The last piece of output that was sent, as the stream `job-output` numbers it."""
        return f"{self._fence}:{self._next_seq - 1}" if self._fence else None

    def position(self, *, version_length: int | None = None) -> str:
        """How far it is, with so many characters of the job's version."""
        return f"{self._fence}.{self._next_seq}.{self._version[:version_length]}"

    def steps(self, messages: Sequence[Message]) -> Iterator[Step]:
        """The events that these messages make.

        The end is sent when all the output was, whatever came first.
        """
        for message in messages:
            yield from self._read(message)
        if self._end is not None and self._is_complete(self._end):
            self.is_over = True
            yield "end", json.dumps({"status": self._end["job"]["status"]})

    def _read(self, message: Message) -> Iterator[Step]:
        if message.page is not None:
            for item, data in zip(message.page.items, message.page.data, strict=True):
                self._fence, self._next_seq = item.data["fence"], item.data["seq"] + 1
                yield "output", data
        elif message.kind == "data":
            yield from self._job(json.loads(message.encoded), version=message.seen)
        else:
            self.is_over = True

    def _job(self, state: dict[str, Any], *, version: str) -> Iterator[Step]:
        job = state["job"]
        self._end = state if job["status"] in states.ENDED else None
        is_seen = bool(self._version) and version.startswith(self._version)  # which may be cut
        self._version = version
        if not is_seen:
            yield "job", json.dumps(as_view(job) if self._is_view else job)

    def _is_complete(self, state: dict[str, Any]) -> bool:
        written = state["written"]
        return written == 0 or (self._fence, self._next_seq) >= (state["job"]["fence"], written)


class Stories:
    """How far one client is in the events of some jobs. Of several, each event names its job, and its id says how far
    all of them are: "7=1.3.8a0c,9=0.0."."""

    def __init__(
        self, job_ids: Sequence[int], *, last_event_id: str, are_named: bool, is_view: bool = False
    ) -> None:  # fmt: skip
        pairs = (each.partition("=") for each in last_event_id.split(","))
        positions = {key: position for key, _, position in pairs} if are_named else {str(job_ids[0]): last_event_id}
        self._are_named = are_named
        self.of: Mapping[str, Story] = {
            str(job_id): Story.resumed(positions.get(str(job_id), ""), is_view=is_view) for job_id in job_ids
        }

    @property
    def are_over(self) -> bool:
        return all(story.is_over for story in self.of.values())

    def events(self, messages: Sequence[Message]) -> Iterator[bytes]:
        """The events that these messages make; the watches are called by the ids of the jobs."""
        by_job: dict[str, list[Message]] = {}
        for message in messages:
            by_job.setdefault(message.watch_id, []).append(message)
        for job_id, mine in by_job.items():
            for name, data in self.of[job_id].steps(mine) if not self.of[job_id].is_over else ():
                named = f'{{"job": {job_id}, {data[1:]}' if self._are_named else data
                yield f"event: {name}\nid: {self._event_id()}\ndata: {named}\n\n".encode()

    def _event_id(self) -> str:
        if not self._are_named:
            [story] = self.of.values()
            return story.position()
        return ",".join(f"{job_id}={story.position(version_length=_SHORT)}" for job_id, story in self.of.items())


class EventStream:
    """Serves one request for `GET /api/v1/jobs/{id}/events`, for `GET /api/v1/jobs/events?ids=`, or for
    `GET /api/v1/events`."""

    def __init__(self, django: Django, stopping: asyncio.Event, places: Places, changes: Changes) -> None:
        self._django = django
        self._stopping = stopping
        self._places = places
        self._changes = changes

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream until the jobs have ended, the client goes, its rights do, or the process ends."""
        try:
            await asgi.whole(receive)
        except asgi.ClientGone:
            return

        with Rights(SendQueue()) as rights:
            answer = await rights.first_answer(self._django.call(scope, BytesIO()))
            note = rights.note
            if note is None:
                await self._django.send(answer, send)
                return
            try:
                most: int = settings.LIVE["STREAMS_PER_PERSON"]
                place = self._places.one(("streams", note.user_id), most=most, of="owner")
                with place, Connection(receive) as client:
                    serve = self._stream if isinstance(note, http.Followed) else self._stream_of_many
                    await client.during(serve(note, scope, send, rights))
            except TooManyOpen as refusal:
                await self._django.send(api.refused(refusal), send)

    async def _stream(self, followed: http.Followed, scope: Scope, send: Send, rights: "Rights") -> None:
        job_ids, send_queue = followed.job_ids, rights.send_queue
        assert isinstance(send_queue, SendQueue)  # none was adopted
        last_event_id = asgi.header(scope, "last-event-id")
        stories = Stories(
            job_ids, last_event_id=last_event_id, are_named=followed.are_named, is_view=followed.is_view
        )  # fmt: skip
        here, known = hub.current(), set[str]()
        watched: dict[str, Any] = {"audience": "member", "language": settings.LANGUAGE_CODE}
        # From the start, whatever the client has seen: of an ended job the end has to be sent once more.
        watches = [
            here.watch(send_queue, "job-json", {"job_id": job_id}, watch_id=str(job_id), **watched)
            for job_id in job_ids
        ]

        def follow_output(messages: Sequence[Message]) -> None:
            """Once for each: the job itself is sent before its output."""
            for job_id in {message.watch_id for message in messages} - known:
                known.add(job_id)
                of_one = {"watch_id": job_id, "seen": stories.of[job_id].cursor, **watched}
                watches.append(here.watch(send_queue, "job-output", {"job_id": int(job_id)}, **of_one))

        async def is_allowed() -> bool:
            return isinstance(await self._django.call(scope, BytesIO()), http.Noted)

        try:
            await send(_start(followed))
            events = self._send_events(stories, send_queue, send, follow_output)
            await first_of(events, rights.lost(is_allowed), self._stopping.wait(), _expiry(followed))
            await send({"type": "http.response.body", "body": b""})
        finally:
            for watch in watches:
                watch.close()

    async def _stream_of_many(self, followed: http.FollowedMany, scope: Scope, send: Send, rights: "Rights") -> None:
        async def is_allowed() -> bool:
            answer = await self._django.call(scope, BytesIO())
            return isinstance(answer, http.Noted) and answer.note == followed

        last_event_id = asgi.header(scope, "last-event-id")
        stream = await self._changes.open(followed.wanted)
        try:
            rights.adopt(stream)
            first = await connections.run(matching.beginning, followed.wanted, last_event_id)
            await send(_start(followed))
            events = _send_changes(stream, first, send, is_view=followed.is_view)
            await first_of(events, rights.lost(is_allowed), self._stopping.wait(), _expiry(followed))
            await send({"type": "http.response.body", "body": b""})
        finally:
            self._changes.close(stream)

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


def _start(followed: http.Followed | http.FollowedMany) -> dict[str, Any]:
    """The head of the answer; with a view token a page of any site may read it."""
    shared = [(b"access-control-allow-origin", b"*")] if followed.is_view else []
    return {"type": "http.response.start", "status": 200, "headers": [*EVENT_STREAM, *shared]}


async def _expiry(followed: http.Followed | http.FollowedMany) -> None:
    """Return when the view token has expired that this is followed by."""
    if followed.expires_at is None:
        await asyncio.Event().wait()
    else:
        now = await connections.run(clock.now)
        await asyncio.sleep(max(0.0, (followed.expires_at - now).total_seconds()))


async def _send_changes(stream: matching.Stream, first: matching.Beginning, send: Send, *, is_view: bool) -> None:
    """Send the jobs that the stream begins with, then those that change, until it is over.

    Each event but the last of some that go together is at the place of those before: who loses it there is sent the
    rest again.
    """
    before, after = "", changes.event_id(first.at)
    await piece(send, b"retry: 2000\n\n")
    if not first.is_whole:
        await piece(send, f"event: reset\nid: {after}\ndata: {{}}\n\n".encode())
    jobs: Collection[dict[str, Any]] = first.documents.values()
    while not stream.is_over:
        ids = [before] * (len(jobs) - 1) + [after]
        shown = map(as_view, jobs) if is_view else jobs
        await piece(send, b"".join(_job(document, at) for document, at in zip(shown, ids, strict=False)))
        before = after
        try:
            async with asyncio.timeout(PING_S):
                jobs = await stream.take()
            after = stream.position or before
        except TimeoutError:
            jobs, after = (), stream.position or before
            await piece(send, _PING + f"id: {after}\n\n".encode())


def _job(document: dict[str, Any], event_id: str) -> bytes:
    named = f"id: {event_id}\n" if event_id else ""
    return f"event: job\n{named}data: {json.dumps(document)}\n\n".encode()


class Rights:
    """Whether the caller may see what is followed: that is looked at again whenever the caller's rights changed.

    What comes for the caller meanwhile waits in the queue for the outcome.
    """

    def __init__(self, send_queue: SendQueue | matching.Stream) -> None:
        self.send_queue = send_queue
        self.note: Any = None  # what Django allows to be followed, by which person
        self._changed = asyncio.Event()
        self._listening: Subscription | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._listening is not None:
            self._listening.close()

    def adopt(self, send_queue: SendQueue | matching.Stream) -> None:
        """Hold this from now on, where the caller's rights change or have changed."""
        self.send_queue = send_queue
        if self._changed.is_set():
            send_queue.hold()

    async def first_answer(self, answering: Awaitable[HttpResponseBase]) -> HttpResponseBase:
        """Django's first answer; where it allows something, its note is kept.

        Changes are watched before that call, of everybody's rights: whose they are is in the answer.
        """
        touched: set[str] = set()
        early = hub.current().watch_topics(["user:*"], touched.update)
        try:
            answer = await answering
            if isinstance(answer, http.Noted):
                self.note = answer.note
                own = f"user:{self.note.user_id}"
                self._listening = hub.current().watch_topics([own], self._change)
                if touched & {own, RECONNECTED}:
                    self._change()
            return answer
        finally:
            early.close()

    async def lost(self, is_allowed: Callable[[], Awaitable[bool]]) -> None:
        """Return when the caller may not see it any more."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            if not await is_allowed():
                return
            if not self._changed.is_set():
                self.send_queue.let_go()

    def _change(self, _topics: Iterable[str] = ()) -> None:
        self._changed.set()
        self.send_queue.hold()


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
