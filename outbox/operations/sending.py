"""Sending in a thread of its own, and one request by itself; what sends is loaded where something is sent."""

import asyncio
import logging
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Final

from outbox.domain.addresses import Answer

if TYPE_CHECKING:
    from outbox.operations.sender import Sender

AGAIN_S: Final = 1.0  # after a fault of ours, so that it is no hot loop
_ENDS_S: Final = 8.0  # a janitor has ten seconds to end
log = logging.getLogger(__name__)


class Background:
    def __init__(self) -> None:
        self._must_stop = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sender: Sender | None = None
        self._thread = threading.Thread(target=self._live, name="outbox", daemon=True)

    def __enter__(self) -> "Background":
        self._thread.start()
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self._must_stop.set()
        if self._loop is not None and self._sender is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._sender.stop)
        self._thread.join(_ENDS_S)

    def _live(self) -> None:
        while not self._must_stop.is_set():
            try:
                asyncio.run(self._run())
            except Exception:  # a janitor goes on, and so does its sender
                log.exception("the sender of the outbox failed and starts again")
                self._must_stop.wait(AGAIN_S)

    async def _run(self) -> None:
        from outbox.operations.sender import Sender  # noqa: PLC0415 (its libraries load in 0.1 s, for who sends alone)

        self._sender, self._loop = Sender(), asyncio.get_running_loop()
        if self._must_stop.is_set():
            self._sender.stop()
        await self._sender.run()


def send(url: str, body: bytes, *, headers: Mapping[str, str] | None = None, timeout_s: float | None = None) -> Answer:
    """Post these bytes to an address that somebody named, within `timeout_s` in all (OUTBOX_TIMEOUT_S).

    For code without an event loop of its own, and never in a mutation. Raises BadUrl. Whatever else goes wrong is in
    the answer: a name that stands for an address that is not public is refused unless OUTBOX_ALLOWED_NETWORKS has it.
    """
    return asyncio.run(_send(url, body, headers or {}, timeout_s))


async def _send(url: str, body: bytes, headers: Mapping[str, str], timeout_s: float | None) -> Answer:
    from outbox.operations.http import Client  # noqa: PLC0415 (its libraries load in 0.1 s, for those who send alone)

    async with Client(connections=1) as client:
        return await client.post(url, body, headers=headers, timeout_s=timeout_s)
