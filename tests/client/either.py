"""One way to call the client that blocks and the one that is awaited, so that each test asks both."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Iterator
from typing import Any

from jobfarm_client import AsyncClient, Client

KINDS = ("blocking", "awaited")


class Either:
    """The calls of a client, whichever it is: results as they are, iterators as iterators."""

    def __init__(self, kind: str, url: str, token: str, **options: Any) -> None:
        self._runner = asyncio.Runner() if kind == "awaited" else None
        made = AsyncClient if kind == "awaited" else Client
        self._client = made(url, token, **options)

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **options: self._plain(getattr(self._client, name)(*args, **options))

    def _plain(self, value: Any) -> Any:
        if self._runner is None:
            return value
        if inspect.isasyncgen(value):
            return self._iterated(value)
        return self._runner.run(value)

    def _iterated(self, items: AsyncIterator[Any]) -> Iterator[Any]:
        assert self._runner is not None
        end = object()

        async def following() -> Any:
            return await anext(items, end)

        while (item := self._runner.run(following())) is not end:
            yield item

    def end(self) -> None:
        """Close the client."""
        self._plain(self._client.close())
        if self._runner is not None:
            self._runner.close()
