"""What a worker reports of itself while it runs: what it is, which models it serves, which of its slots are stuck."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import Any

from jobfarm_worker import facts, protocol
from jobfarm_worker.errors import Refused, WrongServer
from jobfarm_worker.farm import Farm
from jobfarm_worker.options import Options
from jobfarm_worker.registry import Handlers
from jobfarm_worker.scoreboard import Scoreboard

MODELS_EVERY_S = 60.0  # a model that was loaded or removed is known to the farm so soon
NO_MODELS_EVERY_S = 5.0  # a server that is being started is asked sooner
log = logging.getLogger("jobfarm_worker")


class Introduction:
    """A farm that knows no such call lacks a line on a page, and nothing else."""

    def __init__(self, farm: Farm, *, options: Options, handlers: Handlers, board: Scoreboard) -> None:
        self._farm = farm
        self._options = options
        self._handlers = handlers
        self._board = board
        self._facts: Mapping[str, Any] = {}  # as they were reported last

    async def run(self) -> None:
        """Report at once, when a slot gets stuck or is stuck no more, and every minute if models are served."""
        fields = await asyncio.to_thread(
            facts.gathered,
            handlers=list(self._handlers),
            concurrency=self._options.concurrency,
            labels=self._options.labels,
        )
        has_changed = asyncio.Event()
        self._board.on_stuck = has_changed.set
        while True:
            has_changed.clear()
            models, every_s = await self._served()
            self._facts = {**fields, **models, **facts.stuck(self._board.stuck)}
            await self._say(self._facts)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(every_s):
                    await has_changed.wait()

    async def leave(self) -> None:
        """Say that this worker ends: its models are listed until then."""
        if self._facts.get("models"):
            await self._say({**self._facts, "leaving": True})

    async def _served(self) -> tuple[dict[str, list[str]], float | None]:
        """Which models this worker serves, as facts, and after how many seconds to ask again; None: it serves none."""
        if not self._handlers.serve_models:
            return {}, None
        models = facts.announced(await self._handlers.models())
        loaded = facts.announced(await self._handlers.loaded())
        named = {"models": models, **({"loaded": loaded} if loaded else {})}
        return named, MODELS_EVERY_S if models else NO_MODELS_EVERY_S

    async def _say(self, fields: Mapping[str, Any]) -> None:
        try:
            await self._farm.insist(protocol.hello(fields), heartbeat_s=self._farm.heartbeat_s)
        except (Refused, WrongServer) as error:
            log.debug("the farm does not take what this worker says of itself: %s", error)
