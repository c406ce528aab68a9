"""What is sent: the types of events, the states of messages and endpoints, and which messages a list shows."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final, Self

from accounts.domain import EVENTS

TEST: Final = "outbox.test"
TYPES: Final[Mapping[str, str]] = {
    "job.succeeded": "A job ended in success.",
    "job.failed": "A job failed for good: its attempts are used up, or it must not be retried.",
    "job.canceled": "A job was canceled.",
    "job.timed_out": "A job ran or waited longer than it may.",
    "job.lost": "The lease of an attempt ran out. Another event follows when the job ends.",
    "job.replaced": "A newer submit of its unique key took the place of what a job that waits was to do.",
    "batch.completed": "All lines of a batch of OpenAI's API have ended.",
    "batch.failed": "The input file of a batch was refused, and nothing of it ran.",
    "batch.expired": "The completion window of a batch ended before its lines.",
    "batch.cancelled": "A batch was cancelled, and what was running of it has ended.",
    "queue.paused": "Nothing of a queue is claimed any more.",
    "queue.resumed": "The jobs of a queue are claimed again.",
    "owner.paused": "None of a person's jobs is claimed any more.",
    "owner.resumed": "The jobs of a person are claimed again.",
    "cron.failed": "A function that a cron had scheduled failed.",
    "delivery.dead": "A webhook that came in failed for the last time.",
    "alert.firing": "An alert began to fire, or still does.",
    "alert.resolved": "An alert stopped firing.",
    **{f"audit.{name}": sentence for name, sentence in EVENTS.items()},
    TEST: "Somebody sent a test event.",
}
FAMILIES: Final = tuple(dict.fromkeys(name.partition(".")[0] for name in TYPES))
ALL: Final = "*"
# What may stand in an endpoint's list: a type, all of a family, or all there are.
PATTERNS: Final = (ALL, *(f"{family}.*" for family in FAMILIES if family != "outbox"), *TYPES)
# What members may ask for: events that are somebody's. A person gets their own, and those of their groups.
OF_PEOPLE: Final = tuple(name for name in PATTERNS if name.partition(".")[0] in {"job", "batch"})


def choices() -> list[tuple[str, str]]:
    """What an endpoint may ask for, as a field's choices: by name, so that a new event is no migration."""
    return [(pattern, pattern) for pattern in PATTERNS]


def patterns_of(event_type: str) -> tuple[str, ...]:
    """What an endpoint may ask for to get this one. The audit log says who was where: it is asked for by name alone."""
    family = event_type.partition(".")[0]
    return (event_type, f"{family}.*") if family == "audit" else (event_type, f"{family}.*", ALL)


class EndpointStatus(StrEnum):
    """`paused`: events are kept for it and wait. `disabled`: nothing is kept for it any more."""

    ACTIVE = "active"
    PAUSED = "paused"
    DISABLED = "disabled"


FAILING = "failing"  # how an active endpoint is shown of which no attempt succeeds
RETRIED = "retried"  # how a message is shown that waits for another attempt
GONE: Final = "It answered 410: it is gone."
CALLBACK: Final = "callback"  # how the name begins of an endpoint that the address of a submit made
CALLBACK_EVENTS: Final = ("job.*",)


class Status(StrEnum):
    PENDING = "pending"
    DELIVERED = "delivered"
    DEAD = "dead"


class Outcome(StrEnum):
    DELIVERED = "delivered"  # 2xx
    FAILED = "failed"  # any other answer, or none
    GONE = "gone"  # 410: the endpoint does not exist any more


# A person may have a message sent again once it has ended; one that waits is sent anyway.
REPLAYABLE = frozenset({Status.DELIVERED, Status.DEAD})


_LONGEST_SUBJECT = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What is left empty does not narrow."""

    endpoint: int | None = None
    status: Status | None = None
    event_type: str = ""
    subject: str = ""

    def columns(self) -> dict[str, Any]:
        columns = {
            "endpoint_id": self.endpoint, "status": self.status,
            "event__type": self.event_type, "subject": self.subject,
        }  # fmt: skip
        return {name: value for name, value in columns.items() if value}

    def sentence(self) -> str:
        endpoint = f"endpoint {self.endpoint}" if self.endpoint else ""
        return ", ".join(filter(None, (self.status or "", self.event_type, self.subject, endpoint))) or "all"

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"status": self.status or ""}

    @classmethod
    def read(cls, *, endpoint: int | None = None, status: str = "", event_type: str = "", subject: str = "") -> Self:
        """The filter of `as_json`, of a form or an address; what is unknown there does not narrow."""
        return cls(
            endpoint=endpoint,
            status=Status(status) if status in set(Status) else None,
            event_type=event_type if event_type in TYPES else "",
            subject=subject.replace("\x00", "")[:_LONGEST_SUBJECT],
        )
