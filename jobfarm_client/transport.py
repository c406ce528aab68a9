"""Carries requests out by httpx: on an event loop, or in the thread that calls. Each call of a client is one coroutine
for both; that of a blocking transport never waits for a loop, so `result` carries it out where it stands."""

import asyncio
import codecs
import math
import os
import random
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict, TypeVar

import httpx

from jobfarm_client import wire
from jobfarm_client.backoff import Patience
from jobfarm_client.errors import BadOption, FarmError, Unreachable

T = TypeVar("T")
C = TypeVar("C", httpx.Client, httpx.AsyncClient)
TIMEOUT_S = 30.0
RETRY_S = 60.0
LONGEST_S = 1e6  # sockets know no longer times
SLOWEST = 1000  # bytes a second: what comes slower than that stands still
_BROKEN = (httpx.TransportError, httpx.DecodingError, httpx.StreamError, httpx.TooManyRedirects, TimeoutError)
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)
_LIMITS = httpx.Limits(max_keepalive_connections=20)  # none in use at a time: a stream or a long upload keeps one
_LACKING = "Whose jobs? Give a token, or set JOBFARM_TOKEN; the account page of the farm makes one."


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request below the farm's address."""

    path: str
    method: str = "GET"
    params: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    content: bytes | None = None
    """In place of a body of JSON."""
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float | None = None
    """For each step of it, and for all of it but what its bytes take; None: the client's own."""
    answered_by: str = ""
    """A field that the answer has: an object without it is no farm's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of a client; made by `checked`, so they make sense."""

    url: str
    headers: dict[str, str]
    timeout_s: float
    retry_for_s: float

    def built(self, client: httpx.Client | httpx.AsyncClient, request: Request) -> httpx.Request:
        """The request as httpx sends it. Raises TypeError or ValueError for a body that is not JSON."""
        has_body = request.body is not None
        content = wire.dumps(request.body).encode() if has_body else request.content
        timeout_s = request.timeout_s or self.timeout_s
        return client.build_request(
            request.method,
            self.url + request.path,
            params=dict(request.params),
            headers={**({"Content-Type": "application/json"} if has_body else {}), **request.headers},
            content=content,
            timeout=httpx.Timeout(timeout_s, connect=min(wire.CONNECT_S, timeout_s)),
            extensions={"until": time.monotonic() + timeout_s + len(content or b"") / SLOWEST},
        )


class Times(TypedDict, total=False):
    timeout_s: float
    retry_for_s: float


def checked(url: str | None, token: str | None, timeout_s: float = TIMEOUT_S, retry_for_s: float = RETRY_S) -> Options:
    """The options, tidied, with what JOBFARM_URL and JOBFARM_TOKEN say of those that are None; raises BadOption."""
    url = os.environ.get("JOBFARM_URL", "") if url is None else url
    if not url.strip():
        raise BadOption("Which farm? Give its address, or set JOBFARM_URL.")
    token = os.environ.get("JOBFARM_TOKEN", "") if token is None else token
    if not 0 < timeout_s < LONGEST_S or not retry_for_s >= 0:
        raise BadOption("timeout_s is a number of seconds above 0, retry_for_s one from 0 up.")
    key = wire.checked_key(token, lacking=_LACKING)
    return Options(
        url=wire.checked_url(url),
        headers=wire.headers(key=key, agent="jobfarm-client", name=socket.gethostname()),
        timeout_s=timeout_s,
        retry_for_s=retry_for_s,
    )


def _made(client: type[C], options: Options) -> C:
    try:
        return client(headers=options.headers, limits=_LIMITS)
    except (ImportError, ValueError, httpx.InvalidURL) as error:
        raise BadOption(f"The proxy that the environment names cannot be used: {error}") from error


class Transport(ABC):
    """Sends the requests of one client. All of its methods raise FarmError."""

    def __init__(self, options: Options) -> None:
        self.rng = random.SystemRandom()
        self._options = options
        self.answers = wire.Answers(options.url)

    def patience(self) -> Patience:
        return Patience(self._options.retry_for_s, rng=self.rng)

    async def answer(self, request: Request, by: str = "id") -> dict[str, Any]:
        """The JSON object, with a field `by`, that answers a request which may arrive twice: it is sent until then."""
        return await self._until_answered(self.sent, replace(request, answered_by=by))

    async def content(self, request: Request) -> bytes:
        """The bytes of the answer to such a request, from wherever it redirects to."""
        return await self._until_answered(self._fetched, request)

    async def sent(self, request: Request) -> dict[str, Any]:
        """The JSON object of the answer to a request that is sent once."""
        with unreachable():
            response = await self._send(request)
            return self.answers.read(response, await self._body(response), by=request.answered_by)

    async def opened(self, request: Request) -> httpx.Response:
        with unreachable():
            response = await self._send(request)
            if self.answers.is_stream(response):
                return response
            raise self.answers.misfit(response, await self._body(response))

    async def texts(self, response: httpx.Response) -> AsyncGenerator[str, None]:
        """The text of a stream as it comes; it is closed with this generator."""
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        with unreachable():
            try:
                async for piece in self._pieces(response):
                    yield decode(piece)
            finally:
                await self._end(response)

    async def _fetched(self, request: Request) -> bytes:
        with unreachable():
            response = await self._send(request, follow_redirects=True)
            return self.answers.read_bytes(response, await self._body(response))

    async def _body(self, response: httpx.Response) -> bytes:
        try:
            return b"".join([piece async for piece in self._in_time(response)])
        finally:
            await self._end(response)

    async def _in_time(self, response: httpx.Response) -> AsyncGenerator[bytes, None]:
        """The pieces of a body, which may take the rest of its call's time, and that of its bytes."""
        until = response.request.extensions["until"]
        async for piece in self._pieces(response):
            until += len(piece) / SLOWEST
            if time.monotonic() > until:
                raise httpx.ReadTimeout("The answer came too slowly.")
            yield piece

    async def _until_answered(self, send: Callable[[Request], Awaitable[T]], request: Request) -> T:
        patience = self.patience()
        while True:
            try:
                return await send(request)
            except FarmError as error:
                pause_s = patience.pause_s(error)
            await self.pause(pause_s)

    @abstractmethod
    async def pause(self, seconds: float) -> None:
        """Let so many seconds pass."""

    @abstractmethod
    async def close(self) -> None:
        """Close the connections."""

    @abstractmethod
    async def _send(self, request: Request, **how: Any) -> httpx.Response:
        """The beginning of the answer; its body is to be read, or ended."""

    @abstractmethod
    def _pieces(self, response: httpx.Response) -> AsyncIterator[bytes]: ...

    @abstractmethod
    async def _end(self, response: httpx.Response) -> None: ...


class Awaited(Transport):
    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._client = _made(httpx.AsyncClient, options)

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        await self._client.aclose()

    async def _send(self, request: Request, **how: Any) -> httpx.Response:
        built = self._options.built(self._client, request)
        # A step that takes all of the time is ended by httpx before, which knows whether anything was sent.
        async with asyncio.timeout(built.extensions["until"] - time.monotonic() + 0.5):
            return await self._client.send(built, stream=True, **how)

    def _pieces(self, response: httpx.Response) -> AsyncIterator[bytes]:
        return response.aiter_bytes()

    async def _end(self, response: httpx.Response) -> None:
        await response.aclose()


class Blocking(Transport):
    """In the thread that calls, whichever; several may. A forked process has connections of its own."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._connect()

    def _connect(self) -> None:
        self._client = _made(httpx.Client, self._options)
        self._process = os.getpid()

    async def pause(self, seconds: float) -> None:
        time.sleep(seconds)  # noqa: ASYNC251 (no loop waits for this)

    async def close(self) -> None:
        self._client.close()

    async def _send(self, request: Request, **how: Any) -> httpx.Response:
        if self._process != os.getpid():
            self._connect()
        built = self._options.built(self._client, request)
        built.extensions["trace"] = _bound
        _call.until = built.extensions["until"] + 0.5  # see Awaited
        try:
            return self._client.send(built, stream=True, **how)
        finally:
            _call.until = math.inf

    async def _pieces(self, response: httpx.Response) -> AsyncIterator[bytes]:
        for piece in response.iter_bytes():
            yield piece

    async def _end(self, response: httpx.Response) -> None:
        response.close()


_call = threading.local()  # `until` when this thread waits for the head of an answer


def _bound(name: str, info: Mapping[str, Any]) -> None:
    """Let no read of a new connection take longer than its call may: of a head that comes byte by byte each is one."""

    def bounded(max_bytes: int, timeout: float | None = None) -> Any:
        if (left_s := getattr(_call, "until", math.inf) - time.monotonic()) <= 0:
            raise TimeoutError("The answer came too slowly.")
        return read(max_bytes, min(left_s, LONGEST_S if timeout is None else timeout))

    if name.endswith((".connect_tcp.complete", ".start_tls.complete")):
        read, info["return_value"].read = info["return_value"].read, bounded


def result(call: Coroutine[Any, Any, T]) -> T:
    try:
        call.send(None)
    except StopIteration as end:
        value: T = end.value
        return value
    raise RuntimeError("A call that blocks waits for an event loop.")


def items(call: AsyncGenerator[T, None]) -> Generator[T, None, None]:
    """What a call of a blocking transport yields, as it comes; it is closed with this generator."""
    try:
        while True:
            yield result(call.asend(None))
    except StopAsyncIteration:
        return
    finally:
        result(call.aclose())


@contextmanager
def unreachable() -> Iterator[None]:
    """What httpx raises of a broken network is Unreachable, and says whether the request may have arrived."""
    try:
        yield
    except _BROKEN as error:
        raise Unreachable(str(error) or type(error).__name__, maybe_done=not isinstance(error, _NOT_SENT)) from error
