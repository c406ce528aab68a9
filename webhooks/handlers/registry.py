"""Which function handles which event of which source."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from webhooks.domain.deliveries import Source
from webhooks.domain.parts import Part, Version


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One delivery as its handler gets it.

    `body` is the parsed JSON; of telemetry, which sends lists, it is `{"items": [...]}`. What PostgreSQL could not
    store is replaced in its strings: U+0000 by U+2400, a lone surrogate by U+FFFD. `type` is as the sender's module in
    `webhooks.sources` says (`issues.opened`). `occurred_at` is by the sender's clock; where the sender does not say, it
    is `received_at`. `sandbox` says whose bearer token it came with. `unread` gathers the fields that could not be read
    and were gone on without.
    """

    source: str
    type: str
    delivery_id: str
    body: Mapping[str, Any]
    occurred_at: datetime
    received_at: datetime
    pk: int
    sandbox: str | None = None
    unread: list[str] = field(default_factory=list, compare=False)

    @property
    def action(self) -> str:
        """The end of its type, behind the last full stop: `created` of `user.created`."""
        return self.type.rpartition(".")[2]

    def read(self) -> Part:
        """The body, to be asked for what it says. What is asked for by `need` and is not there raises BadPayload: the
        delivery is then `rejected`, with the name of the field."""
        return Part(self.body, unread=self.unread)

    def version(self, *moments: datetime | None, number: int = 0, rank: int = 0) -> Version:
        """The version of a state of the first of these moments that the sender says. If it says none, that of its
        receipt, as a fallback: what is not dated stands until something dated comes, and never replaces it."""
        at = next((moment for moment in moments if moment is not None), None)
        return Version(at=at or self.occurred_at, number=number, rank=rank, is_fallback=at is None)


# What a handler returns is None when the event was taken in, or why there was nothing to take in: the delivery is
# then `ignored`, with that as its note.
Handler = Callable[[Event], str | None]
H = TypeVar("H", bound=Callable[[Event], Any])

_handlers: dict[tuple[str, str], Handler] = {}
_receivers: dict[tuple[str, str], list[Handler]] = {}


def handles(source: str, *types: str) -> Callable[[H], H]:
    """Register the decorated function for these event types of a source.

    It runs inside the serializable transaction that processes the delivery, so it touches nothing but the database,
    and may run again. A type that ends in `.*` means all that begin so and have no handler of their own. Raises
    ValueError for a type that has a handler already.
    """

    def register(handler: H) -> H:
        for event_type in types:
            if _handlers.setdefault((source, event_type), handler) is not handler:
                raise ValueError(f"{source} {event_type} is handled twice")
        return handler

    return register


def receives(source: str, *types: str) -> Callable[[H], H]:
    """Register the decorated function of another app for these event types of a source, beside the farm's own handler.

    It runs after that one, in the same transaction and under the same rules (`handles`): any number may receive a
    type, an event that one of them took in is processed, and the delivery is retried when one of them raises. A
    type that ends in `.*` means all that begin so. Raises ValueError for a source that does not exist.
    """

    def register(receiver: H) -> H:
        for event_type in types:
            _receivers.setdefault((Source(source), event_type), []).append(receiver)
        return receiver

    return register


def all_for(source: str, event_type: str) -> list[Handler]:
    """The farm's handler of an event type, if there is one, and then the receivers of other apps."""
    family = f"{event_type.partition('.')[0]}.*"
    own = find(source, event_type)
    receivers = _receivers.get((source, event_type), []) + _receivers.get((source, family), [])
    return [*([own] if own else []), *receivers]


def find(source: str, event_type: str) -> Handler | None:
    exact = _handlers.get((source, event_type))
    if exact is not None:
        return exact
    family = event_type.partition(".")[0]
    return _handlers.get((source, f"{family}.*"))


def everything() -> dict[tuple[str, str], Handler]:
    return dict(sorted(_handlers.items(), key=lambda pair: pair[0]))


IGNORED = (
    ("clerk", "email.created", "It carries other people's mail."),
    ("clerk", "sms.created", "It carries other people's messages."),
    ("clerk", "role.*", "Roles are shown as memberships name them."),
    ("clerk", "permission.*", "Permissions are not shown."),
    ("github", "check_run.* status", "A step of a check; the workflow's run is shown as a whole."),
    ("github", "check_suite.*", "A group of checks; the workflow's run is shown as a whole."),
    ("github", "workflow_job.*", "A part of a workflow's run, which is shown as a whole."),
    ("github", "workflow_run.requested workflow_run.in_progress", "Its end is shown."),
    ("github", "installation.* installation_repositories.*", "Which repositories an app may see is not shown."),
    ("github", "label.*", "Labels are shown as their issues name them."),
    ("github", "milestone.*", "Milestones are not shown."),
    ("github", "star.*", "It is shown as watch.started."),
    ("jira", "worklog_created worklog_updated worklog_deleted", "How long people worked is not shown."),
    ("jira", "issuelink_created issuelink_deleted", "Links between issues are not shown."),
    ("jira", "attachment_created attachment_deleted", "Attachments are not shown."),
    ("confluence", "test", "The Test connection button, which only needs a response."),
    ("stripe", "charge.succeeded payment_intent.*", "Its invoice or checkout shows the same payment."),
    ("stripe", "charge.updated", "It changes nothing that is shown."),
    ("stripe", "payment_method.*", "Means of payment are not kept."),
    ("stripe", "invoiceitem.*", "An invoice is shown as a whole."),
    ("stripe", "plan.* price.* product.*", "The catalog is not kept; a subscription names its price."),
)


for source, types, reason in IGNORED:  # a handler that takes nothing in: its answer is the delivery's note
    handles(source, *types.split())(lambda _event, reason=reason: reason)
