"""The worker's WebSocket: the verbs of HTTP as messages, and what the farm has to say unasked (docs/api.md).

A plain ASGI application: a Channels consumer would add a channel of the layer to each socket, and we need none.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from core import asgi
from core.asgi import Message, Receive, Scope, Send
from core.refusal import Refusal
from jobs import http
from jobs.errors import InvalidKey, LeaseLost
from jobs.protocol import messages, sessions
from jobs.protocol.messages import Call, Unreadable
from jobs.protocol.sessions import Arrival, Performed
from jobs.queries.reads import Interest
from jobs.waiting.calls import Calls, Received, Sort
from jobs.waiting.notifier import NEVER, Notifier, Wakeup
from jobs.waiting.presence import Seen
from live import hub
from postgres import connections
from postgres.reachability import note_trouble

logger = logging.getLogger("jobs")

KEY_REFUSED: Final = 4401
BROKEN: Final = 1011
COME_AGAIN: Final = 1013
MOST_QUEUED: Final = 64  # calls received and not yet done, beside one for each job that the worker holds
TOO_MANY: Final = {"error": "too_many", "message": f"Wait for answers: over {MOST_QUEUED} messages are unanswered."}

LOOK_S: Final = 1.0  # what a claim has seen is good for so long, if nothing is heard of meanwhile
Store = Callable[[list[Call]], Awaitable[Sequence[Performed | Refusal | None]]]
Refuse = Callable[[Exception], tuple[int, Mapping[str, Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What the worker's last claim saw: at this moment of the loop's clock there was no more for the worker, which was
    as `touches` counts, in these queues."""

    at: float
    touches: int
    queues: Sequence[str] | None
    interest: Interest


class WorkerSocket:
    """The application for `/ws/worker/`. `refuse` gives the status and body of an error for a worker.

    A wrong key is let in and shown out with code 4401: a refused handshake would look like a server without
    sockets. While the database is away no key can be checked: code 1013.
    """

    def __init__(self, *, notifier: Callable[[], Notifier], seen: Seen, refuse: Refuse) -> None:
        self._notifier = notifier
        self._seen = seen
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        try:
            key = http.bearer(asgi.header(scope, "authorization"))
            arrival = await connections.run(sessions.arrive, key)
        except InvalidKey:
            await send({"type": "websocket.close", "code": KEY_REFUSED, "reason": "key refused"})
            return
        except Exception as error:
            is_passing = note_trouble(logger, "A worker could not be let in", error)
            code, reason = (COME_AGAIN, "come again later") if is_passing else (BROKEN, "internal error")
            await send({"type": "websocket.close", "code": code, "reason": reason})
            return
        self._seen.came(arrival.worker.pk)
        try:
            await Session(key, arrival, notifier=self._notifier(), refuse=self._refuse, send=send).serve(receive)
        finally:
            self._seen.went(arrival.worker.pk)


class Session:
    """One worker while it is connected.

    Six tasks and no slow work in any of them: one receives calls, one for each sort of call performs them, one watches
    the worker's leases. Another one waits at the notifier while the worker has too little to do: for the claim that
    waits for its answer, which is then made again, or else to push that there is work. A worker that has once claimed
    with `wait` gets no such pushes: it would not come for them, and hold up whoever would.
    """

    def __init__(self, key: str, arrival: Arrival, *, notifier: Notifier, refuse: Refuse, send: Send) -> None:
        self._key = key
        self._leases = dict(arrival.leases)
        self._interest = arrival.interest
        self._is_drained = False  # as far as the worker was notified
        self._queues: Sequence[str] | None = None
        self._worker = arrival.worker
        self._notifier = notifier
        self._refuse = refuse
        self._send_raw = send
        self._sending = asyncio.Lock()
        self._calls = Calls()
        self._parked: Received | None = None  # the claim that waits for its answer
        self._claims_with_wait = False
        self._touched = asyncio.Event()
        self._touches = 0
        self._wakeup: Wakeup | None = None
        self._look: Look | None = None
        self._waiting: asyncio.Task[None] | None = None
        self._is_gone = False

    async def serve(self, receive: Receive) -> None:
        topics = [f"worker:{self._worker.pk}"]
        topics += [] if self._worker.owner_id is None else [f"user:{self._worker.owner_id}"]
        subscription = hub.current().watch_topics(topics, self._touch)
        self._touch()  # for what happened between the check of the key and this moment
        doing = {asyncio.create_task(self._do(sort)) for sort in Sort}
        others = [asyncio.create_task(self._receive(receive)), asyncio.create_task(self._watch_leases())]
        self._wait_for_work(self._interest, polled_at=NEVER)
        try:
            done, _ = await asyncio.wait({*doing, *others}, return_when=asyncio.FIRST_COMPLETED)
            await self._part(done)
        finally:
            subscription.close()
            await self._end(doing, others)

    def _touch(self, _topics: Iterable[str] = ()) -> None:
        self._touches += 1
        self._touched.set()

    async def _receive(self, receive: Receive) -> None:
        while True:
            message = await receive()
            if message["type"] == "websocket.disconnect":
                self._is_gone = True
                return
            await self._take(message)

    async def _take(self, message: Message) -> None:
        try:
            call = messages.read(message.get("text"))
        except Unreadable as unreadable:
            await self._refuse_to(unreadable.ref, unreadable.why)
            return
        if len(self._calls) < MOST_QUEUED + len(self._leases):
            self._calls.put(Received(call=call, until=_now() + sessions.wait_s(call)))
        else:
            await self._send(messages.error(call.ref, status=429, body=TOO_MANY))

    async def _do(self, sort: Sort) -> None:
        """Perform the calls of this sort, one after the other. When the worker is gone, what it reported still
        counts."""
        while calls := await self._calls.next(sort):
            touches = self._touches
            try:
                await self._perform(calls, sort)
            except Exception:
                self._calls.abandon()
                raise
            finally:
                self._calls.done(calls)
            if touches != self._touches:
                self._touched.set()  # a job may have been taken from us before we had noted that it was ours

    async def _perform(self, calls: Sequence[Received], sort: Sort) -> None:
        if sort is Sort.OUTPUT:
            await self._write(calls, partial(sessions.write_by_loop, self._key))
        elif sort is Sort.WRITE:
            await self._write(calls, lambda sent: connections.run(sessions.write, self._key, sent))
        else:
            await self._do_next(calls[0])

    async def _do_next(self, received: Received) -> None:
        call = sessions.without_claiming(received.call) if self._is_gone else received.call
        if received.is_over:
            await self._send(messages.answer(received.call, sessions.nothing(is_drained=self._is_drained)))
        elif call is not None:
            await self._do_one(replace(received, call=call))

    async def _write(self, pieces: Sequence[Received], store: Store) -> None:
        """Store pieces of output; what takes a thread waits for one. Where one of several makes all fail, each is
        stored by itself."""
        try:
            answers = await store([piece.call for piece in pieces])
        except InvalidKey:
            raise
        except Exception as error:
            if len(pieces) == 1:
                await self._failed(pieces[0].call, error)
                return
            logger.debug("Pieces of output are stored one by one", exc_info=error)
            for piece in pieces:
                await self._write([piece], store)
            return
        for piece, answer in zip(pieces, answers, strict=True):
            if answer is None:
                self._calls.set_aside(piece)
            elif isinstance(answer, Refusal):
                await self._refused(piece.call, answer)
            else:
                await self._answer(piece, answer, polled_at=NEVER, claims=False)

    async def _do_one(self, received: Received) -> None:
        call = received.call
        claims = sessions.wanted_jobs(call) > 0
        if claims:
            await self._take_the_place(call)
            if (look := self._look_for(call)) is not None:
                self._parked, self._claims_with_wait, self._queues = received, True, sessions.queues(call)
                self._wait_for_work(look.interest, polled_at=look.at)
                return
        polled_at, touches = _now(), self._touches
        try:
            performed = await connections.run(sessions.perform, self._key, call)
        except InvalidKey:
            raise
        except Exception as error:
            await self._failed(call, error)
            return
        if claims:
            self._look = None
            if (interest := performed.waits_for) and sessions.is_claim(call) and sessions.claimed(performed.answer):
                self._look = Look(at=polled_at, touches=touches, queues=sessions.queues(call), interest=interest)
        await self._answer(received, performed, polled_at=polled_at, claims=claims)

    def _look_for(self, call: Call) -> Look | None:
        """The look that this claim would repeat, if it waits anyway. What came since then wakes it at once: the
        notifier knows. A worker that holds nothing looks anew, since it may steal now; so does one that waits for less
        than it may take to be woken."""
        look, self._look = self._look, None
        if look is None or not self._leases or sessions.wait_s(call) < LOOK_S:
            return None
        is_fresh = _now() < look.at + LOOK_S and look.touches == self._touches
        return look if is_fresh and look.queues == sessions.queues(call) else None

    async def _take_the_place(self, call: Call) -> None:
        """A new claim ends the waiting of the last one; other calls that bring jobs leave it alone."""
        if self._parked is None:
            self._stop_waiting()
        elif sessions.is_claim(call):
            parked, self._parked = self._parked, None
            self._stop_waiting()
            await self._send(messages.answer(parked.call, sessions.nothing(is_drained=self._is_drained)))

    async def _answer(self, received: Received, performed: Performed, *, polled_at: float, claims: bool) -> None:
        call = received.call
        jobs = sessions.claimed(performed.answer)
        sessions.note(self._leases, call, performed.answer)
        if claims:
            self._end_wakeup(got_jobs=bool(jobs))
        if self._is_gone:
            if jobs:  # nobody is there to take these: they are for others at once
                await connections.run(sessions.withdraw, self._key, {job.id: self._leases[job.id] for job in jobs})
            return
        self._notifier.note_holder(self._share, self._interest if len(self._leases) > 1 else None)
        self._claims_with_wait = self._claims_with_wait or sessions.wait_s(call) > 0
        if parks := sessions.is_claim(call) and not jobs and _now() < received.until:
            self._parked = received
        else:
            await self._send(performed.text)
        if performed.waits_for is not None and (parks or not self._claims_with_wait):
            self._queues = sessions.queues(call)
            self._wait_for_work(performed.waits_for, polled_at=polled_at)

    async def _watch_leases(self) -> None:
        """Whenever something about the worker changed: is its key good, are its jobs still its own?"""
        while True:
            await self._touched.wait()
            self._touched.clear()
            try:
                leases = dict(self._leases)
                examined = await connections.run(sessions.examine, self._key, leases, self._queues)
            except InvalidKey:
                raise
            except Exception:
                logger.exception("Could not look after worker %s; its next call will tell", self._worker.pk)
                continue
            await self._send_stops(examined.stopped, leases)
            if examined.is_drained != self._is_drained:
                self._is_drained = examined.is_drained
                await self._send(messages.drained(self._is_drained))
            waits = self._waiting is not None and not self._waiting.done()
            if waits and examined.interest != self._interest:
                self._wait_for_work(examined.interest, polled_at=NEVER)

    async def _send_stops(self, stopped: Mapping[int, str], examined: sessions.Leases) -> None:
        for job_id, reason in stopped.items():
            # Finished by its worker or claimed anew since the examination: then there is nothing to stop.
            if self._leases.get(job_id) == examined[job_id]:
                del self._leases[job_id]
                await self._send(messages.stop(job_id, fence=examined[job_id].fence, reason=reason))

    def _wait_for_work(self, interest: Interest, *, polled_at: float) -> None:
        self._stop_waiting()
        self._interest = interest
        if (parked := self._parked) is None:
            waiting = self._push_work(polled_at)
        else:
            self._notifier.note_holder(self._share, None)  # who waits has begun all that it has
            waiting = self._wait_parked(parked, polled_at)
        self._waiting = asyncio.create_task(waiting)

    async def _push_work(self, polled_at: float) -> None:
        wakeup = await self._notifier.wait(self._interest, polled_at=polled_at, timeout_s=None)
        if wakeup is not None:
            self._wakeup = wakeup
            await self._send(messages.work())

    async def _wait_parked(self, parked: Received, polled_at: float) -> None:
        """Have the parked claim made again when there may be jobs, or answered when its time is over."""
        remaining_s = max(0.0, parked.until - _now())
        wakeup = await self._notifier.wait(
            self._interest, polled_at=polled_at, timeout_s=remaining_s, claims_itself=True
        )
        self._wakeup, self._parked = wakeup, None
        self._calls.put(replace(parked, is_over=wakeup is None))

    async def _share(self) -> None:
        """Somebody waits for what this worker may not have begun; of one job alone there is nothing to share."""
        await self._send(messages.share())

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _end_wakeup(self, *, got_jobs: bool) -> None:
        if self._wakeup is not None:
            wakeup, self._wakeup = self._wakeup, None
            wakeup.used() if got_jobs else wakeup.passed()

    async def _failed(self, call: Call, error: Exception) -> None:
        """Whatever it is, the worker gets it as an answer, and the socket lives on."""
        if sessions.wanted_jobs(call):
            self._end_wakeup(got_jobs=False)
        await self._refused(call, error)

    async def _refused(self, call: Call, error: Exception) -> None:
        if isinstance(error, LeaseLost):
            sessions.note(self._leases, call, None)
        await self._refuse_to(call.ref, error)

    async def _refuse_to(self, ref: Any, error: Exception) -> None:
        status, body = self._refuse(error)
        await self._send(messages.error(ref, status=status, body=body))

    async def _send(self, text: str) -> None:
        """Send one message. To a worker that is gone nothing is sent; `_receive` notices that it is."""
        async with self._sending:
            if not self._is_gone:
                with contextlib.suppress(OSError):
                    await self._send_raw({"type": "websocket.send", "text": text})

    async def _part(self, done: set[asyncio.Task[None]]) -> None:
        """Close the socket if it was us who ended it: the key was refused, or something broke."""
        error = next((task.exception() for task in done if task.exception()), None)
        if error is None:
            return
        refused = isinstance(error, InvalidKey)
        code, reason = (KEY_REFUSED, "key revoked") if refused else (BROKEN, "internal error")
        async with self._sending:
            self._is_gone = True
            with contextlib.suppress(OSError):
                await self._send_raw({"type": "websocket.close", "code": code, "reason": reason})

    async def _end(self, doing: set[asyncio.Task[None]], others: list[asyncio.Task[None]]) -> None:
        """Let the calls be performed, then go; a wakeup that was ours passes to the next one."""
        self._is_gone = True
        self._notifier.note_holder(self._share, None)
        self._stop_waiting()
        self._end_wakeup(got_jobs=False)
        for task in others:
            task.cancel()
        self._calls.end()
        await asyncio.wait({*doing, *others})
        for task in (*doing, *others):
            if not task.cancelled() and (error := task.exception()) and not isinstance(error, InvalidKey):
                logger.error("A worker's socket failed", exc_info=error)


def _now() -> float:
    return asyncio.get_running_loop().time()
