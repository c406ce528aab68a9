"""Limits on views and API routes: `@rate_limited(...)`, and the headers that tell clients.

The fields `RateLimit-Policy` and `RateLimit` are those of draft-ietf-httpapi-ratelimit-headers-11 (May 2026): lists
(RFC 9651) of strings, each the name of a policy, with whole numbers as parameters: `q` quota, `w` window in seconds,
`r` what remains, `t` seconds until there is more. No `pk`: keys are people's names and addresses. `Retry-After` is RFC
9110's, in whole seconds, rounded up, and where both are sent `t` says the same.
"""

import functools
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, TypeVar

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from core import api, pages
from live import addresses
from postgres import connections
from ratelimits import operations
from ratelimits.errors import NEVER_S, RateLimited, seconds
from ratelimits.operations import Config

View = TypeVar("View", bound=Callable[..., Any])
Key = Callable[[HttpRequest], str | None]
Count = float | Callable[[HttpRequest], float]

_NOTES: Final = "_ratelimits_notes"
_LARGEST: Final = 10**15 - 1  # whole numbers of a header field have at most 15 digits (RFC 9651, 3.3.1)
_UNFIT: Final = re.compile(r"[^A-Za-z0-9_.]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A limit's answer to a request, kept on it until a response carries it."""

    name: str
    config: Config
    answer: operations.Answer


def address(request: HttpRequest) -> str:
    """Where a request comes from, as a key: the address, of IPv6 the network of 64 bits.

    It is REMOTE_ADDR: behind a proxy let the server set it (uvicorn: --proxy-headers with
    --forwarded-allow-ips); headers that anybody can send are not looked at.
    """
    return f"address:{addresses.network(request.META.get('REMOTE_ADDR')) or 'unknown'}"


def user_or_address(request: HttpRequest) -> str:
    """Who is logged in, as a key; for everybody else where they come from."""
    user = getattr(request, "user", None)
    return f"user:{user.pk}" if user is not None and user.is_authenticated else address(request)


def rate_limited(
    which: str | Config, *, key: Key = user_or_address, count: Count = 1.0, name: str | None = None
) -> Callable[[View], View]:
    """Let a view (plain or async), or a route of django-ninja, be called only as often as a limit grants; else 429.

    `which` is the name of a declared limit, or a configuration, which is then declared by `name` or the view's own
    name. `key(request)` says whose tokens are taken (None: one state for all callers) and `count` how many; it may be a
    function of the request too. Both run where the database may be asked, also for an async view. The answer has the
    headers above; what a route of django-ninja returns gets them from the middleware `report`. Without the database the
    view is not called.
    """

    def decorate(view: View) -> View:
        config = None if isinstance(which, str) else which
        limit = which if isinstance(which, str) else operations.declare(name or _name_of(view), which)
        ask = functools.partial(_ask, name=limit, config=config, key=key, count=count)
        if iscoroutinefunction(view):

            @functools.wraps(view)
            async def asynchronous(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
                note = await connections.run(ask, request)
                response = await view(request, *args, **kwargs) if note.answer else _refused(note)
                return _with_headers(request, response)

            return markcoroutinefunction(asynchronous)  # type: ignore[return-value]  # it wraps the view

        @functools.wraps(view)
        def synchronous(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
            note = ask(request)
            return _with_headers(request, view(request, *args, **kwargs) if note.answer else _refused(note))

        return synchronous  # type: ignore[return-value]  # it wraps the view

    return decorate


@pages.on_response
def report(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    """Middleware: the headers, and of a refusal the body, for limits that were asked where no response was at
    hand yet."""
    notes: list[Note] = request.__dict__.get(_NOTES, [])
    if not notes:
        return response
    if response.status_code == 429:
        denied = [note for note in notes if not note.answer]
        slowest = max(denied, key=lambda note: seconds(note.answer.retry_after), default=None)
        response = _refused(slowest) if slowest else response
    return _with_headers(request, response)  # type: ignore[no-any-return]  # a response goes in


def fields(notes: Iterable[Note]) -> dict[str, str]:
    """The fields `RateLimit-Policy` and `RateLimit` for these limits' answers; of a name asked twice the
    last counts."""
    last = {note.name: note for note in notes}.values()
    return {
        "RateLimit-Policy": ", ".join(_policy(note) for note in last),
        "RateLimit": ", ".join(_quota(note) for note in last),
    }


def _ask(request: HttpRequest, *, name: str, config: Config | None, key: Key, count: Count) -> Note:
    """Ask the limit about this request, and keep the answer on the request."""
    number = count(request) if callable(count) else count
    answer = operations.limit(name, key=key(request), count=number, config=config)
    note = Note(name=name, config=operations.config_of(name, config), answer=answer)
    request.__dict__.setdefault(_NOTES, []).append(note)
    return note


def _name_of(view: Callable[..., Any]) -> str:
    return _UNFIT.sub("_", f"{view.__module__}.{view.__qualname__}")[-100:].lstrip("_.")


def _refused(note: Note) -> HttpResponse:
    return api.refused(RateLimited(name=note.name, key=None, retry_after=note.answer.retry_after or timedelta(0)))


def _with_headers(request: HttpRequest, response: Any) -> Any:
    """The response with the headers; anything else (what a route returns) is left for the middleware."""
    if isinstance(response, HttpResponseBase):
        for field, value in fields(request.__dict__[_NOTES]).items():
            response.headers[field] = value
    return response


def _policy(note: Note) -> str:
    """Quota and window are whole numbers: a window under a second is sent as one second, a rate under one as
    its wait."""
    period = note.config.period.total_seconds()
    window = max(1, math.ceil(period))
    quota = math.floor(note.config.rate * window / period + 1e-9)
    if quota < 1:
        quota, window = 1, math.ceil(period / note.config.rate)
    return f'"{note.name}";q={min(quota, _LARGEST)};w={min(window, NEVER_S)}'


def _quota(note: Note) -> str:
    if not note.answer:
        return f'"{note.name}";r=0;t={seconds(note.answer.retry_after)}'
    remaining = max(0, math.floor(note.answer.remaining or 0))
    return f'"{note.name}";r={min(remaining, _LARGEST)}'
