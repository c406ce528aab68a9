"""What is known of a worker: whether it is there, and what it reported about itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from jobs.domain.states import AttemptOutcome


class Presence(StrEnum):
    """Whether a worker is there. Whether it is drained is another question: a drained one may be there or not."""

    LIVE = "live"
    AWAY = "away"
    NEVER_CONNECTED = "never_connected"
    REVOKED = "revoked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One graphics processor, and its memory in bytes if that is known."""

    name: str
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a worker reported about itself. Whatever it left out is empty or None."""

    version: str = ""
    host: str = ""
    platform: str = ""
    handlers: tuple[str, ...] = ()
    concurrency: int | None = None
    cpus: int | None = None
    memory_bytes: int | None = None
    gpus: tuple[Gpu, ...] = ()
    models: tuple[str, ...] = ()
    loaded: tuple[str, ...] = ()
    cache_used: float | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    stuck: tuple[int, ...] = ()
    leaving: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StuckSlot:
    """A slot that takes no job: the attempt that it had ended like this, and its handler runs on."""

    job: int
    outcome: AttemptOutcome
    since: datetime

    @property
    def text(self) -> str:
        """What is so since then: "has run past its timeout"."""
        return _RUNS_ON.get(self.outcome, "has run on, though it ended,")


_RUNS_ON: Final = {
    AttemptOutcome.TIMED_OUT: "has run past its timeout",
    AttemptOutcome.CANCELED: "has run on, though canceled,",
    AttemptOutcome.LOST: "has run on, though its lease was lost,",
}


def presence(*, revoked_at: datetime | None, last_seen_at: datetime | None, now: datetime, alive_s: float) -> Presence:
    """Whether a worker is there, at `now` of the clock that wrote the other moments: it was seen within `alive_s`
    seconds. The one rule of pages, admin, API, commands and metrics."""
    if revoked_at is not None:
        return Presence.REVOKED
    if last_seen_at is None:
        return Presence.NEVER_CONNECTED
    return Presence.LIVE if last_seen_at > now - timedelta(seconds=alive_s) else Presence.AWAY
