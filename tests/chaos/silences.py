"""When which workers could not be heard: a fault killed them, stopped them, or cut them off from their web server."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(slots=True)
class _Silence:
    workers: frozenset[str]
    since: datetime
    until: datetime | None = None


class Silences:
    """The excuses for attempts that were lost.

    A fault that leaves a worker able to speak is none, and one that keeps the whole farm from hearing is none either.
    """

    def __init__(self) -> None:
        self._all: list[_Silence] = []

    def begin(self, workers: Iterable[str]) -> None:
        """From now on nobody hears these workers."""
        self._all.append(_Silence(workers=frozenset(workers), since=_now()))

    def end(self) -> None:
        """All are heard again."""
        for silence in self._all:
            silence.until = silence.until or _now()

    def excuse(self, worker: str, *, since: datetime, until: datetime) -> bool:
        """Whether this worker could not be heard at some moment between."""
        return any(
            worker in silence.workers and silence.since <= until and (silence.until is None or silence.until >= since)
            for silence in self._all
        )


def _now() -> datetime:
    """By the clock of this machine, which is the database's too: that may be what is broken."""
    return datetime.now(UTC)
