"""Django as those who wait ask it: what it began it ends, and whoever stops waiting does so at once."""

import asyncio
from typing import Any

from core.asgi import Receive, Scope, Send
from jobs.waiting.upstream import Django

SCOPE: dict[str, Any] = {"type": "http", "method": "GET", "path": "/", "headers": []}


class Slow:
    """Answers when it may. A cancellation it takes for its own, as Django's handler does at times."""

    def __init__(self) -> None:
        self.requested = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.answered = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.requested.set()
        while not self.may_answer.is_set():
            try:
                await self.may_answer.wait()
            except asyncio.CancelledError:
                continue
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})
        self.answered.set()


async def test_who_is_canceled_while_asking_is_so_at_once_and_the_answer_is_still_made() -> None:
    app = Slow()
    asking = asyncio.create_task(Django(app, notes=[]).call(SCOPE, b""))
    await app.requested.wait()
    asking.cancel()
    await asyncio.wait({asking}, timeout=5)
    was_canceled = asking.cancelled()
    app.may_answer.set()
    await asyncio.wait_for(app.answered.wait(), timeout=5)
    assert was_canceled


async def test_eight_are_asked_at_once_and_the_others_in_their_turn() -> None:
    app = Slow()
    entered: list[int] = []

    async def counted(scope: Scope, receive: Receive, send: Send) -> None:
        entered.append(1)
        await app(scope, receive, send)

    django = Django(counted, notes=[])
    asking = [asyncio.create_task(django.call(SCOPE, b"")) for _ in range(9)]
    await app.requested.wait()
    assert len(entered) == 8
    app.may_answer.set()
    assert [answer.status for answer in await asyncio.gather(*asking)] == [204] * 9
    assert len(entered) == 9
