"""What one socket, or one event stream, has yet to be sent: the latest of each state, all of each stream."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from live.feeds import Watch
from live.rendering import Page, Rendering

_BACKLOG_BYTES: Final = 1_000_000  # of stream text that one slow reader may hold in memory, and a page more


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message. `seen` is the version or cursor after it, `encoded` a state as JSON; of items, the `page`
    that all who watch share."""

    kind: Literal["html", "data", "items", "gone"]
    watch_id: str
    seen: str = ""
    encoded: str = ""
    page: Page | None = None

    @property
    def size(self) -> int:
        """Characters of a stream's text, about."""
        return 0 if self.page is None else len(self.page.text)

    def text(self) -> str:
        about, seen = json.dumps(self.watch_id), json.dumps(self.seen)
        if self.kind == "gone":
            return f'{{"gone":{about}}}'
        if self.page is not None:
            return f'{{"append":{about},"cursor":{seen},"items":{self.page.encoded}}}'
        return f'{{"state":{about},"version":{seen},"{self.kind}":{self.encoded}}}'


class SendQueue:
    """A Sink for the hub, and the other end for whoever sends. Belongs to one event loop and one sender.

        here = hub.current()
        watch = here.watch(send_queue, "job", {"job_id": 7}, watch_id="1", audience="member", language="en")
        while True:
            for message in await send_queue.take():
                await send(message.text())

    A state that was not taken yet is superseded by the next. A stream that has more than the backlog waiting
    is paused, and read on from its cursor when the sender has sent what it took: a slow reader costs no
    memory and loses nothing.
    """

    def __init__(self, *, backlog_bytes: int = _BACKLOG_BYTES) -> None:
        self._backlog_bytes = backlog_bytes
        self._pending: dict[tuple[str, Watch], list[Message]] = {}
        self._waiting_bytes = 0
        self._paused: dict[Watch, None] = {}
        self._is_held = False
        self._wakeup = asyncio.Event()

    def state(self, watch: Watch, latest: Rendering) -> None:
        kind: Literal["html", "data"] = "html" if latest.kind == "html" else "data"
        message = Message(kind=kind, watch_id=watch.watch_id, seen=latest.version, encoded=latest.encoded)
        self._put("state", watch, [message])

    def append(self, watch: Watch, page: Page) -> bool:
        """Add to what is pending; False from the backlog on, until the sender has sent it."""
        message = Message(kind="items", watch_id=watch.watch_id, seen=page.cursor, page=page)
        self._pending.setdefault(("items", watch), []).append(message)
        self._wakeup.set()
        self._waiting_bytes += message.size
        if self._waiting_bytes < self._backlog_bytes:
            return True
        self._paused[watch] = None
        return False

    def gone(self, watch: Watch) -> None:
        """Send that the watch ended, instead of what was pending for it."""
        self.forget(watch)
        self._put("gone", watch, [Message(kind="gone", watch_id=watch.watch_id)])

    def forget(self, watch: Watch) -> None:
        self._pending.pop(("state", watch), None)
        self._pending.pop(("gone", watch), None)
        dropped = self._pending.pop(("items", watch), [])
        self._waiting_bytes -= sum(message.size for message in dropped)
        self._paused.pop(watch, None)

    def hold(self) -> None:
        """Give nothing out until `let_go`: what comes meanwhile may be for whoever may not see it any more."""
        self._is_held = True

    def let_go(self) -> None:
        self._is_held = False
        self._wakeup.set()

    async def take(self) -> Sequence[Message]:
        """Wait for messages and take all of them, oldest first. Taking again confirms that the last were sent."""
        self._resume()
        while self._is_held or not self._pending:
            self._wakeup.clear()
            await self._wakeup.wait()
        messages = [message for messages in self._pending.values() for message in messages]
        self._pending.clear()
        return messages

    def _put(self, kind: str, watch: Watch, messages: list[Message]) -> None:
        self._pending[kind, watch] = messages
        self._wakeup.set()

    def _resume(self) -> None:
        waiting = (messages for (kind, _), messages in self._pending.items() if kind == "items")
        self._waiting_bytes = sum(message.size for messages in waiting for message in messages)
        if self._waiting_bytes < self._backlog_bytes:
            paused, self._paused = self._paused, {}
            for watch in paused:
                watch.resume()
