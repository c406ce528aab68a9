"""What a page may send over its socket, checked before anything is done with it, and how much in a time."""

import json
from collections.abc import Iterator
from typing import Annotated, Any, Final

from django.conf import settings
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict, ValidationError

from live import errors

LONGEST_MESSAGE: Final = 65_536
_WEIGHT: Final = 10  # of a message, in watch requests: a page puts them into few
PIECE: Final = 10  # watch requests judged together: some 15 ms of a thread, in which no other socket has it

PONG: Final = '{"pong":true}'
TOO_FAST: Final = 4429  # what a socket is closed with that asks for more than it may


_Id = Annotated[str, Strict(), Field(min_length=1, max_length=64)]
_Text = Annotated[str, Strict(), Field(max_length=200)]
_Mark = Annotated[_Text | None, AfterValidator(lambda text: text or None)]
_MOST: Final = 1000


class WatchRequest(BaseModel):
    """One live query that a page wants to watch, as received: name and arguments are not checked yet."""

    model_config = ConfigDict(frozen=True)

    watch_id: _Id = Field(alias="id")
    name: Any = None
    arguments: Any = Field(None, alias="args")
    cursor: _Mark = None
    version: _Mark = None
    ticket: _Mark = None
    language: str = ""

    @property
    def seen(self) -> str | None:
        return self.cursor or self.version


class Request(BaseModel):
    """One message of a page: first end these, then watch those; a ping wants to be answered."""

    model_config = ConfigDict(frozen=True)

    unwatch: Annotated[tuple[_Id, ...], Field(max_length=_MOST)] = ()
    watch: Annotated[tuple[WatchRequest, ...], Field(max_length=_MOST)] = ()
    ping: bool = False

    def pieces(self) -> Iterator["Request"]:
        """Yield the same in parts that others can be served between, in order."""
        yield self.model_copy(update={"watch": self.watch[:PIECE]})
        for start in range(PIECE, len(self.watch), PIECE):
            yield Request(watch=self.watch[start : start + PIECE])


def weight(text: str | None) -> int:
    """Return what a message weighs beside its watch requests, which are one each. Raises BadMessage for bytes and
    too much."""
    if text is None or len(text) > LONGEST_MESSAGE:
        raise errors.BadMessage("A message is a text of at most 64 KB")
    return _WEIGHT + len(text) // 1024


def parse(text: str) -> Request:
    """Return what the page asks. Raises BadMessage for what is not in the protocol."""
    message = _json(text)
    try:
        request = Request.model_validate({**message, "ping": "ping" in message})
    except ValidationError as error:
        raise errors.BadMessage(f"{error.errors()[0]['loc'][0]} is not as a page says it") from error
    language = {"language": _language(message.get("language"))}
    return request.model_copy(update={"watch": tuple(each.model_copy(update=language) for each in request.watch)})


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
