"""One open page: what it watches, with which rights. Of the socket it knows only how to send."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser
from django.db import DatabaseError

from live import RECONNECTED, errors, hub, people, protocol, registry, rights
from live.feeds import Watch
from live.outbox import Outbox
from live.subscriptions import Subscription
from postgres import connections

logger = logging.getLogger("live")

MOST_WATCHES: Final = 200
BROKEN: Final = 1011
NO_LONGER_YOU: Final = 4401  # logged out, deleted, inactive, another password
_MOST_WAITING: Final = 50  # messages not worked off yet
_ASK_AGAIN_S: Final = 60.0  # rights are asked again this often, should the message that they changed be lost
_SPREAD_S: Final = 15.0  # after a lost connection all pages ask again: not all in the same second
_LATER_S: Final = 3.0  # when the database does not answer


@dataclass(slots=True, kw_only=True)
class _Watched:
    """A wish that was granted."""

    granted: rights.Granted
    watch: Watch
    rights: Subscription


class Conversation:
    """Works off what the page says, one message after the other, beside the handler that receives them.

    `send` gets texts for the page. Lives on the loop it is made on.
    """

    def __init__(self, *, session_key: str | None, send: Callable[[str], Awaitable[None]]) -> None:
        self._session_key = session_key
        self._send = send
        self._sending = asyncio.Lock()
        self._loop = asyncio.get_running_loop()
        self._hub = hub.current()
        self._outbox = Outbox()
        self._user: AbstractBaseUser | AnonymousUser = AnonymousUser()
        self._heard: set[Subscription] = set()
        self._watched: dict[str, _Watched] = {}
        self._work: asyncio.Queue[protocol.Request | None] = asyncio.Queue(_MOST_WAITING)
        self._ask_at = 0.0

    def hear(self, text: str | None) -> None:
        """Take a message of the page, without working it off. Raises BadMessage."""
        request = protocol.parse(text)
        try:
            self._work.put_nowait(request)
        except asyncio.QueueFull:
            raise errors.BadMessage("Too many messages at once") from None

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
        self._heard.add(self._hub.watch_topics(_own_topics(self._user), self._rights_changed))
        self._ask_in(_ASK_AGAIN_S)
        while True:
            request = await self._next()
            if self._loop.time() >= self._ask_at and not await self._is_still_allowed():
                return NO_LONGER_YOU
            if request is not None:
                await self._serve(request)

    async def _person(self) -> AbstractBaseUser | AnonymousUser:
        """Who it is. Changes are listened for before the look, of everybody: whose they are is not known yet."""
        touched: set[str] = set()
        listening = self._hub.watch_topics(["user:*"], touched.update)
        try:
            while True:
                touched.clear()
                person = await connections.run(people.of_session, self._session_key)
                if touched.isdisjoint(_own_topics(person) | {RECONNECTED}):
                    return person
        finally:
            listening.close()

    async def _deliver(self) -> NoReturn:
        while True:
            for message in await self._outbox.take():
                if message.kind == "gone":
                    self._drop_closed(message.watch_id)
                await self._say(message.text())

    async def _next(self) -> protocol.Request | None:
        """The next message of the page, or None when the rights may have to be looked at."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(self._ask_at):
                return await self._work.get()
        return None

    async def _serve(self, request: protocol.Request) -> None:
        for watch_id in request.unwatch + tuple(wish.watch_id for wish in request.watch):
            self._unwatch(watch_id)
        if request.ping:
            await self._say(protocol.PONG)
        room = MOST_WATCHES - len(self._watched)
        for wish in request.watch[room:]:
            await self._say(protocol.refusal(wish.watch_id, errors.TooManyWatches()))
        if room and request.watch:
            await self._grant(request.watch[:room])

    async def _grant(self, wishes: Sequence[protocol.Wish]) -> None:
        # Changes are listened for before the rights are read, so that one in between is heard and not missed.
        heard = [self._hub.watch_topics(rights.topics(wish), self._rights_changed) for wish in wishes]
        self._heard.update(heard)
        verdicts = await connections.run(rights.judge, self._user, wishes)
        for subscription, verdict in zip(heard, verdicts, strict=True):
            self._unwatch(verdict.wish.watch_id)  # the same id twice in one message
            if isinstance(verdict, rights.Granted):
                self._watch(verdict, subscription, seen=verdict.wish.seen)
            else:
                self._hear_no_more(subscription)
                await self._say(protocol.refusal(verdict.wish.watch_id, verdict.error))

    async def _is_still_allowed(self) -> bool:
        """Look at the person and at all rights again. False: it is not the same person any more.

        What was held back for it goes out, unless the rights changed once more while they were looked at.
        """
        self._ask_in(_ASK_AGAIN_S)
        watched = list(self._watched.values())
        try:
            user = await connections.run(people.of_session, self._session_key)
            if user.pk != self._user.pk:
                return False
            verdicts = await connections.run(rights.judge, user, [each.granted.wish for each in watched])
        except DatabaseError as error:
            logger.warning(
                "Could not look at a page's rights, trying again: %s", str(error).partition("\n")[0]
            )
            self._ask_in(_LATER_S)
            return True
        self._user = user
        for each, verdict in zip(watched, verdicts, strict=True):
            await self._apply(each, verdict)
        if self._loop.time() < self._ask_at:
            self._outbox.let_go()
        return True

    async def _apply(self, watched: _Watched, verdict: rights.Verdict) -> None:
        if isinstance(verdict, rights.Refused):
            self._unwatch(verdict.wish.watch_id)
            await self._say(protocol.refusal(verdict.wish.watch_id, verdict.error))
        elif verdict.audience == watched.granted.audience or isinstance(verdict.query, registry.StreamQuery):
            watched.granted = verdict  # a stream is the same for all who may see it
        else:
            watched.watch.close()
            self._outbox.forget(watched.watch)  # so the page may not have what the watch has seen: begin anew
            self._watch(verdict, watched.rights, seen=None)

    def _watch(self, granted: rights.Granted, subscription: Subscription, *, seen: str | None) -> None:
        watch = self._hub.watch(
            self._outbox,
            granted.query.name,
            granted.given,
            watch_id=granted.wish.watch_id,
            audience=granted.audience,
            language=granted.wish.language,
            seen=seen,
        )
        self._watched[granted.wish.watch_id] = _Watched(granted=granted, watch=watch, rights=subscription)

    def _drop_closed(self, watch_id: str) -> None:
        watched = self._watched.get(watch_id)
        if watched is not None and not watched.watch.is_open:  # the page may have used the id again meanwhile
            self._unwatch(watch_id)

    def _unwatch(self, watch_id: str) -> None:
        watched = self._watched.pop(watch_id, None)
        if watched is not None:
            watched.watch.close()
            self._outbox.forget(watched.watch)
            self._hear_no_more(watched.rights)

    def _hear_no_more(self, subscription: Subscription) -> None:
        subscription.close()
        self._heard.discard(subscription)

    def _rights_changed(self, topics: set[str]) -> None:
        if RECONNECTED in topics:
            self._ask_in(_SPREAD_S * self._hub.rng.random())
        else:
            self._ask_at = self._loop.time()
            self._outbox.hold()
        with contextlib.suppress(asyncio.QueueFull):  # it is awake then
            self._work.put_nowait(None)

    def _ask_in(self, seconds: float) -> None:
        self._ask_at = self._loop.time() + seconds * self._hub.rng.uniform(0.8, 1.2)

    async def _say(self, text: str) -> None:
        async with self._sending:  # two tasks send, and a socket takes one message at a time
            await self._send(text)

    def _end(self) -> None:
        for subscription in self._heard:
            subscription.close()
        for watched in self._watched.values():
            watched.watch.close()


def _own_topics(user: AbstractBaseUser | AnonymousUser) -> set[str]:
    return set() if user.pk is None else {f"user:{user.pk}"}
