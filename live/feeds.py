"""A feed is one live query that somebody in this process watches: it reads once for all of them."""

import asyncio
import itertools
import logging
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, ParamSpec, Protocol, TypeVar

from django.db import InterfaceError, OperationalError

from core.backoff import Backoff
from live import rendering
from live.registry import Item, StateQuery, StreamQuery
from live.semaphore import FairSemaphore
from observing import fields

logger = logging.getLogger("live")
T = TypeVar("T")
P = ParamSpec("P")

# The first change is read at once, those within this after it together: an eye sees 50 pictures a second at best.
_MERGE_S: Final = 0.02
_READ_AGAIN: Final = Backoff(first_s=1, cap_s=15, jitter=(0.5, 1))
_SAMPLED_WATCHERS: Final = 8  # watchers of which the least busy one lends its permit


class Sink(Protocol):
    """Where a watcher gets its messages. Called on the hub's loop; must neither block nor raise."""

    def state(self, watch: "Watch", latest: rendering.Rendering) -> None:
        """Take the latest answer; one that was not delivered yet is superseded."""

    def append(self, watch: "Watch", page: rendering.Page) -> bool:
        """Take what follows. False: send no more until `watch.resume()`; nothing is lost meanwhile."""

    def gone(self, watch: "Watch") -> None:
        """What was watched is gone, and the watch closed."""


@dataclass(eq=False, slots=True, kw_only=True)
class Watch:
    """One watcher of one feed. `seen` is the version or the cursor that the watcher is at."""

    watch_id: str
    sink: Sink
    feed: "Feed"
    seen: str | None
    paused: bool = field(default=False, init=False)
    behind: bool = field(default=True, init=False)

    @property
    def is_open(self) -> bool:
        return self.feed.has(self)

    def close(self) -> None:
        """End it; nothing is delivered from here on. Closing twice is harmless."""
        self.feed.leave(self)

    def resume(self) -> None:
        """The sink has room again: go on from `seen`."""
        self.paused = False
        self.behind = True
        self.feed.wake()


class Feed(ABC):
    """Reads again after a change: one read at a time, and one more if something changed meanwhile."""

    def __init__(
        self, arguments: Mapping[str, Any], *, at_most_every_s: float, rng: random.Random, permits: FairSemaphore
    ) -> None:
        self.arguments = arguments
        self._permits = permits
        self._pause_s = max(_MERGE_S, at_most_every_s)
        self._rng = rng
        self._watches: dict[Watch, None] = {}  # in the order they came
        self._task: asyncio.Task[None] | None = None
        self._stale = False
        self._read_at = float("-inf")
        self.abandoned: Callable[[], None] = lambda: None  # called when the last watcher left

    def has(self, watch: Watch) -> bool:
        return watch in self._watches

    def join(self, watch: Watch, *, quiet_s: float = 0.0) -> None:
        """Add a watcher, and catch it up; after `quiet_s` seconds of silence, if nothing is there yet."""
        self._watches[watch] = None
        if quiet_s:
            watch.behind = False
            asyncio.get_running_loop().call_later(quiet_s, self._catch_up_if_silent, watch)
        else:
            self._catch_up(watch)

    def _catch_up_if_silent(self, watch: Watch) -> None:
        if watch.seen is None and watch in self._watches:
            self._catch_up(watch)

    def leave(self, watch: Watch) -> None:
        was_watching = watch in self._watches
        self._watches.pop(watch, None)
        if was_watching and not self._watches:
            self.abandoned()

    def changed(self) -> None:
        """What the query reads may be different now."""
        for watch in self._watches:
            watch.behind = True
        self.wake()

    def wake(self) -> None:
        """Read soon, for those who are behind."""
        self._stale = True
        if self._task is None:
            with fields.apart():
                self._task = asyncio.get_running_loop().create_task(self._refresh(), name="live: feed")

    def stop(self) -> "asyncio.Task[None] | None":
        """Read no more. Returns what still has to be cancelled, if a read is under way."""
        self._watches.clear()
        return self._task

    async def _refresh(self) -> None:
        # Note [Why nothing is lost between two reads]
        # `_stale` is lowered before the read, so a change that the read may have missed raises it again; and
        # there is no await between the last read of it and the end.
        failures = 0
        loop = asyncio.get_running_loop()
        try:
            while self._stale and self._watches:
                await asyncio.sleep(max(0.0, self._read_at + self._pause_s - loop.time()))
                self._stale = False
                self._read_at = loop.time()
                failures = 0 if await self._try_to_read() else failures + 1
                if failures:
                    self._stale = True
                    await asyncio.sleep(_READ_AGAIN.delay_s(failures, rng=self._rng))
        finally:
            self._task = None

    async def _try_to_read(self) -> bool:
        try:
            await self._read()
        except (OperationalError, InterfaceError) as error:
            # The database does not answer: every feed meets that at once, so one line each.
            logger.warning("The live query %s has to wait: %s", self, str(error).partition("\n")[0])
            return False
        except Exception:
            logger.exception("The live query %s failed; trying again", self)
            return False
        return True

    async def _with_permit(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Call it in a thread, under a permit of one of the watchers; None when all of them left meanwhile."""
        async with self._permits.acquire(self._holder()) as permit:
            return await permit.run(function, *args, **kwargs) if self._watches else None

    def _notify(self, watch: Watch, method: Callable[..., T], *message: Any) -> T | None:
        """Let a watcher's sink know. One that raises is watched for no more: the others are told all the same."""
        try:
            return method(watch, *message)
        except Exception:
            logger.exception("A watcher of %s failed, and watches no more", self)
            self.leave(watch)
            return None

    def _holder(self) -> object:
        sinks: list[object] = [watch.sink for watch in itertools.islice(self._watches, _SAMPLED_WATCHERS)]
        return min(sinks, key=self._permits.load, default=self)

    @abstractmethod
    def take(self, items: Sequence[Item]) -> None:
        """Deliver these items, which this process has stored, without a read, if none is under way or due."""

    @abstractmethod
    def _catch_up(self, watch: Watch) -> None: ...

    @abstractmethod
    async def _read(self) -> None: ...


class StateFeed(Feed):
    """Sends every watcher the latest rendering, unless it is the one the watcher has."""

    def __init__(
        self, query: StateQuery, arguments: Mapping[str, Any], *, audience: str, language: str, rng: random.Random,
        permits: FairSemaphore,
    ) -> None:  # fmt: skip
        super().__init__(arguments, at_most_every_s=query.at_most_every_s, rng=rng, permits=permits)
        self._query = query
        self._audience = audience
        self._language = language
        self._version: str | None = None
        self._taken = ""  # the cursor of what was taken last

    def __str__(self) -> str:
        return f"{self._query.name}({self.arguments}) for {self._audience}"

    def _catch_up(self, watch: Watch) -> None:
        # A page rendered a moment ago may know more than we do, so a different version is a reason to read,
        # not to send.
        if watch.seen is None or watch.seen != self._version:
            self.wake()

    async def _read(self) -> None:
        latest = await self._with_permit(
            rendering.state, self._query, self.arguments, audience=self._audience, language=self._language
        )
        self._deliver(latest)

    def take(self, items: Sequence[Item]) -> None:
        """Deliver the last of them by its cursor, which is how it stands, unless a later one came before: who commits
        first may hand over last. Where a read is under way or due, which may be older, read once more."""
        last = max(reversed(items), key=lambda item: item.cursor)
        if self._task is not None:
            self.changed()
        elif last.cursor >= self._taken:
            self._taken = last.cursor
            self._deliver(rendering.data(last.data))

    def _deliver(self, latest: rendering.Rendering | None) -> None:
        self._version = latest.version if latest else None
        for watch in list(self._watches):
            if latest is None:
                watch.close()
                self._notify(watch, watch.sink.gone)
            elif watch.seen != latest.version:
                watch.seen = latest.version
                self._notify(watch, watch.sink.state, latest)


class StreamFeed(Feed):
    """Appends to every watcher what follows its cursor.

    Watchers at the same cursor share a read: all that are up to date, that is. A late comer reads its replay alone and
    then is one of them. Only the feed moves a cursor, by exactly what it delivered: nothing twice, nothing lost.
    """

    def __init__(
        self, query: StreamQuery, arguments: Mapping[str, Any], *, rng: random.Random, permits: FairSemaphore
    ) -> None:
        super().__init__(arguments, at_most_every_s=0.0, rng=rng, permits=permits)
        self._query = query
        self._taken: list[Item] = []
        self._delivered_at = float("-inf")
        self._handing_over: asyncio.TimerHandle | None = None

    def __str__(self) -> str:
        return f"{self._query.name}({self.arguments})"

    def _catch_up(self, watch: Watch) -> None:
        watch.behind = True
        self.wake()

    def take(self, items: Sequence[Item]) -> None:
        """Deliver these items, which this process has stored, to the watchers right behind whom they stand: the first
        at once, those of the next moment together, as it is with reads. Who lacks more reads, and all do where a read
        is under way or due: it may hold the same items."""
        self._taken += items
        if self._handing_over is None:
            loop = asyncio.get_running_loop()
            wait_s = self._delivered_at + self._pause_s - loop.time()
            self._handing_over = loop.call_later(wait_s, self._hand_over) if wait_s > 0 else None
            if self._handing_over is None:
                self._hand_over()

    def stop(self) -> "asyncio.Task[None] | None":
        """As above; what was taken is not delivered any more."""
        if self._handing_over is not None:
            self._handing_over.cancel()
        return super().stop()

    def _hand_over(self) -> None:
        self._handing_over = None
        items, self._taken = self._taken, []
        for run in _runs(items):
            if self._task is not None:
                self.changed()
                return
            self._hand_over_run(run)

    def _hand_over_run(self, items: Sequence[Item]) -> None:
        of = items[0].follows
        ready = [watch for watch in self._watches if watch.seen in of and not (watch.behind or watch.paused)]
        others = self._watches.keys() - ready
        if ready:
            self._deliver(rendering.Page(items=tuple(items)), ready, there_is_more=False)
        for watch in others:
            watch.behind = True
        if not all(watch.paused for watch in others):
            self.wake()

    async def _read(self) -> None:
        for cursor in {watch.seen: None for watch in self._watches if watch.behind and not watch.paused}:
            together = [watch for watch in self._watches if watch.seen == cursor and not watch.paused]
            await self._read_for(together, cursor)

    async def _read_for(self, together: list[Watch], cursor: str | None) -> None:
        for watch in together:
            watch.behind = False
        try:
            page = await self._with_permit(rendering.page, self._query, self.arguments, after=cursor)
        except Exception:
            for watch in together:
                watch.behind = True
            raise
        if page is not None:
            self._deliver(page, together, there_is_more=len(page.items) >= self._query.page)

    def _deliver(self, page: rendering.Page, together: list[Watch], *, there_is_more: bool) -> None:
        self._read_at = self._delivered_at = asyncio.get_running_loop().time()
        for watch in together:
            if watch in self._watches:
                watch.seen = page.cursor
                watch.behind = watch.behind or there_is_more
                watch.paused = not self._notify(watch, watch.sink.append, page)
        if there_is_more:
            self.wake()


def _runs(items: Sequence[Item]) -> list[list[Item]]:
    """The items in order, in runs that hold no gap."""
    runs: list[list[Item]] = []
    for item in items:
        if runs and runs[-1][-1].cursor in item.follows:
            runs[-1].append(item)
        else:
            runs.append([item])
    return runs
