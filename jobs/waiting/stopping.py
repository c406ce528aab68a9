"""Whether this process is about to end: whoever waits then answers at once instead of holding the process
up."""

import asyncio


class Stopping:
    """An event of one event loop, set once and for good."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def __bool__(self) -> bool:
        return self._event.is_set()

    def begin(self) -> None:
        """The process is about to end. Called on the loop."""
        self._event.set()

    async def wait(self) -> None:
        """Wait until it is."""
        await self._event.wait()
