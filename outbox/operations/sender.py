"""The sender: leases what is due, sends many at once, and writes what became of it; woken by NOTIFY. In a thread of its
own in the background; and one request by itself. What sends is loaded where something is sent.

One event loop sends; the database is asked in threads, all that ended meanwhile in one call. Any number of senders may
run. What one that was killed had in its hands is sent again, under the same id, when its lease is over.
"""

import asyncio
import contextlib
import logging
import random
import threading
from collections.abc import Callable, Coroutine, Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from django.conf import settings
from django.db import DatabaseError, InterfaceError

from live.layer import Listener
from observing import fields, numbers
from outbox import queries
from outbox.domain.addresses import Answer
from outbox.domain.messages import scheme_of
from outbox.operations import attempts
from outbox.operations.attempts import Claimed, Ended
from postgres import connections
from postgres.reachability import explain_unreachable

if TYPE_CHECKING:
    from outbox.operations.http import Client

POLL_S: Final = 15.0  # with nobody woken: a notification may get lost
# What ends or becomes due within it is one round of statements, so that a sender asks ten times a second at most.
GATHER_S: Final = 0.1
AWAY_S: Final = 1.0  # after a fault, or while somebody has a row locked, so that it is no hot loop
LAST_S: Final = 5.0  # for requests under way, when it is to end; a janitor has ten seconds
_LAST_TRIES: Final = 10  # to write what is locked, each after GATHER_S
_ENDS_S: Final = 8.0
_RNG = random.SystemRandom()
log = logging.getLogger(__name__)


class Sender:
    """Belongs to one event loop. `client` is for tests that have a resolver of their own."""

    def __init__(self, *, client: "Client | None" = None) -> None:
        self._client = client or _client(settings.OUTBOX["IN_FLIGHT"])
        self._in_flight: dict[asyncio.Task[None], Claimed] = {}
        self._ended: list[Ended] = []
        self._wakeup = asyncio.Event()
        self._must_stop = False

    def stop(self) -> None:
        """Let it end: it takes no more, and gives back what it cannot send in a few seconds. From its own loop."""
        self._must_stop = True
        self._wakeup.set()

    async def run(self) -> None:
        """Send until `stop`. A database that is away is waited for."""
        listening = asyncio.create_task(self._listen())
        try:
            while not self._must_stop:
                await self._wait(await self._guarded(self.round))
        finally:
            listening.cancel()
            await asyncio.wait([listening])
            await self._end()

    async def round(self) -> float:
        """Write what ended, take what is due; how many seconds it may sleep, unless it is woken."""
        self._wakeup.clear()
        await self._settle()
        room = settings.OUTBOX["IN_FLIGHT"] - len(self._in_flight)
        claimed = await connections.run(attempts.claim, room) if room > 0 else []
        for one in claimed:
            task = asyncio.create_task(self._send(one))
            self._in_flight[task] = one
            task.add_done_callback(self._forget)
        if claimed:
            return GATHER_S
        next_s = await connections.run(queries.next_due_s) if room > 0 else None
        longest_s = AWAY_S if self._ended else POLL_S
        return longest_s if next_s is None else min(max(next_s, GATHER_S), longest_s)

    async def drain(self) -> None:
        """Send what is due now, and what that lets become due, until nothing is."""
        while True:
            await self.round()
            if not self._in_flight and not self._ended:
                return
            if self._in_flight:
                await asyncio.wait(self._in_flight, return_when=asyncio.FIRST_COMPLETED)
            else:  # somebody has what is to be written locked
                await asyncio.sleep(AWAY_S)

    def _forget(self, task: asyncio.Task[None]) -> None:
        del self._in_flight[task]
        self._wakeup.set()

    async def _send(self, claimed: Claimed) -> None:
        now = datetime.now(UTC)  # noqa: TID251 (an edge: receivers compare it with their own clock)
        with fields.about(job_id=claimed.job_id):
            answer = await self._answer(claimed, now)
        self._ended.append(Ended(claimed=claimed, started_at=now, answer=answer))

    async def _answer(self, claimed: Claimed, now: datetime) -> Answer:
        if claimed.fault:
            return Answer(error=claimed.fault)
        try:
            if (scheme := scheme_of(claimed.url)) is not None:
                return await connections.run(attempts.hand_over, scheme, claimed)
            return await self._client.post(claimed.url, claimed.body, headers=claimed.headers(now=now))
        except Exception as error:  # a fault of ours must not leave the message leased and unexplained
            log.exception("the message %d could not be sent", claimed.id)
            return Answer(error=f"{attempts.UNSENT}{type(error).__name__}.")

    async def _settle(self) -> None:
        ended = self._ended[:]
        if ended:
            outcomes, self._ended[: len(ended)] = await connections.run(attempts.settle, ended)
            for outcome in outcomes:
                numbers.OUTBOX_ATTEMPTS.labels(outcome).inc()

    async def _guarded(self, step: Callable[[], Coroutine[Any, Any, float]]) -> float:
        try:
            return await step()
        except (DatabaseError, InterfaceError) as error:
            log.warning("the sender lost the database and tries again: %s", explain_unreachable(error) or error)
        except Exception:  # requests under way go on, and so do the messages of others
            log.exception("a round of the sender failed, and is tried again")
        return AWAY_S

    async def _wait(self, seconds: float) -> None:
        if seconds > GATHER_S and not self._must_stop:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wakeup.wait(), seconds)
        await asyncio.sleep(GATHER_S)

    async def _listen(self) -> None:
        await Listener(
            notify_channel="outbox", conninfo=connections.direct_conninfo, on_payload=lambda _: self._wakeup.set(),
            listening=self._wakeup.set, rng=_RNG,
        ).run()  # fmt: skip

    async def _end(self) -> None:
        if self._in_flight:
            await asyncio.wait(self._in_flight, timeout=LAST_S)
        unsent = dict(self._in_flight)
        for task in unsent:
            task.cancel()
        await asyncio.gather(*unsent, return_exceptions=True)
        with contextlib.suppress(DatabaseError, InterfaceError):  # their leases end by themselves
            await self._settle()
            await connections.run(attempts.release, list(unsent.values()))
            for _ in range(_LAST_TRIES):
                if self._ended:  # somebody has it locked, another sender for a moment: else it was sent again
                    await asyncio.sleep(GATHER_S)
                    await self._settle()
        await self._client.aclose()


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
                self._must_stop.wait(AWAY_S)

    async def _run(self) -> None:
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
    async with _client(1) as client:
        return await client.post(url, body, headers=headers, timeout_s=timeout_s)


def _client(connections: int) -> "Client":
    from outbox.operations.http import Client  # noqa: PLC0415 (its libraries load in 0.1 s, for those who send alone)

    return Client(connections=connections)
