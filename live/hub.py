"""One hub per process: one member of the channel layer, a map from topics to watchers, and the feeds."""

import asyncio
import contextlib
import functools
import logging
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from channels.layers import get_channel_layer

from core.backoff import Backoff
from live import RECONNECTED, registry
from live.feeds import Feed, Sink, StateFeed, StreamFeed, Watch
from live.operations import GROUP, home, topics_in
from live.registry import Appended, Item, canonical
from live.semaphore import FairSemaphore
from observing import fields
from postgres import connections

logger = logging.getLogger("live")

_POLL_EVERY_S: Final = 15.0
_POLL_WHILE_AWAY_S: Final = 2.0  # nothing else tells of changes then; with what the round itself takes less than 3
_RENEWED_WITHIN_S: Final = 0.5  # of a Redis that is frozen nothing is heard, not even that
_JOIN_AGAIN: Final = Backoff(first_s=0.2, cap_s=10, jitter=(0.25, 1))

_Key = tuple[str, str, str, str]  # name, arguments, audience, language
Callback = Callable[[set[str]], None]
Take = Callable[[Sequence[Item]], None]


@dataclass(eq=False, slots=True, kw_only=True)
class Subscription:
    """A callback and the topics it is for; `take` is called in its place where nothing but these items came. `close`
    ends it; closing twice is harmless."""

    topics: frozenset[str]
    callback: Callback
    take: Take | None
    owner: "Subscriptions"

    def close(self) -> None:
        self.owner.remove(self)


class Subscriptions:
    """A map from topics, and from beginnings of topics, to subscriptions. Belongs to one event loop."""

    def __init__(self) -> None:
        self._exact: defaultdict[str, dict[Subscription, None]] = defaultdict(dict)
        self._prefixes: defaultdict[str, dict[Subscription, None]] = defaultdict(dict)
        self._all: dict[Subscription, None] = {}

    def __bool__(self) -> bool:
        return bool(self._all)

    def add(self, topics: Iterable[str], callback: Callback, take: Take | None = None) -> Subscription:
        """Subscribe. A topic that ends with "*" stands for all that begin as it does."""
        subscription = Subscription(topics=frozenset(topics), callback=callback, take=take, owner=self)
        self._all[subscription] = None
        for topic in subscription.topics:
            entries, name = self._place(topic)
            entries[name][subscription] = None
        return subscription

    def remove(self, subscription: Subscription) -> None:
        self._all.pop(subscription, None)
        for topic in subscription.topics:
            entries, name = self._place(topic)
            entries[name].pop(subscription, None)
            if not entries[name]:
                del entries[name]

    def clear(self) -> None:
        self._exact.clear()
        self._prefixes.clear()
        self._all.clear()

    def notify(self, topics: Iterable[str], appended: Appended | None = None) -> None:
        """Call everybody back, each once, with those topics that are theirs; RECONNECTED is everybody's. Of the topics
        in `appended` these items are all that is new."""
        touched = set(topics)
        if RECONNECTED in touched:
            concerned = {subscription: {RECONNECTED} for subscription in self._all}
        else:
            concerned = self._concerned(touched)
        for subscription, theirs in concerned.items():
            if subscription in self._all:  # an earlier callback may have closed it
                _call(subscription, theirs, appended or {})

    def _concerned(self, touched: set[str]) -> dict[Subscription, set[str]]:
        concerned: defaultdict[Subscription, set[str]] = defaultdict(set)
        for topic in touched:
            for subscription in self._exact.get(topic, ()):
                concerned[subscription].add(topic)
            for prefix, subscriptions in self._prefixes.items():
                if topic.startswith(prefix):
                    for subscription in subscriptions:
                        concerned[subscription].add(topic)
        return concerned

    def _place(self, topic: str) -> tuple[defaultdict[str, dict[Subscription, None]], str]:
        return (self._prefixes, topic[:-1]) if topic.endswith("*") else (self._exact, topic)


def current() -> "Hub":
    """Return the hub of the running event loop, started if need be. Raises RuntimeError without a loop."""
    loop = asyncio.get_running_loop()
    hub = _hubs.get(loop)
    if hub is None:
        for closed in [other for other in _hubs if other.is_closed()]:
            del _hubs[closed]
        hub = _hubs[loop] = Hub(rng=random.Random())  # noqa: S311  # spreads polls and retries; nothing secret
    return hub


def touch_here(topics: set[str]) -> None:
    """Have those who watch these topics in this process read again; nobody else does. For what goes stale by time
    alone. Raises RuntimeError without a loop."""
    hub = _hubs.get(asyncio.get_running_loop())
    if hub is not None:
        hub.notify(topics)


class Hub:
    """What `current()` gives. All methods are called on its loop."""

    def __init__(self, *, rng: random.Random, poll_every_s: float = _POLL_EVERY_S) -> None:
        self.rng = rng
        self._poll_every_s = poll_every_s
        self._loop = asyncio.get_running_loop()
        # Half of the threads for the database: the others are for workers' sockets and webhooks. Those who are not
        # logged in have one of their own, so that they delay nobody else, however many they are.
        self.permits = FairSemaphore(max(1, connections.threads() // 2))
        self.anonymous_permits = FairSemaphore(1)
        self.sockets_of: Counter[int] = Counter()  # by the ids of people: those open now
        self._subscriptions = Subscriptions()
        self._feeds: dict[_Key, tuple[Feed, Subscription]] = {}
        self._layer: Any = None
        self._channel = ""
        self._joined = asyncio.Event()
        self._is_lost = True  # what receives is not, or not any more, a member
        self._is_away = asyncio.Event()  # nothing is heard of changes: the slow poll is all there is
        self._stopping = asyncio.Event()
        self._origin = home.settle(self._loop, self.notify)
        with fields.apart():
            self._tasks = [
                self._loop.create_task(self._receive_for_ever(), name="live: hub"),
                self._loop.create_task(self._poll_for_ever(), name="live: slow poll"),
            ]

    async def ready(self) -> None:
        """Wait until the hub is a member of the layer. Nobody has to: early comers get "*" then."""
        await self._joined.wait()

    def watch_topics(self, watched: Iterable[str], callback: Callback) -> Subscription:
        """Call back, on the loop, with the set of topics that were touched, of those watched.

        `"work:*"` stands for every topic that begins with `work:`; the callback gets the exact ones. When messages may
        have been lost it gets `{live.RECONNECTED}` instead. It must not block; what it raises is logged. Calls are not
        merged: a callback that starts work should only set an event. End it with `.close()`.
        """
        return self._subscriptions.add(watched, callback)

    def watch(
        self, sink: Sink, name: str, arguments: Mapping[str, Any], *, watch_id: str, audience: str, language: str,
        seen: str | None = None, quiet_s: float = 0.0,
    ) -> Watch:  # fmt: skip
        """Let the sink know the latest state, or all that follows in a stream, from `seen` (version or cursor) on.

        `quiet_s`: of something that came into being a moment ago, the first read comes with the first change, and after
        so many seconds where there is none (one from before the watch has shown nobody anything).

        Rights are the caller's business: `audience` is what the query's `may_see` answered. End it with `.close()`.
        Raises UnknownQuery and BadArguments.
        """
        query = registry.find(name)
        feed = self._feed(query, query.checked(arguments), audience, language)
        watch = Watch(watch_id=watch_id, sink=sink, feed=feed, seen=seen)
        feed.join(watch, quiet_s=quiet_s)
        return watch

    def notify(self, touched: Iterable[str], appended: Appended | None = None) -> None:
        """Notify those who watch these topics here; of those in `appended`, these items are all that is new."""
        self._subscriptions.notify(touched, appended)

    async def stop(self) -> None:
        """End everything this hub does, and its membership. `current()` then starts a new one."""
        _hubs.pop(self._loop, None)
        await home.leave(self._loop)
        self._stopping.set()
        await _end([*self._tasks, *(feed.stop() for feed, _ in self._feeds.values())])
        self.permits.stop()
        self.anonymous_permits.stop()
        self._feeds.clear()
        self._subscriptions.clear()
        await self._leave()

    def _feed(
        self, query: registry.StateQuery | registry.StreamQuery, arguments: Mapping[str, Any], audience: str,
        language: str,
    ) -> Feed:  # fmt: skip
        is_stream = isinstance(query, registry.StreamQuery)
        key = (query.name, canonical(arguments), "" if is_stream else audience, "" if is_stream else language)
        if key not in self._feeds:
            of_process: Any = {"rng": self.rng, "permits": self.permits}
            feed = (
                StreamFeed(query, arguments, **of_process)
                if isinstance(query, registry.StreamQuery)
                else StateFeed(query, arguments, audience=audience, language=language, **of_process)
            )
            feed.abandoned = functools.partial(self._drop, key)
            take = feed.take if query.is_appended else None
            watched = self._subscriptions.add(query.topics(arguments), lambda _: feed.changed(), take)
            self._feeds[key] = (feed, watched)
        return self._feeds[key][0]

    def _drop(self, key: _Key) -> None:
        _, subscription = self._feeds.pop(key)
        subscription.close()

    async def _receive_for_ever(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            try:
                await self._join()
                failures, self._is_lost = 0, False
                self._is_away.clear()
                while not self._stopping.is_set():
                    message = await self._layer.receive(self._channel)
                    self._subscriptions.notify(topics_in(message, own=self._origin))
            except Exception as error:  # whatever a layer raises: a deaf hub would be deaf for good
                if self._stopping.is_set():
                    return
                failures += 1
                self._is_lost = True
                self._is_away.set()
                logger.warning("The hub lost its channel layer (%s: %s); trying again", type(error).__name__, error)
                await asyncio.sleep(_JOIN_AGAIN.delay_s(failures, rng=self.rng))

    async def _join(self) -> None:
        self._layer = get_channel_layer()
        self._channel = await self._layer.new_channel()
        await self._layer.group_add(GROUP, self._channel)
        if self._subscriptions:  # they came before the first notification
            self._subscriptions.notify({RECONNECTED})
        self._joined.set()

    async def _poll_for_ever(self) -> None:
        """Have every feed read again once in about 15 s, evenly spread, in case a message was lost; within 3 s
        while the layer is away."""
        while not self._stopping.is_set():
            feeds = [feed for feed, _ in self._feeds.values()]
            for feed in feeds:
                await self._nap(1 / len(feeds))
                feed.changed()
            if not feeds:
                await self._nap(1)
            if not self._is_lost:
                await self._renew()

    async def _renew(self) -> None:
        """Join again: a Redis that lost its memory forgot the group without breaking our connection."""
        try:
            async with asyncio.timeout(_RENEWED_WITHIN_S):
                await self._layer.group_add(GROUP, self._channel)
        except Exception as error:  # what receives may meet the same error, and deals with it then
            logger.debug("Could not renew the membership: %s", error)
            self._is_away.set()
        else:
            if not self._is_lost:
                self._is_away.clear()

    async def _nap(self, part: float) -> None:
        """Wait so large a part of the time between two polls. It ends when the layer goes away meanwhile."""
        part *= self.rng.uniform(0.8, 1.2)
        if self._is_away.is_set():
            await asyncio.sleep(part * min(_POLL_WHILE_AWAY_S, self._poll_every_s))
        else:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._is_away.wait(), part * self._poll_every_s)

    async def _leave(self) -> None:
        """Give the membership back. A layer that is gone keeps nobody from stopping."""
        try:
            if self._joined.is_set():
                await self._layer.group_discard(GROUP, self._channel)
            close = getattr(self._layer, "close_pools", None) or getattr(self._layer, "close", None)
            if close is not None:
                await close()
        except Exception as error:
            logger.warning("Could not leave the channel layer (%s)", error)


async def _end(tasks: Iterable[asyncio.Task[None] | None]) -> None:
    """Cancel until they end: channels_redis can swallow a cancellation that comes as it begins to receive."""
    running = {task for task in tasks if task is not None and not task.done()}
    while running:
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=0.2)


_hubs: dict[asyncio.AbstractEventLoop, Hub] = {}


def _call(subscription: Subscription, topics: set[str], appended: Appended) -> None:
    try:
        if subscription.take is not None and topics <= appended.keys():
            subscription.take([item for topic in sorted(topics) for item in appended[topic]])
        else:
            subscription.callback(topics)
    except Exception:
        logger.exception("A watcher of %s failed", topics)
