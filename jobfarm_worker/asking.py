"""What a handler asks the farm and waits for: awaited on the loop, or waited for in the thread of a plain function."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from jobfarm_worker.errors import Failed, JobStopped, Refused
from jobfarm_worker.farm import Farm
from jobfarm_worker.outbox import Outbox
from jobfarm_worker.protocol import ClaimedJob

LOOK_S = 0.2  # how often a plain function that waits looks whether its job was stopped
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """Of one held job. `loop` is the one that calls to the farm run on; `on_lost` gets why the lease is gone."""

    claimed: ClaimedJob
    farm: Farm
    outbox: Outbox
    on_lost: Callable[[str], None]
    loop: asyncio.AbstractEventLoop

    def here(self, asking: Coroutine[Any, Any, T]) -> Any:
        """What comes of it: to be awaited on the loop; in any other thread this waits for it itself."""
        if _running_loop() is self.loop:
            return asking
        future = asyncio.run_coroutine_threadsafe(asking, self.loop)
        while True:
            try:
                return future.result(timeout=LOOK_S)
            except TimeoutError:
                if future.done():  # it failed by this, or was answered just now
                    return future.result()
            if self.outbox.stopped:
                future.cancel()
                raise JobStopped

    def refused(self, refusal: Refused, sentence: str) -> None:
        """Raise JobStopped where the lease is lost, and Failed, which begins with `sentence`, unless it may pass."""
        if refusal.code == "lease_lost":
            self.on_lost(refusal.why_lost)
            raise JobStopped from refusal
        if not refusal.is_for_now:
            raise Failed(f"{sentence}: {refusal}", retryable=False) from refusal


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:  # none runs in this thread
        return None
