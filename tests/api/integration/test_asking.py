"""Django as those who wait ask it: what it began it ends, and whoever stops waiting does so at once."""

import asyncio
from io import BytesIO
from typing import IO, Any, cast

from django.http import HttpResponse

from core.asgi import Scope
from jobs.waiting.requests import Django, Handler

SCOPE: dict[str, Any] = {"type": "http", "method": "GET", "path": "/", "headers": []}


class Slow:
    """Answers when it may. A cancellation it takes for its own, as Django's handler does at times."""

    def __init__(self) -> None:
        self.entered = 0
        self.requested = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.answered = asyncio.Event()

    async def send_response(self, response: HttpResponse, send: Any) -> None:
        """Nobody is sent anything here."""

    async def respond(self, scope: Scope, body: IO[bytes]) -> HttpResponse:
        """The answer."""
        self.entered += 1
        self.requested.set()
        while not self.may_answer.is_set():
            try:
                await self.may_answer.wait()
            except asyncio.CancelledError:
                continue
        self.answered.set()
        return HttpResponse(status=204)


async def test_who_is_canceled_while_asking_is_so_at_once_and_the_answer_is_still_made() -> None:
    app = Slow()
    asking = asyncio.create_task(Django(cast("Handler", app)).call(SCOPE, BytesIO()))
    await app.requested.wait()
    asking.cancel()
    await asyncio.wait({asking}, timeout=5)
    was_canceled = asking.cancelled()
    app.may_answer.set()
    await asyncio.wait_for(app.answered.wait(), timeout=5)
    assert was_canceled


async def test_eight_are_asked_at_once_and_the_others_in_their_turn() -> None:
    app = Slow()
    django = Django(cast("Handler", app))
    asking = [asyncio.create_task(django.call(SCOPE, BytesIO())) for _ in range(9)]
    await app.requested.wait()
    assert app.entered == 8
    app.may_answer.set()
    assert [answer.status_code for answer in await asyncio.gather(*asking)] == [204] * 9
    assert app.entered == 9
