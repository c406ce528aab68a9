"""What a delivery is: who sends it, how it stands, and which deliveries a list shows."""

import hashlib
import random
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, Self

from core.backoff import Backoff

LONGEST: Final = 255  # characters of an id, here and in the tables


class Source(StrEnum):
    CLERK = "clerk"
    GITHUB = "github"
    JIRA = "jira"
    CONFLUENCE = "confluence"
    STRIPE = "stripe"
    SANDBOX_HOOKS = "sandbox_hooks"
    SANDBOX_COMPLETION = "sandbox_completion"
    SANDBOX_TELEMETRY = "sandbox_telemetry"

    @property
    def label(self) -> str:
        return "GitHub" if self is Source.GITHUB else self.replace("_", " ").capitalize()


def has_unsigned_id(source: Source) -> bool:
    """Whether the delivery id lies outside of what the sender signs, so that the body's digest is a second key."""
    return source in {Source.GITHUB, Source.JIRA, Source.CONFLUENCE}


def within(sender: str, name: str) -> str:
    """A name that only this sender vouches for, told apart from the same name of another; at most 255 characters."""
    together = f"{sender}/{name}"
    if len(together) <= LONGEST:
        return together
    return f"{sender[:100]}/sha256:{hashlib.sha256(together.encode()).hexdigest()}"


class Status(StrEnum):
    RECEIVED = "received"
    PROCESSED = "processed"
    IGNORED = "ignored"
    FAILED = "failed"
    DEAD = "dead"
    REJECTED = "rejected"


class Outcome(StrEnum):
    PROCESSED = "processed"
    IGNORED = "ignored"
    REJECTED = "rejected"
    FAILED = "failed"


class StartOutcome(StrEnum):
    STARTED = "started"
    SKIPPED = "skipped"  # a job with the same unique key had not ended, or a later delivery started it
    FAILED = "failed"
    SENT = "sent"  # a signal, to whom it concerns


ENDED_WELL = frozenset({Status.PROCESSED, Status.IGNORED})
# An attempt to process it is still to come by itself; a dead one, and one that was rejected, waits for a person.
WAITING = frozenset({Status.RECEIVED, Status.FAILED})
# By a person, when a handler was mended since; one that failed also by its sender, who sent it again.
REPLAYABLE = frozenset(Status) - {Status.RECEIVED}


def is_replayable(status: str, *, tries: int) -> bool:
    """Whether an attempt can change anything: a body that was rejected before any attempt cannot be read at all."""
    return status in REPLAYABLE and (status != Status.REJECTED or tries > 0)


def next_wait(*, after: int, attempts: int, first_s: float, rng: random.Random) -> timedelta | None:
    """How long to wait after this attempt (1 is the first) of so many failed; None when it was the last. Each wait is
    four times as long, up to a tenth shorter at random, and at most an hour: 1, 4, 16 and 60 minutes of 5 attempts."""
    if after >= attempts:
        return None
    backoff = Backoff(first_s=first_s, base=4, cap_s=3600, jitter=(0.9, 1))
    return timedelta(seconds=backoff.delay_s(after, rng=rng))


_MOMENTS: Final = ("received_from", "received_to")


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What is left empty does not narrow. `text` is words of the body, or a delivery id, or an event type."""

    source: str = ""
    event_type: str = ""
    sandbox: str = ""
    statuses: tuple[Status, ...] = ()
    received_from: datetime | None = None
    received_to: datetime | None = None
    text: str = ""

    def as_json(self) -> dict[str, Any]:
        moments = {name: value.isoformat() if (value := getattr(self, name)) else None for name in _MOMENTS}
        return asdict(self) | {"statuses": list(self.statuses)} | moments

    @classmethod
    def of_json(cls, document: Mapping[str, Any]) -> Self:
        moments = {name: datetime.fromisoformat(text) if (text := document.get(name)) else None for name in _MOMENTS}
        return cls(**{**document, "statuses": tuple(map(Status, document.get("statuses", ()))), **moments})

    def sentence(self) -> str:
        parts = [f"{name} {value}" for name, value in self.as_json().items() if value and name != "statuses"]
        parts += [f"status {' or '.join(self.statuses)}"] if self.statuses else []
        return ", ".join(parts) or "everything"
