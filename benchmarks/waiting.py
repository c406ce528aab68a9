"""Workers that wait for jobs, thousands of them in one process: by socket, and by long poll."""

import asyncio
import json
import math
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from benchmarks.web import Client

POLL_S = 60  # the longest that the farm allows


class Crowd:
    """All who wait, since `began_at`. `woken_at`: when each was told of work, since they last calmed down."""

    def __init__(self) -> None:
        self.began_at = time.monotonic()
        self.woken_at: list[float] = []
        self._waiting = 0
        self._came, self._woken = asyncio.Event(), asyncio.Event()

    def waits(self) -> None:
        """One more waits."""
        self._waiting += 1
        self._came.set()

    def woken(self) -> None:
        """One of them was told."""
        self.woken_at.append(time.monotonic())
        self._woken.set()

    def calm_down(self) -> None:
        """Forget who was woken."""
        self.woken_at.clear()
        self._woken.clear()

    async def first_woken(self) -> float:
        """When the first one was woken, once that has happened. Raises TimeoutError."""
        await asyncio.wait_for(self._woken.wait(), 30)
        return self.woken_at[0]

    async def until_all_came(self, count: int) -> None:
        """Return when so many have asked."""
        while self._waiting < count:
            self._came.clear()
            await self._came.wait()


async def by_socket(crowd: Crowd, port: int, key: str) -> None:
    """Claim, and claim again whenever the farm says that there is work."""
    import websockets  # noqa: PLC0415  # not wanted where only --help is asked

    async with websockets.connect(
        f"ws://127.0.0.1:{port}/ws/worker/",
        additional_headers={"Authorization": f"Bearer {key}"},
        open_timeout=60,
        ping_interval=None,
        compression=None,
    ) as socket:
        await socket.send('{"type": "claim"}')
        is_new = True
        async for text in socket:
            message = json.loads(text)
            if message["type"] == "work":
                crowd.woken()
                await socket.send('{"type": "claim"}')
            elif message["type"] == "claim" and message["jobs"]:
                await socket.send(json.dumps({"type": "finish", "job": message["jobs"][0]["id"], **_done(message)}))
            elif message["type"] == "finish":
                await socket.send('{"type": "claim"}')
            elif is_new:
                is_new = False
                crowd.waits()


async def by_long_poll(crowd: Crowd, port: int, key: str) -> None:
    """Claim and wait, again and again; finish what comes."""
    async with Client(port, key=key) as client:
        crowd.waits()
        while True:
            message = await client.post("/api/v1/worker/claim", {"wait": POLL_S})
            if message["jobs"]:
                crowd.woken()
                await client.post(f"/api/v1/worker/jobs/{message['jobs'][0]['id']}/finish", _done(message))


def _done(message: dict[str, Any]) -> dict[str, Any]:
    return {"lease": message["jobs"][0]["lease"], "outcome": "success"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How to wait: `begin` does, at a port and with a key, until it is canceled; after `lasts_s` it asks anew."""

    begin: Callable[[Crowd, int, str], Coroutine[Any, Any, None]]
    lasts_s: float


WAYS = {"socket": Way(begin=by_socket, lasts_s=math.inf), "long poll": Way(begin=by_long_poll, lasts_s=POLL_S)}
