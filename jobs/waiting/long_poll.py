"""`claim` with `wait`: Django is asked, and asked again when the bell says so; in between nothing is held."""

import asyncio
import json
import logging
import math
from typing import Any, Final

from jobs import http
from jobs.waiting import asking, clients
from jobs.waiting.asking import Answer, Django, Receive, Scope, Send
from jobs.waiting.bell import Bell
from jobs.waiting.rings import Turn
from jobs.waiting.stopping import Stopping
from jobs.wire.jobs import API

logger = logging.getLogger("jobs")
LONGEST_WAIT_S: Final = 60.0


class LongPoll:
    """Serves one claim."""

    def __init__(self, django: Django, bell: Bell, stopping: Stopping) -> None:
        self._django = django
        self._bell = bell
        self._stopping = stopping
        self._loop = asyncio.get_running_loop()

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with jobs as soon as there are some, with none when the wait is over or the process ends.

        For a client that has gone nothing is claimed, and what was claimed at that moment is given back.
        """
        try:
            body = await clients.body(receive)
        except clients.ClientGone:
            return
        until = self._loop.time() + _wait_s(body)
        client = clients.Presence(receive)
        try:
            answer = await self._first_answer(scope, body, client, until=until)
            if not client.is_gone:
                await answer.send(send)
            else:
                await self._give_back(scope, answer)
        finally:
            client.close()

    async def _first_answer(
        self, scope: Scope, body: bytes, client: clients.Presence, *, until: float
    ) -> Answer:
        """The first answer that has something in it, or the last one."""
        turn: Turn | None = None
        while True:
            asked_at = self._loop.time()
            answer = await self._ask(scope, body, turn)
            waits_for = answer.notes.get(http.WAITS_FOR.lower())
            left_s = until - self._loop.time()
            if waits_for is None or left_s <= 0 or self._stopping:
                return answer
            interest = http.read_waits_for(waits_for)
            turn = await client.during(self._bell.wait(interest, asked_at=asked_at, timeout_s=left_s))
            if turn is None:
                return answer
            if client.is_gone:
                turn.passed()
                return answer

    async def _ask(self, scope: Scope, body: bytes, turn: Turn | None) -> Answer:
        """Ask once; a turn ends with that, whatever comes of it."""
        found = False
        try:
            answer = await self._django.ask(scope, body)
            found = bool(_jobs(answer))
            return answer
        finally:
            if turn is not None:
                turn.used() if found else turn.passed()

    async def _give_back(self, scope: Scope, answer: Answer) -> None:
        for job in _jobs(answer):
            path = f"{API}/worker/jobs/{job['id']}/release"
            body = json.dumps({"lease": job["lease"]}).encode()
            released = await self._django.ask(asking.elsewhere(scope, method="POST", path=path), body)
            if released.status != 200:
                logger.warning("Could not give job %s back: %s", job["id"], released.body[:200])


def _jobs(answer: Answer) -> list[Any]:
    told = answer.json if answer.status == 200 else None
    return list(told["jobs"]) if isinstance(told, dict) else []


def _wait_s(body: bytes) -> float:
    """How long the body asks to wait. Whether that is allowed is for Django to say: it sees the same body."""
    try:
        asked = json.loads(body)["wait"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return 0.0
    is_number = isinstance(asked, int | float) and not isinstance(asked, bool)
    return min(max(float(asked), 0.0), LONGEST_WAIT_S) if is_number and math.isfinite(asked) else 0.0
