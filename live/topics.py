"""Topics: free texts such as "job:7", named by writes, watched by reads; and how a message carries them."""

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

from live import errors

RECONNECTED: Final = "*"  # handed to every watcher of topics when messages may have been lost
GROUP: Final = "live"  # the one group of the channel layer; its members are the hubs, one in each process
TOUCHED: Final = "live.touched"
MAY_HAVE_MISSED: Final = "live.reconnected"

_LONGEST_TOPIC: Final = 1000
# NOTIFY takes payloads below 8,000 bytes; the rest is room for the envelope around the topics.
_BATCH_BYTES: Final = 7000


def checked(topic: str) -> str:
    """Return the topic as it is. Raises BadTopic: it is empty, too long, or ends with "*" (a pattern)."""
    is_short = len(topic) <= _LONGEST_TOPIC // 12 - 1  # JSON writes no character with more than twelve
    if not topic or topic.endswith("*") or not (is_short or _encoded_size(topic) <= _LONGEST_TOPIC):
        raise errors.BadTopic
    return topic


def messages(topics: Iterable[str], *, origin: str = "") -> Iterator[dict[str, Any]]:
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


def read(message: dict[str, Any], *, own: str) -> frozenset[str]:
    """Return the topics of a message: `{RECONNECTED}` if others were lost, none if it is foreign or of the origin
    `own`."""
    if message.get("type") == MAY_HAVE_MISSED:
        return frozenset({RECONNECTED})
    if message.get("from") == own:
        return frozenset()
    named = message.get("topics") if message.get("type") == TOUCHED else None
    return frozenset(topic for topic in named if isinstance(topic, str)) if isinstance(named, list) else frozenset()


def _message(batch: list[str], origin: str) -> dict[str, Any]:
    return {"type": TOUCHED, "topics": batch, **({"from": origin} if origin else {})}


def _encoded_size(topic: str) -> int:
    if topic.isascii() and topic.isprintable() and '"' not in topic and "\\" not in topic:
        return len(topic) + 2  # nearly all, and there are as many as jobs change
    return len(json.dumps(topic))  # JSON escapes all that is not ASCII: characters are bytes
