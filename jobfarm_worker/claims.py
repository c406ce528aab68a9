"""The claims of a worker: one request at a time, repeated under its id until it is answered or too old."""

import asyncio
import contextlib
import logging
import math

from jobfarm_client.backoff import Backoff
from jobfarm_worker import pace, protocol
from jobfarm_worker.errors import Refused, Unreachable
from jobfarm_worker.farm import Farm
from jobfarm_worker.options import Options
from jobfarm_worker.protocol import Call, ClaimedJob

MOST_CLAIMED = 100  # what a farm gives in one answer
AT_ONCE_S = 1.0  # an empty answer faster than this was no waiting
log = logging.getLogger("jobfarm_worker")


class Empties:
    """How long to pause after a claim: not at all, unless two in a row brought nothing and did not wait for it.

    Somebody else may have been faster once. A second one is a farm or a proxy that does not know how to wait.
    """

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self._in_a_row = 0

    def pause_s(self, *, claimed_count: int, took_s: float) -> float:
        """The pause after a claim that brought so many jobs and took so long."""
        if claimed_count or took_s >= AT_ONCE_S:
            self._in_a_row = 0
            self._backoff.succeeded()
            return 0.0
        self._in_a_row += 1
        return self._backoff.failed() if self._in_a_row > 1 else 0.0


class Claims:
    """Claims jobs of the farm, and waits out the times when it does not answer."""

    def __init__(self, farm: Farm, *, options: Options, stop: asyncio.Event) -> None:
        self._farm = farm
        self._options = options
        self._stop = stop
        self._outages = Backoff(rng=farm.rng)
        self._empties = Empties(Backoff(rng=farm.rng, base_s=0.05, cap_s=1.0))
        self._request: Call | None = None
        self._request_failed_s = math.inf  # when this request failed first
        self._outage_s = math.inf  # when the last answer was followed by a failure

    async def claim(self, limit: int) -> list[ClaimedJob]:
        """Up to `limit` jobs, after having waited for some; none when there was nothing, or no answer yet.

        Raises Unauthorized, WrongServer, or Refused when the farm will not let this worker claim.
        """
        try:
            jobs = await self._farm.claim(self._repeated_or_new(limit), stop=self._stop)
        except (Unreachable, Refused) as error:
            if isinstance(error, Refused) and not error.is_for_now:
                raise
            await self._wait_out(error)
            return []
        self._request = None
        self._request_failed_s = self._outage_s = math.inf
        self._outages.succeeded()
        return jobs

    async def rest(self, *, claimed_count: int, took_s: float) -> None:
        """Pause after a claim, where it is better not to claim again at once."""
        await asyncio.sleep(self._empties.pause_s(claimed_count=claimed_count, took_s=took_s))

    def _repeated_or_new(self, limit: int) -> Call:
        """The request whose answer we lack; once it is a heartbeat interval old, what it took was taken back."""
        if self._request is None or _now_s() - self._request_failed_s > self._farm.heartbeat_s:
            self._request = protocol.claim(queues=self._options.queues, limit=min(limit, MOST_CLAIMED))
            self._request_failed_s = math.inf
        return self._request

    async def _wait_out(self, error: Unreachable | Refused) -> None:
        now_s = _now_s()
        self._request_failed_s = min(self._request_failed_s, now_s)
        self._outage_s = min(self._outage_s, now_s)
        pause_s = self._outages.failed(within_s=self._longest_pause_s(now_s))
        if isinstance(error, Refused):
            pause_s = max(pause_s, error.retry_after_s)
        log.warning("no work from %s, asking again in %.1f s: %s", self._options.url, pause_s, error)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), pause_s)

    def _longest_pause_s(self, now_s: float) -> float:
        """Short at first, when jobs may be waiting for us; not in a long outage, which is everybody's."""
        heartbeat_s = self._farm.heartbeat_s
        return pace.pause_s(heartbeat_s) if now_s - self._outage_s <= heartbeat_s else math.inf


def _now_s() -> float:
    return asyncio.get_running_loop().time()
