"""What is sent: the types of events, the states of messages and endpoints, and which messages a list shows; what an
endpoint is, the schemes by which it is reached, and how a message to it is signed (Standard Webhooks)."""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, Self
from urllib.parse import quote

from accounts.domain import EVENTS
from outbox.domain import addresses
from outbox.errors import BadEndpoint

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


FAILING: Final = "failing"  # how an active endpoint is shown of which no attempt succeeds
RETRIED: Final = "retried"  # how a message is shown that waits for another attempt
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
LONGEST_SUBJECT: Final = 200


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
            subject=subject.replace("\x00", "")[:LONGEST_SUBJECT],
        )


PREFIX: Final = "whsec_"
_FEWEST_BYTES, _MOST_BYTES = 24, 64  # as the specification asks


def secret_of(key: bytes) -> str:
    return PREFIX + base64.b64encode(key).decode()


def key_of(secret: str) -> bytes:
    """The bytes of a secret. Raises ValueError with the reason."""
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"after {PREFIX} it is base64") from None
    if not secret.startswith(PREFIX) or not _FEWEST_BYTES <= len(key) <= _MOST_BYTES:
        raise ValueError(f"it is {PREFIX} and {_FEWEST_BYTES} to {_MOST_BYTES} bytes as base64")
    return key


def headers(
    *, message_id: str, event_type: str, subject: str, source: str, occurred_at: datetime, body: bytes,
    secrets: Sequence[str], now: datetime,
) -> dict[str, str]:  # fmt: skip
    """The headers of one attempt at `now`, signed with each of these secrets, the newest first."""
    timestamp = str(int(now.timestamp()))
    return {
        "content-type": "application/json",
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": " ".join(_signature(one, message_id, timestamp, body) for one in secrets),
        "ce-specversion": "1.0",
        "ce-id": message_id,
        "ce-type": event_type,
        "ce-source": source,
        "ce-subject": quote(subject, safe="/:@!$&'()*+,;=-._~"),
        "ce-time": occurred_at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
    }


def _signature(secret: str, message_id: str, timestamp: str, body: bytes) -> str:
    signed = f"{message_id}.{timestamp}.".encode() + body
    digest = hmac.new(key_of(secret), signed, hashlib.sha256).digest()
    return "v1," + base64.b64encode(digest).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """`check(url)` raises BadUrl; `take(url, event, message_id=, owner=)` does, in a transaction of its own, what is to
    be done about an event, the object that others are sent; a Refusal is why it is for nobody."""

    check: Callable[[str], None]
    take: Callable[..., None]


_SCHEMES: dict[str, Scheme] = {}


def register_scheme(name: str, *, check: Callable[[str], None], take: Callable[..., None]) -> None:
    """Let what is sent to `name:...` be taken so. To be called where an app is loaded, in its `hooks.py`."""
    _SCHEMES[name] = Scheme(check=check, take=take)


def scheme_of(url: str) -> Scheme | None:
    return _SCHEMES.get(url.partition(":")[0])


LONGEST_NAME = 100
LEAST_PER_MINUTE = 0.001  # some more than one a day


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """An endpoint as its owner wants it. Raises BadEndpoint, and BadUrl for an address that cannot be sent to."""

    name: str
    url: str = field(repr=False)
    events: Sequence[str] = ("job.*",)
    kinds: Sequence[str] = ()
    with_result: bool = False
    per_minute: float | None = None

    def __post_init__(self) -> None:
        scheme = scheme_of(self.url)
        (scheme.check if scheme else addresses.host_of)(self.url)
        unknown = sorted(set(self.events) - set(PATTERNS))
        if not self.name.strip() or len(self.name) > LONGEST_NAME or "\x00" in self.name:
            raise BadEndpoint(field="name", reason=f"from 1 to {LONGEST_NAME} characters")
        if unknown or not self.events:
            raise BadEndpoint(field="events", reason=f"there is no type {unknown[0]}" if unknown else "name one")
        if any(not 0 < len(kind) <= 100 or "\x00" in kind for kind in self.kinds) or len(self.kinds) > 100:
            raise BadEndpoint(field="kinds", reason="at most 100 names of kinds")
        if self.per_minute is not None and not LEAST_PER_MINUTE <= self.per_minute <= 1e9:
            raise BadEndpoint(field="per_minute", reason=f"a number of at least {LEAST_PER_MINUTE}")

    def for_member(self) -> None:
        """Raise BadEndpoint for events that are nobody's own: they go to endpoints of the whole farm."""
        of_farm = [one for one in self.events if one not in {ALL, *OF_PEOPLE}]
        if of_farm:
            raise BadEndpoint(field="events", reason=f"{of_farm[0]} goes to endpoints of the whole farm alone")


FIELDS: Final = tuple(Wanted.__dataclass_fields__)
