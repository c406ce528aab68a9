"""What is said of jobs that no worker is given: whose workers are drained, and which was there last. `why`, the doctor,
the overview and the queue's page say it in the same words."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple

NAMED: Final = 3  # drained workers that a sentence names


class Named(NamedTuple):
    """A worker, to name it and to lead to its page."""

    id: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unserved:
    """A queue without a live worker that is given its jobs: the drained ones, and which of all was heard of last."""

    queue: str
    drained: Sequence[Named] = ()
    last_worker: str | None = None
    last_seen_at: datetime | None = None

    @property
    def sentence(self) -> str:
        """Who would have to do something, by name."""
        if self.drained:
            return self._all_drained()
        known = self.last_worker is not None and self.last_seen_at is not None
        last = f"; the last was {self.last_worker}, until {utc(self.last_seen_at)}" if known else ""  # type: ignore[arg-type]
        return f"No live worker serves the queue {self.queue}{last}."

    def _all_drained(self) -> str:
        names = [worker.name for worker in self.drained]
        if len(names) == 1:
            return (
                f"The only live worker of the queue {self.queue} that could take it, {names[0]}, is drained: "
                "it is given no jobs until that ends."
            )
        named = f"{', '.join(names[:NAMED])}{' and more' if len(names) > NAMED else ''}"
        return (
            f"All {len(names)} live workers of the queue {self.queue} that could take it are drained ({named}): "
            "they are given no jobs until that ends."
        )


def utc(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
