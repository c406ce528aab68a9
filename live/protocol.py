"""What a page may send over its socket, checked before anything is done with it, and how much in a time."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from django.conf import settings

from live import errors

LONGEST_MESSAGE: Final = 65_536
_LONGEST_ID: Final = 64
_LONGEST_TEXT: Final = 200
_LONGEST_LIST: Final = 1000
_WEIGHT: Final = 10  # of a message, in watch requests: a page puts them into few
PIECE: Final = 10  # watch requests judged together: some 15 ms of a thread, in which no other socket has it

PONG: Final = '{"pong":true}'
TOO_FAST: Final = 4429  # what a socket is closed with that asks for more than it may


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchRequest:
    """One live query that a page wants to watch, as received: name and arguments are not checked yet."""

    watch_id: str
    name: object
    arguments: object
    seen: str | None
    ticket: str | None
    language: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One message of a page: first end these, then watch those; a ping wants to be answered."""

    unwatch: tuple[str, ...]
    watch: tuple[WatchRequest, ...]
    ping: bool

    def pieces(self) -> Iterator["Request"]:
        """Yield the same in parts that others can be served between, in order."""
        yield replace(self, watch=self.watch[:PIECE])
        for start in range(PIECE, len(self.watch), PIECE):
            yield Request(unwatch=(), watch=self.watch[start : start + PIECE], ping=False)


def weight(text: str | None) -> int:
    """Return what a message weighs beside its watch requests, which are one each. Raises BadMessage for bytes and
    too much."""
    if text is None or len(text) > LONGEST_MESSAGE:
        raise errors.BadMessage("A message is a text of at most 64 KB")
    return _WEIGHT + len(text) // 1024


def parse(text: str) -> Request:
    """Return what the page asks. Raises BadMessage for what is not in the protocol."""
    message = _json(text)
    language = _language(message.get("language"))
    return Request(
        unwatch=tuple(_text(each, _LONGEST_ID) for each in _list(message, "unwatch")),
        watch=tuple(_watch_request(each, language) for each in _list(message, "watch")),
        ping="ping" in message,
    )


def refusal(watch_id: str, error: errors.LiveError | None) -> str:
    """Return the answer to a request not granted; without an error it is not there, or not for this viewer."""
    if error is None:
        return json.dumps({"gone": watch_id})
    return json.dumps({"refused": watch_id, "error": error.code, "message": error.message})


def _json(text: str) -> dict[str, Any]:
    try:
        message = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise errors.BadMessage("A message is JSON") from error
    if not isinstance(message, dict) or not message.keys() & {"watch", "unwatch", "ping"}:
        raise errors.BadMessage("A message says watch, unwatch or ping")
    return message


def _watch_request(each: object, language: str) -> WatchRequest:
    if not isinstance(each, dict):
        raise errors.BadMessage("What to watch is an object")
    return WatchRequest(
        watch_id=_text(each.get("id"), _LONGEST_ID), name=each.get("name"), arguments=each.get("args"),
        seen=_optional(each, "cursor") or _optional(each, "version"), ticket=_optional(each, "ticket"),
        language=language,
    )  # fmt: skip


def _list(message: dict[str, Any], key: str) -> list[object]:
    items = message.get(key, [])
    if not isinstance(items, list) or len(items) > _LONGEST_LIST:
        raise errors.BadMessage(f"{key} is a list of at most {_LONGEST_LIST}")
    return items


def _optional(each: dict[str, Any], key: str) -> str | None:
    return None if each.get(key) in (None, "") else _text(each[key], _LONGEST_TEXT)


def _text(value: object, longest: int) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= longest:
        raise errors.BadMessage(f"Ids, cursors, versions and tickets are texts of at most {longest} characters")
    return value


def _language(value: object) -> str:
    """One of the site's languages; a rendering is kept for each, so a page cannot make up its own."""
    code = value.lower() if isinstance(value, str) else ""
    return code if code in dict(settings.LANGUAGES) else settings.LANGUAGE_CODE


class Bucket:
    """`capacity` at once, and `rate` a second after that. Full at first."""

    def __init__(self, *, capacity: float, rate: float, now: float) -> None:
        self._capacity = capacity
        self._rate = rate
        self._tokens = capacity
        self._at = now

    def take(self, count: float, *, now: float) -> float:
        """Take `count`, into debt if need be; the seconds until the debt is paid, 0 where there is none."""
        self._fill(now)
        self._tokens -= count
        return max(0.0, -self._tokens / self._rate)

    def has(self, count: float, *, now: float) -> bool:
        self._fill(now)
        return self._tokens >= count

    def is_full(self, *, now: float) -> bool:
        """Whether nothing of what was taken is missing any more."""
        return self.has(self._capacity, now=now)

    def _fill(self, now: float) -> None:
        self._tokens = min(self._capacity, self._tokens + (now - self._at) * self._rate)
        self._at = now
