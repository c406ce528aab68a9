"""Which jobs an event stream of many follows, and what of its past a client may still ask for."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

EVERYBODY: Final = 0
BACK: Final = timedelta(hours=1)  # a stream goes on behind an event that is no older than this
MARGIN: Final = timedelta(seconds=10)  # what is committed so much later than it happened is sent too


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Jobs that have all the tags, are of the kind, the owner and the flow (where these are named), and that `viewer`
    may see: EVERYBODY's, or those of a person and of these groups."""

    tags: tuple[str, ...] = ()
    kind: str = ""
    owner: str = ""
    flow: int | None = None
    viewer: int
    groups: Collection[int] = ()

    def fits(self, job: Any) -> bool:
        """Whether it is one of them: a row with `kind`, `username`, `owner_id`, `group_id`, `flow_id` and `tags`."""
        is_seen = self.viewer in {EVERYBODY, job.owner_id} or job.group_id in self.groups
        is_named = self.kind in {"", job.kind} and self.owner in {"", job.username}
        is_named = is_named and self.flow in {None, job.flow_id}
        return is_seen and is_named and set(self.tags) <= set(job.tags or ())


def event_id(moment: datetime) -> str:
    """What a client that has seen everything up to this moment sends back."""
    return f"{moment.timestamp() * 1000:.0f}"


def since(event_id: str, *, now: datetime) -> datetime | None:
    """From when on a client that names this event has to be sent what happened; None: it is too long ago, or none."""
    if not (event_id.isascii() and event_id.isdecimal() and len(event_id) < 15):
        return None
    moment = datetime.fromtimestamp(int(event_id) / 1000, UTC)
    return moment - MARGIN if now - BACK <= moment else None
