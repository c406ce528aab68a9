"""The client's end of a request that may take a while."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Self, TypeVar

from core.asgi import Receive, wait_until_gone

T = TypeVar("T")


class Connection:
    """Notices that the client goes away, in its block, where nothing else may call `receive`."""

    def __init__(self, receive: Receive) -> None:
        self._gone = asyncio.create_task(wait_until_gone(receive))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._gone.cancel()

    @property
    def is_gone(self) -> bool:
        return self._gone.done()

    async def during(self, work: Coroutine[Any, Any, T]) -> T | None:
        """The result of `work`; None if the client went away first: then the work was canceled."""
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait({task, self._gone}, return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            task.cancel()
            await asyncio.wait({task})
