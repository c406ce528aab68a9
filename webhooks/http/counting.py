"""Counting what was refused: what is refused while one transaction commits is counted by the next, however much."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from postgres import connections
from webhooks.domain.names import Source
from webhooks.operations.refusing import Refused


class Refusals:
    """Of one event loop."""

    def __init__(self, count: Callable[[Sequence[Refused]], None]) -> None:
        self._count = count
        self._gathered: dict[tuple[Source, str], Refused] = {}
        self._writing = asyncio.Lock()

    async def count(self, one: Refused) -> None:
        """Count one; it is committed when this returns. Raises the database's error."""
        key = (one.source, one.reason)
        before = self._gathered.get(key)
        self._gathered[key] = replace(one, times=before.times + one.times) if before else one
        async with self._writing:  # whoever comes in counts for all who wait behind
            if self._gathered:
                gathered, self._gathered = self._gathered, {}
                await connections.run(self._count, [gathered[key] for key in sorted(gathered)])
