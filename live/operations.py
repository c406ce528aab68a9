"""What writes call: touch the topics that became stale (free texts such as "job:7", named by writes, watched by reads);
how these leave this process, and how messages carry them. The only place that knows which channel layer is configured.

In a process with a hub, which is a web server, topics leave by its event loop, and those of one moment together
(docs/adr/0004): whoever commits hands them over and goes on. That hub hears of them at once, and passes over its own
messages when they come back. Any other process sends what it commits itself."""

import asyncio
import json
import logging
import os
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.db import DEFAULT_DB_ALIAS

from live import RECONNECTED, errors
from live.layer import MAY_HAVE_MISSED, NotifyChannelLayer
from live.registry import Appended, Item
from observing import fields
from postgres import connections
from postgres.transactions import Gathered

logger = logging.getLogger("live")
Notify: TypeAlias = Callable[[Iterable[str], Appended], None]
_SEND_WITHIN_S: Final = 3.0  # a Redis that does not answer may not hold up who just committed
# What is touched so soon after a message went out goes with the next: at most 200 messages a second from a process,
# each of which wakes every process of the farm. The first is not held back.
_GATHER_S: Final = 0.005
GROUP: Final = "live"  # the one group of the channel layer; its members are the hubs, one in each process
TOUCHED: Final = "live.touched"
_LONGEST_TOPIC: Final = 1000
# NOTIFY takes payloads below 8,000 bytes; the rest is room for the envelope around the topics.
_BATCH_BYTES: Final = 7000


def touch(*topics: str, using: str = DEFAULT_DB_ALIAS) -> None:
    """Tell all who watch these topics that what they show is stale.

    Inside a transaction the topics are gathered and published after its commit, outside of it, each once; a rollback,
    also one to a savepoint, takes its topics along. Outside a transaction they are published at once. A message that
    cannot be published is logged and never raised: it is a hint, the slow poll makes up for it. Call it from
    synchronous code, in any thread. Raises BadTopic. The rule is promise 9 of the design.
    """
    _touched.add(map(checked_topic, topics), using=using)


def append(new: Mapping[str, Item], *topics: str, using: str = DEFAULT_DB_ALIAS) -> None:
    """`touch` these topics because of the next item of a stream each, or of how something stands (of which the later
    has the greater cursor, where more than one may hand it over), and nothing else:
    after the commit, who watches that in this process (of a stream: and has what the item `follows`) gets it as it is,
    and does not read. `topics` are touched beside. Raises BadTopic."""
    items = [_New(checked_topic(topic), item) for topic, item in new.items()]
    _touched.add([*map(checked_topic, topics), *items], using=using)


def append_committed(new: Mapping[str, Item]) -> None:
    """`append` of items that are committed already, by the event loop of a process with a hub."""
    _publish([_New(checked_topic(topic), item) for topic, item in new.items()])


def publish(topics: Sequence[str], appended: Appended | None = None) -> None:
    """Send the topics to the hubs of all processes; that of this one gets the items in `appended` with them: all that
    is new of those topics. Never raises: what goes wrong is logged."""
    try:
        if not home.hand_over(topics, appended or {}):
            _send(topics)
    except Exception as error:  # whatever a layer raises: the write before it is committed and stays
        _log_error(error)


def checked_topic(topic: str) -> str:
    """Return the topic as it is. Raises BadTopic: it is empty, too long, or ends with "*" (a pattern)."""
    is_short = len(topic) <= _LONGEST_TOPIC // 12 - 1  # JSON writes no character with more than twelve
    if not topic or topic.endswith("*") or not (is_short or _encoded_size(topic) <= _LONGEST_TOPIC):
        raise errors.BadTopic
    return topic


def messages_of(topics: Iterable[str], *, origin: str = "") -> Iterator[dict[str, Any]]:
    """Yield the fewest messages, in the order given, that carry all topics and fit into a NOTIFY each. `origin` (36
    characters at most) names the hub that has heard of them already; none has without it."""
    batch: list[str] = []
    room = _BATCH_BYTES
    for topic in topics:
        size = _encoded_size(topic) + 2
        if batch and size > room:
            yield _message(batch, origin)
            batch, room = [], _BATCH_BYTES
        batch.append(topic)
        room -= size
    if batch:
        yield _message(batch, origin)


def topics_in(message: dict[str, Any], *, own: str) -> frozenset[str]:
    """Return the topics of a message: `{RECONNECTED}` if others were lost, none if it is foreign or of the origin
    `own`."""
    if message.get("type") == MAY_HAVE_MISSED:
        return frozenset({RECONNECTED})
    if message.get("from") == own:
        return frozenset()
    named = message.get("topics") if message.get("type") == TOUCHED else None
    return frozenset(topic for topic in named if isinstance(topic, str)) if isinstance(named, list) else frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class _New:
    """The next item of a topic."""

    topic: str
    item: Item

    def __str__(self) -> str:
        return self.topic


def _publish(words: Sequence[str | _New]) -> None:
    """What is touched beside is not appended to alone."""
    appended: dict[str, list[Item]] = {}
    for word in words:
        if isinstance(word, _New):
            appended.setdefault(word.topic, []).append(word.item)
    for word in words:
        if isinstance(word, str):
            appended.pop(word, None)
    publish([*dict.fromkeys(map(str, words))], appended)


class _Outgoing:
    """Topics on their way out by an event loop; what comes while a message is being sent goes with the next."""

    def __init__(self, loop: asyncio.AbstractEventLoop, notify: Notify) -> None:
        self.loop = loop
        self.origin = uuid.uuid4().hex
        """What its messages say of where they come from."""
        self._notify = notify
        self._lock = threading.Lock()
        # From any thread, under the lock; the rest is the loop's. None: not the items alone are new.
        self._new: dict[str, list[Item] | None] = {}
        self._topics: dict[str, None] = {}
        self._sent_at = float("-inf")
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def add(self, topics: Iterable[str], appended: Appended) -> None:
        """Let these go out too. From any thread. Raises RuntimeError once the loop is closed."""
        with self._lock:
            is_first = not self._new
            for topic in topics:
                items, more = self._new.setdefault(topic, []), appended.get(topic)
                if items is None or more is None:
                    self._new[topic] = None
                else:
                    items.extend(more)
        if is_first:
            self.loop.call_soon_threadsafe(self._take_in)

    async def drained(self) -> None:
        """Wait until what was added before has gone out."""
        self._take_in()
        while self._timer is not None or self._is_sending():  # noqa: ASYNC110 (a moment, when the process ends)
            await asyncio.sleep(_GATHER_S)

    def _take_in(self) -> None:
        """Send what is new with the next message; who watches it in this process hears of it now."""
        with self._lock:
            new, self._new = self._new, {}
        if new:
            self._topics.update(dict.fromkeys(new))
            if self._timer is None and (wait_s := self._sent_at + _GATHER_S - self.loop.time()) > 0:
                self._timer = self.loop.call_later(wait_s, self._send_next)
            elif self._timer is None:
                self._send_next()
            self._notify(new, {topic: items for topic, items in new.items() if items is not None})

    def _is_sending(self) -> bool:
        layer = get_channel_layer()
        return self._task is not None or (isinstance(layer, NotifyChannelLayer) and layer.is_posting)

    def _send_next(self) -> None:
        """Send what waits, once the last message has left. No timer runs where nothing waits: to wake for it costs what
        a message does."""
        self._timer = None
        if self._is_sending():
            self._timer = self.loop.call_later(_GATHER_S, self._send_next)
            return
        self._sent_at, topics, self._topics = self.loop.time(), sorted(self._topics), {}
        layer, messages = get_channel_layer(), messages_of(topics, origin=self.origin)
        if not (isinstance(layer, NotifyChannelLayer) and layer.post(group=GROUP, messages=messages)):
            with fields.apart():
                self._task = self.loop.create_task(self._send(topics), name="live: publish")

    async def _send(self, topics: Sequence[str]) -> None:
        """Never raises: what goes wrong is logged."""
        try:
            layer = get_channel_layer()
            if isinstance(layer, NotifyChannelLayer):
                await connections.run(_send, topics, self.origin)
            else:
                await _send_by(layer, topics, self.origin)
        except Exception as error:
            _log_error(error)
        finally:
            self._task = None


class _Home:
    """The event loop on which this process keeps its hub, if it has one. A fork does not inherit it."""

    def __init__(self) -> None:
        self._pid = 0
        self._outgoing: _Outgoing | None = None

    def settle(self, loop: asyncio.AbstractEventLoop, notify: Notify) -> str:
        """Let topics leave by this loop, and call `notify` there with them. Returns the origin that their messages
        name: who hears by `notify` has no use for those."""
        self._pid, self._outgoing = os.getpid(), _Outgoing(loop, notify)
        return self._outgoing.origin

    async def leave(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let them leave by this loop no more, once those that were handed over have gone out."""
        outgoing = self._outgoing
        if outgoing is not None and outgoing.loop is loop:
            self._outgoing = None
            await outgoing.drained()

    def hand_over(self, topics: Iterable[str], appended: Appended) -> bool:
        """Whether there is such a loop, which has them now."""
        outgoing = self._outgoing
        if outgoing is None or self._pid != os.getpid() or not outgoing.loop.is_running():
            return False
        outgoing.add(topics, appended)
        return True


home = _Home()
_touched = Gathered(_publish)


def _send(topics: Sequence[str], origin: str = "") -> None:
    layer = get_channel_layer()
    if isinstance(layer, NotifyChannelLayer):
        layer.publish(group=GROUP, messages=messages_of(topics, origin=origin))
    else:
        async_to_sync(_send_by)(layer, topics, origin)


async def _send_by(layer: Any, topics: Sequence[str], origin: str) -> None:
    async with asyncio.timeout(_SEND_WITHIN_S):
        for message in messages_of(topics, origin=origin):
            await layer.group_send(GROUP, message)


def _message(batch: list[str], origin: str) -> dict[str, Any]:
    return {"type": TOUCHED, "topics": batch, **({"from": origin} if origin else {})}


def _encoded_size(topic: str) -> int:
    if topic.isascii() and topic.isprintable() and '"' not in topic and "\\" not in topic:
        return len(topic) + 2  # nearly all, and there are as many as jobs change
    return len(json.dumps(topic))  # JSON escapes all that is not ASCII: characters are bytes


def _log_error(error: BaseException) -> None:
    """One line, not a traceback: while a server is down, every write comes by here."""
    logger.error("Could not publish (%s: %s); watchers find out at their next poll", type(error).__name__, error)
