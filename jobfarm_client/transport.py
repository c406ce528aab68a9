"""Carry out what calls want: with httpx and this thread's time, or with httpx and an event loop."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, aclosing
from dataclasses import dataclass
from typing import Any, cast

import httpx

from jobfarm_client import wire
from jobfarm_client.effects import Effect, Emit, Fetch, Flow, Open, Pause, Read, Request, Send, T
from jobfarm_client.errors import BadOption, FarmError
from jobfarm_client.retrying import Policy

_BROKEN = (httpx.TransportError, httpx.DecodingError, httpx.StreamError, httpx.TooManyRedirects)
_LACKING = "Whose jobs? Give a token, or set JOBFARM_TOKEN; the account page of the farm makes one."


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of a client; made by `checked`, so they make sense."""

    url: str
    headers: dict[str, str]
    timeout_s: float
    policy: Policy

    def built(self, client: httpx.Client | httpx.AsyncClient, request: Request) -> httpx.Request:
        """The request as httpx sends it. Raises TypeError or ValueError for a body that is not JSON."""
        has_body = request.body is not None
        content = wire.dumps(request.body).encode() if has_body else request.content
        return client.build_request(
            request.method,
            self.url + request.path,
            params=dict(request.params),
            headers={**({"Content-Type": "application/json"} if has_body else {}), **request.headers},
            content=content,
            timeout=wire.timeout(request.timeout_s or self.timeout_s),
        )


def checked(url: str | None, token: str | None, *, timeout_s: float, retry_for_s: float) -> Options:
    """The options, tidied, with what JOBFARM_URL and JOBFARM_TOKEN say of those that are None; raises BadOption."""
    url = os.environ.get("JOBFARM_URL", "") if url is None else url
    if not url.strip():
        raise BadOption("Which farm? Give its address, or set JOBFARM_URL.")
    token = os.environ.get("JOBFARM_TOKEN", "") if token is None else token
    if not timeout_s > 0 or not retry_for_s >= 0:
        raise BadOption("timeout_s is a number of seconds above 0, retry_for_s one from 0 up.")
    key = wire.checked_key(token, lacking=_LACKING)
    return Options(
        url=wire.checked_url(url),
        headers=wire.headers(key=key, agent="jobfarm-client", name=socket.gethostname()),
        timeout_s=timeout_s,
        policy=Policy(retry_for_s=retry_for_s),
    )


class Steps:
    """One call under way: what it wants, and in the end what it returns."""

    def __init__(self, flow: Flow[Any]) -> None:
        self._flow = flow
        self.result: Any = None
        self.wanted: Effect | None = None
        self.answer(None)

    def answer(self, value: Any) -> None:
        """What it wanted was done, and this is what came of it."""
        self._advance(lambda: self._flow.send(value))

    def fail(self, error: FarmError) -> None:
        """What it wanted went wrong; raises the error if the call makes nothing of it."""
        self._advance(lambda: self._flow.throw(error))

    def _advance(self, step: Callable[[], Effect]) -> None:
        try:
            self.wanted = step()
        except StopIteration as stop:
            self.wanted, self.result = None, stop.value


class Blocking:
    """Carries calls out in the thread that makes them. May be used by several threads."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._client = httpx.Client(headers=options.headers)
        self._answers = wire.Answers(options.url)

    def result(self, flow: Flow[T]) -> T:
        """Carry a call out to its end; what it returns."""
        steps = Steps(flow)
        for _ in self._items(steps):
            pass
        return cast("T", steps.result)

    def items(self, flow: Flow[None]) -> Iterator[Any]:
        """What a call emits, as it comes. Its connection is closed when the caller has enough."""
        yield from self._items(Steps(flow))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _items(self, steps: Steps) -> Iterator[Any]:
        with ExitStack() as streams:
            texts: Iterator[str] = iter(())
            while (wanted := steps.wanted) is not None:
                if isinstance(wanted, Emit):
                    yield wanted.item
                    steps.answer(None)
                    continue
                try:
                    answer = self._done(wanted, texts, streams)
                except _BROKEN as error:
                    steps.fail(wire.unreachable(error))
                except FarmError as error:
                    steps.fail(error)
                else:
                    texts = answer if isinstance(wanted, Open) else texts
                    steps.answer(answer)

    def _done(self, wanted: Effect, texts: Iterator[str], streams: ExitStack) -> Any:
        match wanted:
            case Pause(seconds):
                time.sleep(seconds)
            case Read():
                return next(texts, None)
            case Open(request):
                streams.close()
                return self._opened(request, streams)
            case Send(request):
                return self._answers.read(self._client.send(self._options.built(self._client, request)))
            case Fetch(request):
                built = self._options.built(self._client, request)
                return self._answers.read_bytes(self._client.send(built, follow_redirects=True))
        return None

    def _opened(self, request: Request, streams: ExitStack) -> Iterator[str]:
        response = self._client.send(self._options.built(self._client, request), stream=True)
        streams.callback(response.close)
        if not self._answers.is_stream(response):
            response.read()
            raise self._answers.no_stream(response)
        return response.iter_text()


class Awaited:
    """Carries calls out on an event loop, as `Blocking` does in a thread."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._client = httpx.AsyncClient(headers=options.headers)
        self._answers = wire.Answers(options.url)

    async def result(self, flow: Flow[T]) -> T:
        """Carry a call out to its end; what it returns."""
        steps = Steps(flow)
        async for _ in self._items(steps):
            pass
        return cast("T", steps.result)

    async def items(self, flow: Flow[None]) -> AsyncIterator[Any]:
        """What a call emits, as it comes. Its connection is closed when this generator is."""
        async with aclosing(self._items(Steps(flow))) as items:
            async for item in items:
                yield item

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _items(self, steps: Steps) -> AsyncGenerator[Any, None]:
        async with AsyncExitStack() as streams:
            texts: AsyncIterator[str] | None = None
            while (wanted := steps.wanted) is not None:
                if isinstance(wanted, Emit):
                    yield wanted.item
                    steps.answer(None)
                    continue
                try:
                    answer = await self._done(wanted, texts, streams)
                except _BROKEN as error:
                    steps.fail(wire.unreachable(error))
                except FarmError as error:
                    steps.fail(error)
                else:
                    texts = answer if isinstance(wanted, Open) else texts
                    steps.answer(answer)

    async def _done(self, wanted: Effect, texts: AsyncIterator[str] | None, streams: AsyncExitStack) -> Any:
        match wanted:
            case Pause(seconds):
                await asyncio.sleep(seconds)
            case Read():
                return None if texts is None else await anext(texts, None)
            case Open(request):
                await streams.aclose()
                return await self._opened(request, streams)
            case Send(request):
                return self._answers.read(await self._client.send(self._options.built(self._client, request)))
            case Fetch(request):
                built = self._options.built(self._client, request)
                return self._answers.read_bytes(await self._client.send(built, follow_redirects=True))
        return None

    async def _opened(self, request: Request, streams: AsyncExitStack) -> AsyncIterator[str]:
        response = await self._client.send(self._options.built(self._client, request), stream=True)
        streams.push_async_callback(response.aclose)
        if not self._answers.is_stream(response):
            await response.aread()
            raise self._answers.no_stream(response)
        return response.aiter_text()
