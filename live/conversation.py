"""One open page: what it watches, with which rights. Of the socket it knows only how to send."""

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser
from django.db import DatabaseError

from live import RECONNECTED, errors, hub, protocol, registry
from live.feeds import Watch
from live.hub import Subscription
from live.protocol import Bucket
from live.send_queue import SendQueue
from observing import fields, numbers

logger = logging.getLogger("live")

MOST_WATCHES: Final = 200
BROKEN: Final = 1011
NO_LONGER_YOU: Final = 4401  # logged out, deleted, inactive, another password
_RECHECK_EVERY_S: Final = 60.0  # rights are read again this often, should the message that they changed be lost
_RECHECK_SPREAD_S: Final = 15.0  # after a lost connection all pages check again: not all in the same second
_RETRY_IN_S: Final = 3.0  # when the database does not answer


@dataclass(slots=True, kw_only=True)
class _Watched:
    granted: protocol.Granted
    watch: Watch
    rights: Subscription


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """Some of a message, what it weighs, and when it came."""

    request: protocol.Request
    weight: int
    at: float


class Conversation:
    """Handles the page's messages, one after the other, beside the handler that receives them. `send` gets texts for
    the page; `shared` is what all pages of its address may ask for together. Lives on the loop it is made on."""

    def __init__(
        self, *, session_key: str | None, send: Callable[[str], Awaitable[None]], shared: Bucket | None = None
    ) -> None:
        self._session_key = session_key
        self._send = send
        self._sending = asyncio.Lock()
        self._loop = asyncio.get_running_loop()
        self._hub = hub.current()
        self._send_queue = SendQueue()
        self._user: AbstractBaseUser | AnonymousUser = AnonymousUser()
        self._counted_as: int | None = None  # whose socket it counts as
        self._rights_subscriptions: set[Subscription] = set()
        self._watched: dict[str, _Watched] = {}
        self._work: asyncio.Queue[_Piece] = asyncio.Queue()
        self._unserved = 0  # what the queue and the current piece weigh
        most, rate = settings.LIVE["BURST"], settings.LIVE["PER_SECOND"]
        self._most_unserved = 2 * most  # as much again may wait
        own = Bucket(capacity=most, rate=rate, now=self._loop.time())
        self._buckets = [own] if shared is None else [own, shared]
        self._next_at = 0.0
        self._recheck_at = 0.0
        self._pause: asyncio.Timeout | None = None

    def receive(self, text: str | None) -> None:
        """Queue a message of the page, without handling it. Raises BadMessage, and TooFast when more waits
        than a page could need."""
        weight = protocol.weight(text)
        self._weigh(weight)
        request = protocol.parse(text or "")
        self._weigh(len(request.watch))
        for piece in request.pieces():
            weight += len(piece.watch)
            self._work.put_nowait(_Piece(request=piece, weight=weight, at=self._loop.time()))
            weight = 0

    def _weigh(self, weight: int) -> None:
        self._unserved += weight
        if self._unserved > self._most_unserved:
            raise errors.TooFast

    async def run(self) -> int:
        """Serve the page until it is to be closed, and return the code. Cancelled, it leaves nothing."""
        tasks = [asyncio.create_task(self._work_off()), asyncio.create_task(self._deliver())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            return done.pop().result()
        except DatabaseError as error:
            logger.warning("Closing a page's socket, it will come back: %s", str(error).partition("\n")[0])
            return BROKEN
        except OSError as error:  # uvicorn's word for a page that is gone
            logger.debug("A page was gone before its answer: %r", error)
            return BROKEN
        except Exception:
            logger.exception("A page's socket failed")
            return BROKEN
        finally:
            self._end()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _work_off(self) -> int:
        self._user = await self._person()
        if not self._is_counted():
            return protocol.TOO_FAST
        fields.note(user=self._user.pk)
        self._rights_subscriptions.add(self._hub.watch_topics(_own_topics(self._user), self._rights_changed))
        self._recheck_in(_RECHECK_EVERY_S)
        while True:
            piece = await self._next()
            if self._loop.time() >= self._recheck_at and not await self._is_still_allowed():
                return NO_LONGER_YOU
            if piece is not None:
                if piece.at < self._next_at:
                    numbers.PAGE_MESSAGES_DELAYED.inc()
                await self._serve(piece.request)
                self._served(piece.weight)

    def _is_counted(self) -> bool:
        """Count it as one of its person's, if they may have one more in this process."""
        of, whose = self._hub.sockets_of, self._user.pk
        if whose is None:
            return True
        if of[whose] >= settings.LIVE["SOCKETS_PER_PERSON"]:
            numbers.PAGE_SOCKETS_REFUSED.labels("person").inc()
            return False
        of[whose] += 1
        self._counted_as = whose
        return True

    async def _person(self) -> AbstractBaseUser | AnonymousUser:
        """Who it is. Watches changes of all users before the read: whose they are is not known yet."""
        touched: set[str] = set()
        listening = self._hub.watch_topics(["user:*"], touched.update)
        try:
            while True:
                touched.clear()
                person = await self._person_now()
                if touched.isdisjoint(_own_topics(person) | {RECONNECTED}):
                    return person
        finally:
            listening.close()

    async def _person_now(self) -> AbstractBaseUser | AnonymousUser:
        if not self._session_key:
            return AnonymousUser()
        async with self._hub.permits.acquire(self) as permit:
            return await permit.run(protocol.of_session, self._session_key)

    async def _deliver(self) -> NoReturn:
        while True:
            for message in await self._send_queue.take():
                if message.kind == "gone":
                    self._drop_closed(message.watch_id)
                await self._send_text(message.text())

    async def _next(self) -> _Piece | None:
        """The next piece of a message, when it may be served; None when the rights may have to be read again."""
        try:
            async with asyncio.timeout_at(self._recheck_at) as self._pause:
                await asyncio.sleep(self._next_at - self._loop.time())  # others are served meanwhile in any case
                return await self._work.get()
        except TimeoutError:
            return None
        finally:
            self._pause = None

    def _served(self, weight: int) -> None:
        """Note what was served, and when the next piece may be."""
        self._unserved -= weight
        now = self._loop.time()
        wait_s = max(bucket.take(weight, now=now) for bucket in self._buckets)
        self._next_at = now + wait_s if wait_s else 0.0

    async def _serve(self, message: protocol.Request) -> None:
        for watch_id in message.unwatch + tuple(request.watch_id for request in message.watch):
            self._unwatch(watch_id)
        if message.ping:
            await self._send_text(protocol.PONG)
        requests = [request for request in message.watch if not await self._is_refused(request)]
        room = MOST_WATCHES - len(self._watched)
        for request in requests[room:]:
            numbers.PAGE_WATCHES_REFUSED.labels("too_many").inc()
            await self._send_text(protocol.refusal(request.watch_id, errors.TooManyWatches()))
        if requests[:room]:
            await self._grant(requests[:room])

    async def _is_refused(self, request: protocol.WatchRequest) -> bool:
        """Refuse it if that takes no read of the database."""
        verdict = protocol.refused_at_once(self._user, request)
        if verdict is None:
            return False
        numbers.PAGE_WATCHES_REFUSED.labels("bad" if verdict.error else "anonymous").inc()
        await self._send_text(protocol.refusal(request.watch_id, verdict.error))
        return True

    async def _grant(self, requests: Sequence[protocol.WatchRequest]) -> None:
        # Subscribes before the rights are read, so that a change in between is not missed.
        topics = map(protocol.rights_topics, requests)
        subscriptions = [self._hub.watch_topics(each, self._rights_changed) for each in topics]
        self._rights_subscriptions.update(subscriptions)
        verdicts = await self._judged(self._user, requests)
        for subscription, verdict in zip(subscriptions, verdicts, strict=True):
            self._unwatch(verdict.request.watch_id)  # the same id twice in one message
            if isinstance(verdict, protocol.Granted):
                self._watch(verdict, subscription, seen=verdict.request.seen)
            else:
                self._unsubscribe(subscription)
                await self._send_text(protocol.refusal(verdict.request.watch_id, verdict.error))

    async def _judged(
        self, user: AbstractBaseUser | AnonymousUser, requests: Sequence[protocol.WatchRequest]
    ) -> Sequence[protocol.WatchDecision]:
        """The verdicts on these requests, a few after the other, so that other sockets get their permits between."""
        permits = self._hub.permits if user.is_authenticated else self._hub.anonymous_permits
        verdicts: list[protocol.WatchDecision] = []
        for start in range(0, len(requests), protocol.PIECE):
            async with permits.acquire(self) as permit:
                verdicts += await permit.run(protocol.judge, user, requests[start : start + protocol.PIECE])
        return verdicts

    async def _is_still_allowed(self) -> bool:
        """Read the person and all rights again. False: it is not the same person any more. What was held back for it
        goes out, unless the rights changed once more during the read."""
        self._recheck_in(_RECHECK_EVERY_S)
        watched = list(self._watched.values())
        try:
            user = await self._person_now()
            if user.pk != self._user.pk:
                return False
            verdicts = await self._judged(user, [each.granted.request for each in watched])
        except DatabaseError as error:
            logger.warning("Could not read a page's rights, trying again: %s", str(error).partition("\n")[0])
            self._recheck_in(_RETRY_IN_S)
            return True
        self._user = user
        for each, verdict in zip(watched, verdicts, strict=True):
            await self._apply(each, verdict)
        if self._loop.time() < self._recheck_at:
            self._send_queue.let_go()
        return True

    async def _apply(self, watched: _Watched, verdict: protocol.WatchDecision) -> None:
        if isinstance(verdict, protocol.Refused):
            self._unwatch(verdict.request.watch_id)
            await self._send_text(protocol.refusal(verdict.request.watch_id, verdict.error))
        elif verdict.audience == watched.granted.audience or isinstance(verdict.query, registry.StreamQuery):
            watched.granted = verdict  # a stream is the same for all who may see it
        else:
            watched.watch.close()
            self._send_queue.forget(watched.watch)  # so the page may not have what the watch has seen: begin anew
            self._watch(verdict, watched.rights, seen=None)

    def _watch(self, granted: protocol.Granted, subscription: Subscription, *, seen: str | None) -> None:
        watch = self._hub.watch(
            self._send_queue, granted.query.name, granted.arguments, watch_id=granted.request.watch_id,
            audience=granted.audience, language=granted.request.language, seen=seen,
        )  # fmt: skip
        self._watched[granted.request.watch_id] = _Watched(granted=granted, watch=watch, rights=subscription)

    def _drop_closed(self, watch_id: str) -> None:
        watched = self._watched.get(watch_id)
        if watched is not None and not watched.watch.is_open:  # the page may have used the id again meanwhile
            self._unwatch(watch_id)

    def _unwatch(self, watch_id: str) -> None:
        watched = self._watched.pop(watch_id, None)
        if watched is not None:
            watched.watch.close()
            self._send_queue.forget(watched.watch)
            self._unsubscribe(watched.rights)

    def _unsubscribe(self, subscription: Subscription) -> None:
        subscription.close()
        self._rights_subscriptions.discard(subscription)

    def _rights_changed(self, topics: set[str]) -> None:
        if RECONNECTED in topics:
            self._recheck_in(_RECHECK_SPREAD_S * self._hub.rng.random(), at_latest=self._recheck_at)
        else:
            self._recheck_at = self._loop.time()
            self._send_queue.hold()
        if self._pause is not None and not self._pause.expired():
            self._pause.reschedule(self._recheck_at)

    def _recheck_in(self, seconds: float, *, at_latest: float = math.inf) -> None:
        self._recheck_at = min(at_latest, self._loop.time() + seconds * self._hub.rng.uniform(0.8, 1.2))

    async def _send_text(self, text: str) -> None:
        async with self._sending:  # two tasks send, and a socket takes one message at a time
            await self._send(text)

    def _end(self) -> None:
        if self._counted_as is not None:
            self._hub.sockets_of[self._counted_as] -= 1
            self._hub.sockets_of += Counter()  # without those who have none
        for subscription in self._rights_subscriptions:
            subscription.close()
        for watched in self._watched.values():
            watched.watch.close()


def _own_topics(user: AbstractBaseUser | AnonymousUser) -> set[str]:
    return set() if user.pk is None else {f"user:{user.pk}"}
