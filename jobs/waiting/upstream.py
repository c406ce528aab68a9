"""Calling Django from outside: a whole request in, a whole answer out, a few at a time."""

import asyncio
import json
from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Final

from core import bodies
from core.asgi import App, Header, Message, Receive, Scope, Send

# Each request inside of Django holds a thread and, while it reads, a connection of the pool (20 by default).
# A thousand waiters that are woken together call one after the other instead of starving everybody else.
AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What Django answered, without the notes that were meant for us."""

    status: int
    headers: tuple[Header, ...]
    body: bytes
    notes: MutableMapping[str, str] = field(default_factory=dict)

    @property
    def json(self) -> Any:
        """The body as JSON; None if it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    async def send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status, "headers": list(self.headers)})
        await send({"type": "http.response.body", "body": self.body})


class Django:
    """The application inside, as those who wait use it.

    `notes` are the headers that it writes for us alone.
    """

    def __init__(self, app: App, *, notes: Iterable[str]) -> None:
        self._app = app
        self._notes = {name.lower() for name in notes}
        self._gate = asyncio.Semaphore(AT_ONCE)
        self._under_way: set[asyncio.Task[Answer]] = set()

    async def call(self, scope: Scope, body: bytes | bodies.Spooled) -> Answer:
        """Have it answer this request; `body` is the whole body. It never learns that the client went away.

        A claim that is under way when the client goes must come to its end, or its jobs would be nobody's
        until their leases run out. A caller that is canceled meanwhile is so at once: Django's handler takes a
        cancellation for its own at times, and the caller would go on for ever.
        """
        task = asyncio.ensure_future(self._call(scope, body))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return await asyncio.shield(task)

    async def _call(self, scope: Scope, body: bytes | bodies.Spooled) -> Answer:
        async with self._gate:
            replies: list[Message] = []
            await self._app(_once(scope), _receiving(body), _collecting(replies))
        return self._answer(replies)

    def _answer(self, replies: list[Message]) -> Answer:
        start = next(reply for reply in replies if reply["type"] == "http.response.start")
        pieces = [reply.get("body", b"") for reply in replies if reply["type"] == "http.response.body"]
        named = [(name.decode("latin-1").lower(), name, value) for name, value in start["headers"]]
        return Answer(
            status=start["status"],
            headers=tuple((name, value) for lower, name, value in named if lower not in self._notes),
            body=b"".join(pieces),
            notes={lower: value.decode("latin-1") for lower, _, value in named if lower in self._notes},
        )


def _once(scope: Scope) -> Scope:
    """A copy, since an application may write into its scope and we call several times."""
    return {**scope, "headers": list(scope["headers"]), "state": dict(scope.get("state", {}))}


def _receiving(body: bytes | bodies.Spooled) -> Receive:
    is_read = False

    async def receive() -> Message:
        nonlocal is_read
        if is_read:
            never: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
            return await never
        part, is_read = (body, True) if isinstance(body, bytes) else body.next_piece()
        return {"type": "http.request", "body": part, "more_body": not is_read}

    return receive


def _collecting(replies: list[Message]) -> Send:
    async def send(message: Message) -> None:
        replies.append(message)

    return send
