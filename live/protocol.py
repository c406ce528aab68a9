"""What a page may send over its socket, checked before anything is done with it, and how much in a time; who sits
behind it, and which of its watch requests are granted, for which audience."""

import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any, Final, cast

from django.conf import settings
from django.contrib import auth
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser
from django.contrib.sessions.backends.base import SessionBase
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict, ValidationError

from live import errors, registry
from live.registry import Arguments

logger = logging.getLogger("live")
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    request: WatchRequest
    query: registry.StateQuery | registry.StreamQuery
    arguments: Arguments
    audience: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Not to be watched: because of an error, or (None) as if it did not exist."""

    request: WatchRequest
    error: errors.LiveError | None


WatchDecision = Granted | Refused


def of_session(session_key: str) -> AbstractBaseUser | AnonymousUser:
    """Return the person who is logged in with this session, or AnonymousUser.

    Django's own rules apply: a session that ended or expired, a changed password, a deleted or inactive
    person give AnonymousUser. Only reads the database; call it in a thread.
    """
    request = HttpRequest()
    content = import_module(settings.SESSION_ENGINE).SessionStore(session_key).load()
    request.session = cast("SessionBase", _AsItIs(content))
    return auth.get_user(request)


def refused_at_once(user: AbstractBaseUser | AnonymousUser, request: WatchRequest) -> Refused | None:
    """Return the verdict on a request that needs no read of the database: on one that makes no sense, and on one
    that nobody gets who is not logged in. None: it takes `judge`."""
    try:
        query = registry.find(request.name)
        arguments = query.checked(request.arguments)
        _ = query.topics(arguments), query.rights_topics(arguments)
    except errors.LiveError as error:
        return Refused(request=request, error=error)
    except Exception:  # of one query of a page; the others are not to suffer for it
        logger.exception("The topics of the live query %s failed", request.name)
        return Refused(request=request, error=errors.QueryFailed())
    if query.is_for(registry.Viewer(user=user, ticket=request.ticket)):
        return None
    return Refused(request=request, error=None)


def judge(user: AbstractBaseUser | AnonymousUser, requests: Sequence[WatchRequest]) -> list[WatchDecision]:
    """Return a verdict for each request that `refused_at_once` let pass, in order. Reads the database, so call it in a
    thread."""
    return [_judge(user, request) for request in requests]


def rights_topics(request: WatchRequest) -> frozenset[str]:
    """Return the topics that may change the verdict on a request that `refused_at_once` let pass."""
    query = registry.find(request.name)
    return query.rights_topics(query.checked(request.arguments))


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


class _AsItIs(dict[str, Any]):
    """A session's content. What Django would renew or end is left to a request, which can set a cookie.

    With SECRET_KEY_FALLBACKS, `get_user` moves the session to a new key; from here the browser would never
    learn of it, and would be logged out.
    """

    def cycle_key(self) -> None:
        """Not here."""

    def flush(self) -> None:
        """Not here."""


def _judge(user: AbstractBaseUser | AnonymousUser, request: WatchRequest) -> WatchDecision:
    query = registry.find(request.name)
    arguments = query.checked(request.arguments)
    try:
        audience = query.audience(registry.Viewer(user=user, ticket=request.ticket), arguments)
    except (OperationalError, InterfaceError):
        raise  # no answer from the database is no verdict
    except Exception:
        logger.exception("The rights of the live query %s failed", query.name)
        return Refused(request=request, error=errors.QueryFailed())
    if audience is None:
        return Refused(request=request, error=None)
    return Granted(request=request, query=query, arguments=arguments, audience=audience)
