"""`claim` with `wait`: Django is asked, and asked again when the bell says so; in between nothing is held."""

import asyncio
import json
import logging
import math
from typing import Any, Final

from jobs import http
from jobs.queries.reads import Interest
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
            try:
                answer = await self._django.ask(scope, body)
            finally:
                _end(turn, found=False)
            waits_for = answer.notes.get(http.WAITS_FOR.lower())
            if waits_for is None or self._stopping or client.is_gone:
                return answer
            left_s = until - self._loop.time()
            if left_s <= 0:
                return answer
            interest = http.read_waits_for(waits_for)
            turn = await client.during(self._turn(interest, asked_at=asked_at, timeout_s=left_s))
            if turn is None:
                return answer

    async def _turn(self, interest: Interest, *, asked_at: float, timeout_s: float) -> Turn | None:
        return await self._bell.wait(interest, asked_at=asked_at, timeout_s=timeout_s)

    async def _give_back(self, scope: Scope, answer: Answer) -> None:
        for job in _jobs(answer):
            path = f"{API}/worker/jobs/{job['id']}/release"
            body = json.dumps({"lease": job["lease"]}).encode()
            released = await self._django.ask(asking.elsewhere(scope, method="POST", path=path), body)
            if released.status != 200:
                logger.warning("Could not give job %s back: %s", job["id"], released.body[:200])
