"""Which callbacks subscribe to which topics."""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from live.registry import Appended, Item
from live.topics import RECONNECTED

logger = logging.getLogger("live")

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
            self._entries(topic)[subscription] = None
        return subscription

    def remove(self, subscription: Subscription) -> None:
        self._all.pop(subscription, None)
        for topic in subscription.topics:
            entries = self._entries(topic)
            entries.pop(subscription, None)
            if not entries:
                self._forget(topic)

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

    def _entries(self, topic: str) -> dict[Subscription, None]:
        return self._prefixes[topic[:-1]] if topic.endswith("*") else self._exact[topic]

    def _forget(self, topic: str) -> None:
        if topic.endswith("*"):
            self._prefixes.pop(topic[:-1], None)
        else:
            self._exact.pop(topic, None)


def _call(subscription: Subscription, topics: set[str], appended: Appended) -> None:
    try:
        if subscription.take is not None and topics <= appended.keys():
            subscription.take([item for topic in sorted(topics) for item in appended[topic]])
        else:
            subscription.callback(topics)
    except Exception:
        logger.exception("A watcher of %s failed", topics)
