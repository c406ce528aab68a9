"""`claim` with `wait`: Django is called, and called again when the notifier wakes it; in between nothing is held."""

import asyncio
import json
from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from core import asgi, bodies
from core.asgi import Receive, Scope, Send
from jobs import http, operations
from jobs.domain.leases import Lease
from jobs.protocol import sessions
from jobs.waiting import clients
from jobs.waiting.notifier import Notifier, Stopping
from jobs.waiting.places import Places
from jobs.waiting.upstream import Answer, Django
from jobs.waiting.wait_groups import Wakeup
from live import hub
from live.subscriptions import Subscription
from postgres import connections

LONGEST_WAIT_S: Final = 60.0
MOST_OF_ONE_KEY: Final = 2000  # claims that wait in this process; a key may be of a whole room of machines


@dataclass(frozen=True, slots=True, kw_only=True)
class Woken:
    """Why somebody who waited claims again: they were woken, or (None) their rights may have changed."""

    wakeup: Wakeup | None


class LongPoll:
    def __init__(self, django: Django, notifier: Notifier, stopping: Stopping, places: Places) -> None:
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
            body = await bodies.whole(receive)
        except bodies.ClientGone:
            return
        until = self._loop.time() + _wait_s(body)
        client = clients.Connection(receive)
        try:
            answer = await self._first_answer(scope, body, client, until=until)
            if not client.is_gone:
                await answer.send(send)
            else:
                await self._withdraw(scope, answer)
        finally:
            client.close()
            if self._rights is not None:
                self._rights.close()

    async def _first_answer(self, scope: Scope, body: bytes, client: clients.Connection, *, until: float) -> Answer:
        """The first answer that has something in it, or the last one; at once that its worker was drained meanwhile."""
        woken: Woken | None = None
        while True:
            polled_at = self._loop.time()
            answer = await self._call(scope, body, woken.wakeup if woken else None)
            remaining_s = until - self._loop.time()
            if (waits := _waits(answer)) is None or remaining_s <= 0 or self._stopping:
                return answer
            if woken is not None and woken.wakeup is None and waits.is_drained:
                return answer
            key = http.bearer(asgi.header(scope, "authorization"))
            with self._places.one(("claims", key), most=MOST_OF_ONE_KEY, of="worker") as refusal:
                if refusal is not None:
                    return refusal
                waiting = self._wait(scope, waits, polled_at=polled_at, timeout_s=remaining_s)
                woken = await client.during(waiting)
            if woken is None:
                return answer
            if client.is_gone:
                if woken.wakeup is not None:
                    woken.wakeup.passed()
                return answer

    async def _wait(self, scope: Scope, waits: http.Waits, *, polled_at: float, timeout_s: float) -> Woken | None:
        """Why to call again; None when the wait is over. A revoked key calls at once, and is refused."""
        if self._rights is None:
            self._rights = hub.current().watch_topics(waits.rights, self._touch)
            await self._check_worker(scope, waits)
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

    async def _check_worker(self, scope: Scope, waits: http.Waits) -> None:
        """Notice what was done to the key, or to its worker, after the first answer and before changes were watched."""
        try:
            key = http.bearer(asgi.header(scope, "authorization"))
            worker = await connections.run(operations.authenticate, key)
            has_changed = waits.is_drained != (worker.drained_at is not None) or (
                not waits.is_drained and waits.interest.satisfies != tuple(sorted(worker.satisfies))
            )
            self._is_touched = self._is_touched or has_changed
        except Exception:  # whatever it is, Django's answer explains it
            self._is_touched = True

    async def _call(self, scope: Scope, body: bytes, wakeup: Wakeup | None) -> Answer:
        """Call once; a wakeup ends with that, whatever comes of it. An answer without a note of what its claim waits
        for has jobs: a hundred of them are megabytes, which nobody decodes here."""
        got_jobs = False
        try:
            answer = await self._django.call(scope, body)
            got_jobs = answer.status == HTTPStatus.OK and _waits(answer) is None
            return answer
        finally:
            if wakeup is not None:
                wakeup.used() if got_jobs else wakeup.passed()

    async def _withdraw(self, scope: Scope, answer: Answer) -> None:
        """Nobody got this answer: its jobs are for others at once, not only when their leases run out."""
        if answer.status == HTTPStatus.OK and _waits(answer) is None:
            await connections.run(_withdraw, http.bearer(asgi.header(scope, "authorization")), answer)


def _withdraw(key: str, answer: Answer) -> None:
    leases = {job["id"]: Lease.parse(job["lease"]) for job in answer.json["jobs"]}
    sessions.withdraw(key, leases)


def _waits(answer: Answer) -> http.Waits | None:
    note = answer.notes.get(http.WAITS_FOR.lower())
    return None if note is None else http.read_waits_for(note)


def _wait_s(body: bytes) -> float:
    """The seconds to wait that the body names. Whether they are allowed Django decides: it gets the same body."""
    try:
        wait = json.loads(body)["wait"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return 0.0
    is_number = isinstance(wait, int | float) and not isinstance(wait, bool)
    # Compared before it is made a float: a whole number of 310 digits is none.
    return float(wait) if is_number and 0 <= wait <= LONGEST_WAIT_S else 0.0
