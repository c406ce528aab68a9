"""The calls of jobs that wait, outside of Django: those that follow events, and claims with `wait`. For a claim Django
is called, and called again when the notifier wakes it; in between nothing is held."""

import asyncio
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from io import BytesIO
from typing import Final, TypeVar

from django.http.response import HttpResponseBase

from core import api, asgi
from core.asgi import Receive, Scope, Send
from jobs import http, operations
from jobs.errors import TooManyOpen
from jobs.protocol import answers, sessions
from jobs.protocol.jobs import API
from jobs.waiting.events import EventStream
from jobs.waiting.matching import Changes
from jobs.waiting.notifier import Notifier, Wakeup
from jobs.waiting.requests import Connection, Django, Handler, Places
from live import hub
from live.hub import Subscription
from postgres import connections

T = TypeVar("T")
MOST_OF_ONE_KEY: Final = 2000  # claims that wait in this process; a key may be of a whole room of machines
_CLAIM: Final = f"{API}/worker/claim"
ADDRESSES: Final = re.compile(rf"{API}/(?:worker/claim|(?:jobs/(?:[0-9]{{1,19}}/)?)?events)")


class Waiting:
    """Serves ADDRESSES. `notifier` gives the process's notifier, made when it is first wanted."""

    def __init__(self, handler: Handler, *, notifier: Callable[[], Notifier], stopping: asyncio.Event) -> None:
        self._handler = handler
        self._notifier = notifier
        self._stopping = stopping
        self._places = Places()
        self._changes = Changes()
        self._django = Django(handler)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if scope["method"] == "POST" and path == _CLAIM:
            waits = LongPoll(self._django, self._notifier(), self._stopping, self._places)
            await waits.serve(scope, receive, send)
        elif scope["method"] == "GET" and path != _CLAIM:
            await EventStream(self._django, self._stopping, self._places, self._changes).serve(scope, receive, send)
        else:
            await self._handler(scope, receive, send)


@dataclass(frozen=True, slots=True, kw_only=True)
class Woken:
    """Why somebody who waited claims again: they were woken, or (None) their rights may have changed."""

    wakeup: Wakeup | None


class LongPoll:
    def __init__(self, django: Django, notifier: Notifier, stopping: asyncio.Event, places: Places) -> None:
        self._django = django
        self._places = places
        self._notifier = notifier
        self._stopping = stopping
        self._loop = asyncio.get_running_loop()
        self._rights: Subscription | None = None
        self._is_touched = False
        self._waiting: asyncio.Task[Wakeup | None] | None = None

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with jobs as soon as there are some, with none when the wait is over or the process ends.

        For a client that has gone nothing is claimed, and what was claimed at that moment is taken back.
        """
        try:
            body = await asgi.whole(receive)
        except asgi.ClientGone:
            return
        try:
            with Connection(receive) as client:
                answer = await self._first_answer(scope, body, client)
                if not client.is_gone:
                    await self._django.send(answer, send)
                elif (claimed := _noted(answer, answers.Claimed)) is not None:
                    await connections.run(_withdraw, http.bearer(asgi.header(scope, "authorization")), claimed)
        except TooManyOpen as refusal:
            await self._django.send(api.refused(refusal), send)
        finally:
            if self._rights is not None:
                self._rights.close()

    async def _first_answer(self, scope: Scope, body: bytes, client: Connection) -> HttpResponseBase:
        """The first answer that has something in it, or the last one; at once that its worker was drained meanwhile."""
        woken: Woken | None = None
        since = self._loop.time()
        while True:
            polled_at = self._loop.time()
            answer = await self._call(scope, body, woken.wakeup if woken else None)
            if (waits := _noted(answer, http.Waits)) is None or self._stopping.is_set():
                return answer
            remaining_s = since + waits.wait_s - self._loop.time()
            if remaining_s <= 0 or (woken is not None and woken.wakeup is None and waits.is_drained):
                return answer
            key = http.bearer(asgi.header(scope, "authorization"))
            with self._places.one(("claims", key), most=MOST_OF_ONE_KEY, of="worker"):
                waiting = self._wait(key, waits, polled_at=polled_at, timeout_s=remaining_s)
                woken = await client.during(waiting)
            if woken is None:
                return answer
            if client.is_gone:
                if woken.wakeup is not None:
                    woken.wakeup.passed()
                return answer

    async def _wait(self, key: str, waits: http.Waits, *, polled_at: float, timeout_s: float) -> Woken | None:
        """Why to call again; None when the wait is over. A revoked key calls at once, and is refused."""
        if self._rights is None:
            self._rights = hub.current().watch_topics(waits.rights, self._touch)
            await self._check_worker(key, waits)
        if not self._is_touched:
            self._waiting = asyncio.ensure_future(
                self._notifier.wait(waits.interest, polled_at=polled_at, timeout_s=timeout_s, claims_itself=True)
            )
            try:
                wakeup = await self._waiting
                return None if wakeup is None else Woken(wakeup=wakeup)
            except asyncio.CancelledError:
                if not self._is_touched:
                    raise
        self._is_touched = False
        return Woken(wakeup=None)

    def _touch(self, _topics: Iterable[str] = ()) -> None:
        self._is_touched = True
        if self._waiting is not None:
            self._waiting.cancel()

    async def _check_worker(self, key: str, waits: http.Waits) -> None:
        """Notice what was done to the key, or to its worker, after the first answer and before changes were watched."""
        try:
            worker = await connections.run(operations.authenticate, key)
            has_changed = waits.is_drained != (worker.drained_at is not None) or (
                not waits.is_drained and waits.interest.satisfies != tuple(sorted(worker.satisfies))
            )
            self._is_touched = self._is_touched or has_changed
        except Exception:  # whatever it is, Django's answer explains it
            self._is_touched = True

    async def _call(self, scope: Scope, body: bytes, wakeup: Wakeup | None) -> HttpResponseBase:
        """Call once; a wakeup ends with that, whatever comes of it."""
        got_jobs = False
        try:
            answer = await self._django.call(scope, BytesIO(body))
            got_jobs = _noted(answer, answers.Claimed) is not None
            return answer
        finally:
            if wakeup is not None:
                wakeup.used() if got_jobs else wakeup.passed()


def _withdraw(key: str, claimed: answers.Claimed) -> None:
    """Nobody got these jobs: they are for others at once, not only when their leases run out."""
    sessions.withdraw(key, {job.id: job.lease for job in claimed.jobs})


def _noted(answer: HttpResponseBase, note: type[T]) -> T | None:
    return answer.note if isinstance(answer, http.Noted) and isinstance(answer.note, note) else None
