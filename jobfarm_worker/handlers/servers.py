"""OpenAI-compatible servers over HTTP: a call is sent once, and what came back is an answer, a stream or an error; and
when it is sent again.

By aiohttp, whose parser is in C: a stream costs 0.37 of the processor's time that it cost with OpenAI's client, of
which a relay needs nothing else (ADR 84).
"""

import asyncio
import codecs
import contextlib
import io
import json
import logging
import math
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

from jobfarm_client.wire import Blocks, object_in
from jobfarm_worker.errors import Failed
from jobfarm_worker.handlers import pooling
from jobfarm_worker.options import VERSION

ANSWER_S = 600.0  # a model that is being loaded sends nothing for minutes
CONNECT_S = 30.0
END_S = 0.05  # for the end of a stream after its [DONE]
LONGEST_TEXT = 500  # characters of an error that is no JSON
DELAYS_S = (1.0, 10.0, 20.0)  # before a call is sent again
JITTER_S = 0.1
LONGEST_WAIT_S = 120.0
AGAIN = frozenset({408, 409, 429})
T = TypeVar("T")
_RNG = random.SystemRandom()
log = logging.getLogger("jobfarm_worker")


class ServerError(Exception):
    """A model server did not answer as it should."""


class StatusError(ServerError):
    """It refused the call: an answer with a status of 300 and more."""

    def __init__(self, status: int, text: str, *, headers: Mapping[str, str]) -> None:
        """`text` is the body; `headers` have names in lower case."""
        super().__init__(f"{status}: {text[:LONGEST_TEXT]}")
        self.status = status
        self.headers = headers
        self.body = object_in(text)
        """The body, if it is a JSON object."""
        self.message = _message(self.body) or text[:LONGEST_TEXT]


class UnansweredError(ServerError):
    """It was not reached, or did not answer."""


class BrokenStreamError(ServerError):
    """The answer broke off before the model said that it had finished."""

    status = 502  # an error in mid-stream has none

    def __init__(self, why: str, *, body: dict[str, Any] | None = None) -> None:
        """`body` is the server's own error, if it is in Anthropic's form, which has a type."""
        self.message = f"{self.__doc__} {why}".strip()
        super().__init__(self.message)
        self.body = body


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of a server, with headers of its own; with a file (its name, its bytes) it is a form."""

    path: str
    body: Mapping[str, Any]
    file: tuple[str, bytes] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def sent(self) -> dict[str, Any]:
        if self.file is None:
            # As a file, which aiohttp sends in pieces: a large one would hold up all else.
            text = io.BytesIO(json.dumps({**self.body}).encode())
            return {"data": text, "headers": {"Content-Type": "application/json", **self.headers}}
        # Names as OpenAI's clients write them.
        form = aiohttp.FormData(default_to_multipart=True, quote_fields=False)
        for name, value in _form_fields(self.body):
            form.add_field(name, value)
        form.add_field("file", self.file[1], filename=self.file[0])
        return {"data": form}


@dataclass(frozen=True, slots=True)
class Answer:
    data: bytes
    content_type: str
    encoding: str

    @property
    def text(self) -> str:
        return self.data.decode(self.encoding, "replace")

    def json(self) -> Any:
        """The value it is. Raises ValueError where it is no JSON."""
        return json.loads(self.text)

    @property
    def is_error(self) -> bool:
        """Whether it says that the call failed, whatever its status."""
        return bool((object_in(self.text) or {}).get("error"))


class Connection:
    """Calls of one server, each sent by a connection of its own or one that has brought a whole answer."""

    def __init__(self, server: "Server", *, pauses: aiohttp.ClientTimeout) -> None:
        self._url = server.url
        self._headers = server.headers
        self._pauses = pauses
        self._proxy = server.proxy
        self.is_complete = False
        """Whether the latest stream ended with [DONE], and did not just end."""

    async def fetch(self, path: str) -> Answer:
        """What stands at this address. Raises what `post` raises."""
        async with self._answering("GET", path) as response:
            return await _read(response)

    async def post(self, request: Request) -> Answer:
        """The answer to this call. Raises StatusError, UnansweredError, BrokenStreamError."""
        async with self._answering("POST", request.path, request) as response:
            return await _read(response)

    async def post_json(self, request: Request) -> Any:
        """The JSON that answers this call. Raises what `post` raises; BrokenStreamError where it is none."""
        answer = await self.post(request)
        try:
            return answer.json()
        except ValueError as error:
            raise BrokenStreamError(f"It is no JSON: {error}.") from error

    async def stream(self, request: Request) -> AsyncGenerator[dict[str, Any], None]:
        """The objects of the stream that answers this call. Raises StatusError and UnansweredError before the first,
        BrokenStreamError for whatever breaks the stream, an error event among it."""
        self.is_complete = False
        async with self._answering("POST", request.path, request) as response:
            with _breaking():
                async for data in _events(response):
                    if data.startswith("[DONE]"):
                        self.is_complete = True
                        break
                    chunk = json.loads(data)
                    if isinstance(chunk, dict):
                        refuse_error(chunk)
                        yield chunk
            await _let_end(response)

    @asynccontextmanager
    async def _answering(
        self, method: str, path: str, request: Request | None = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        with _connecting(self._url):
            if (speaks := urlsplit(self._proxy or "http:").scheme) not in {"http", "https"}:
                raise aiohttp.ClientError(f"the proxy speaks {speaks}")  # aiohttp speaks HTTP to any
            response = await self._begun(method, f"{self._url}/{path}", request)
        try:
            if response.status >= 300:
                named = {name.lower(): value for name, value in response.headers.items()}
                raise StatusError(response.status, (await _read(response)).text, headers=named)
            yield response
        finally:
            if response.content.at_eof():
                response.release()
            else:
                response.close()  # the server hears that nobody listens any more

    async def _begun(self, method: str, url: str, request: Request | None) -> aiohttp.ClientResponse:
        """The head of the answer. Servers end connections without saying so: a call that got none by a reused one goes
        out again at once."""
        session = await pooling.session()
        while True:
            more = request.sent() if request else {}
            pooling.is_reused.set(False)
            headers = {**self._headers, **more.pop("headers", {})}
            settings: Any = {"proxy": self._proxy, "timeout": self._pauses, "headers": headers}
            try:
                return await session.request(method, url, **settings, **more)
            except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
                # Not even begun is a connection to where an answer that came by a reused one redirected to.
                if isinstance(error, aiohttp.ClientConnectorError) or not pooling.is_reused.get():
                    raise


@dataclass(frozen=True, slots=True)
class Server:
    """Where a server is (its `/v1` address), the headers that each call has, and the proxy that leads there."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    proxy: str | None = field(default=None, repr=False)

    @classmethod
    def named(cls, url: str, *, key: str, environ: Mapping[str, str]) -> "Server":
        """The server at `url`; the variable `key` has its key, else `OPENAI_API_KEY`, if it needs one. With
        `OPENAI_ORG_ID` and `OPENAI_PROJECT_ID`, as OpenAI's client sends them."""
        secret = (environ.get(key) or environ.get("OPENAI_API_KEY") or "none").strip()
        headers = {"Authorization": f"Bearer {secret}", "User-Agent": f"jobfarm-worker/{VERSION}"}
        named = {"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"}
        more = {name: environ[variable].strip() for name, variable in named.items() if environ.get(variable)}
        # Looked up once: in all of the environment it is a third of the time until a call is sent.
        return cls(url.rstrip("/"), {**headers, **more}, _proxy(url))

    def connection(self, *, timeout_s: float = ANSWER_S) -> Connection:
        """For one job; `timeout_s` may pass between two pieces of an answer."""
        pauses = aiohttp.ClientTimeout(total=None, sock_connect=min(CONNECT_S, timeout_s), sock_read=timeout_s)
        return Connection(self, pauses=pauses)


def _proxy(url: str) -> str | None:
    """The proxy that the environment names for this address. Not left to aiohttp, which would look for passwords in
    ~/.netrc too, and refuse a call that has a key already."""
    parts = urlsplit(url)
    if not parts.hostname or proxy_bypass(parts.hostname):
        return None
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    return f"http://{proxy}" if proxy and "://" not in proxy else proxy


@contextmanager
def _connecting(url: str) -> Iterator[None]:
    """Where the server is stands in the worker's log, and not in the error, which callers get."""
    try:
        yield
    except TimeoutError as error:
        log.warning("the model server %s does not answer: %s", url, error)
        raise UnansweredError("it did not answer in time.") from error
    except (aiohttp.ClientError, OSError) as error:
        log.warning("no connection to the model server %s: %s", url, error)
        raise UnansweredError("connection error.") from error


async def _read(response: aiohttp.ClientResponse) -> Answer:
    try:
        data = await response.read()
    except (aiohttp.ClientError, OSError) as error:
        raise BrokenStreamError(f"{type(error).__name__}: {error}") from error
    encoding = response.get_encoding()
    return Answer(data=data, content_type=response.headers.get("content-type", ""), encoding=encoding)


@contextmanager
def _breaking() -> Iterator[None]:
    """What breaks a stream: the network, or text that is no JSON."""
    try:
        yield
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise BrokenStreamError(f"{type(error).__name__}: {error}") from error


async def _let_end(response: aiohttp.ClientResponse) -> None:
    """Read what follows [DONE], most often nothing: else the next call would need another connection."""
    with contextlib.suppress(TimeoutError, aiohttp.ClientError, OSError):
        async with asyncio.timeout(END_S):
            while await response.content.readany():
                pass


async def _events(response: aiohttp.ClientResponse) -> AsyncIterator[str]:
    decoder, blocks = codecs.getincrementaldecoder("utf-8-sig")("replace"), Blocks()
    async for piece in response.content.iter_any():
        for fields in blocks.feed(decoder.decode(piece)):
            yield fields["data"]


def refuse_error(chunk: dict[str, Any]) -> None:
    """Raise BrokenStreamError for an error event in the stream, which has no status to judge it by."""
    if error := chunk.get("error"):
        is_typed = chunk.get("type") == "error" and isinstance(error, dict)
        why = _message(chunk) or "An error occurred during streaming"
        raise BrokenStreamError(why, body=chunk if is_typed else None)


def _message(body: Mapping[str, Any] | None) -> str:
    """The sentence in an error: where OpenAI has it, or as servers beside it do."""
    error = (body or {}).get("error")
    places = [error.get("message") if isinstance(error, dict) else error, *map((body or {}).get, ("message", "detail"))]
    return next((place for place in places if isinstance(place, str) and place), "")


def _form_fields(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Values as OpenAI's clients write them in a form: `name[]` for each of a list, `name[key]` for an object's."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _form_fields(each, f"{name}[{key}]" if name else key)
    elif isinstance(value, list):
        for each in value:
            yield from _form_fields(each, f"{name}[]")
    elif value is not None:
        yield name, value if isinstance(value, str) else json.dumps(value)


def is_worth_retrying(error: Exception) -> bool:
    """Whether the same question may be answered when it is sent again."""
    if isinstance(error, StatusError):
        should_retry = error.headers.get("x-should-retry", "").lower()
        if should_retry in {"true", "false"}:
            return should_retry == "true"
        return error.status in AGAIN or error.status >= 500
    return isinstance(error, UnansweredError | BrokenStreamError)


def sentence(error: Exception) -> str:
    """The message to the people who wait for the answer."""
    if isinstance(error, StatusError):
        return f"The model server answered {error.status}: {error.message}"
    return f"The model server failed: {error}"


async def retried(
    request: Callable[[], Awaitable[T]],
    *,
    may_retry: Callable[[], bool] = lambda: True,
    delays_s: Sequence[float] = DELAYS_S,
) -> T:
    """Await `request()`, again after 408, 409, 429, 5xx and lost connections, while `may_retry` allows it.

    A server that sends `x-should-retry` decides for itself; one that sends `retry-after` or `retry-after-ms` is given
    that long, up to two minutes: a longer wait is the farm's, which has the slot for another job meanwhile. Raises
    Failed with the last error; it is retryable for the farm exactly when it may pass.
    """
    delays = iter(delays_s)
    while True:
        try:
            return await request()
        except ServerError as error:
            passing = is_worth_retrying(error)
            delay_s = next(delays, None)
            if not passing or delay_s is None or not may_retry():
                raise Failed(sentence(error), retryable=passing) from error
            if isinstance(error, StatusError):
                now = datetime.now(UTC)  # noqa: TID251 (the edge to the model server: nobody above knows of its dates)
                delay_s = retry_after_s(error.headers, now=now) or delay_s
            if delay_s > LONGEST_WAIT_S:
                asks = f"It asks to wait {delay_s:.0f} s, longer than the {LONGEST_WAIT_S:.0f} s that a worker waits."
                raise Failed(f"{sentence(error)} {asks}") from error
        await asyncio.sleep(delay_s + _RNG.uniform(0, JITTER_S))


def retry_after_s(headers: Mapping[str, str], *, now: datetime) -> float | None:
    """The seconds that an answer with these headers (names in lower case) asks to wait; None when it does not.

    A date is compared with the answer's own, or with `now` where it has none.
    """
    for name, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        with contextlib.suppress(ValueError):
            seconds = float(headers.get(name, "")) * unit_s
            return seconds if 0 < seconds < math.inf else None
    at, since = _moment(headers.get("retry-after")), _moment(headers.get("date")) or now
    return None if at is None or at <= since else (at - since).total_seconds()


def _moment(text: str | None) -> datetime | None:
    try:
        at = parsedate_to_datetime(text or "")
    except ValueError:
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)
