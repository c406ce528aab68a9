"""Which function handles which event of which source, and which rules apps declare in their code. Importable before any
app is ready: this module loads no model."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeVar

from webhooks.domain import rules
from webhooks.domain.deliveries import Source
from webhooks.domain.parts import Part, Version
from webhooks.domain.rules import Rule
from webhooks.errors import BadRule


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
    family = f"{event_type.partition('.')[0]}.*"
    return _handlers.get((source, event_type)) or _handlers.get((source, family))


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


class Declaration:
    """One call of `on`. As a decorator it has the function make the payload."""

    def __init__(self, rule: Rule, *, has_payload: bool) -> None:
        self.rule = rule
        self._has_payload = has_payload

    def __call__(self, build: H) -> H:
        """Let this function make the payload: it is given the Event, and returns None for no job."""
        self.rule = replace(self.rule, build=build)
        return build

    def mistake(self) -> str | None:
        if self._has_payload and self.rule.build is not None:
            return BadRule(field="payload", reason="a function makes it, so no template is given").message
        try:
            rules.check(self.rule)
        except BadRule as refusal:
            return refusal.message
        return None


_declared: list[Declaration] = []


def on(  # noqa: PLR0913  # what a rule says; they are named wherever they are given
    source: str,
    event: str,
    *,
    kind: str = "",
    flow_template: str = "",
    signal: str = "",
    signal_key: str = "",
    payload: Any = None,
    filter: Mapping[str, Any] | None = None,  # noqa: A002  # the word that the administration has for it
    name: str | None = None,
    queue: str | None = None,
    priority: int | None = None,
    owner: str | None = None,
    unique_key: str | None = None,
    on_conflict: str | None = None,
    debounce: Mapping[str, float] | None = None,
    tags: Sequence[str] = (),
) -> Declaration:
    """Have every delivery of `source` whose event is `event` start a job of this kind, or a flow of this template,
    or send this signal to the jobs that wait for it by `signal_key`, a template. Each delivery does so once,
    whatever crashes, comes twice or is replayed, unless a replay is asked to start its jobs again.

    `event` is a type (`issues.opened`), a family (`issues.*`) or `*`; `filter` an object of paths and what has to be
    there; `payload` a template (docs/webhooks.md), None: the body as it is. As a decorator the function makes the
    payload instead: it is given the `Event` and returns JSON, or None for no job. It runs in the transaction that
    processes the delivery, so it touches nothing but the database, and may run again.

    `queue`, `priority`, `unique_key` and `tags` (templates), `on_conflict` and `debounce` are those of
    `jobs.operations.submit`; `owner` is the name of a person, None: the job is the site's own. `name` tells this rule
    from others for good, also after its code has moved: "source event kind" unless it is said. To be called where an
    app is loaded, in its `hooks.py`.

    Raises nothing: `manage.py check` says what is wrong, and a job that cannot be started is kept with the delivery.
    """
    name = name or f"{source} {event} {kind or flow_template or signal}"
    rule = Rule(
        key=f"code:{name}", name=name, source=source, kind=kind, flow_template=flow_template, signal=signal,
        signal_key=signal_key, filter={} if filter is None else filter, queue=queue, priority=priority, owner=owner,
        unique_key=unique_key, on_conflict=on_conflict, debounce=debounce, tags=tags,
        template=rules.WHOLE_BODY if payload is None else payload,
        event=str(event),  # whatever it is: one that makes no sense means nothing, and the checks say so
    )  # fmt: skip
    declaration = Declaration(rule, has_payload=payload is not None)
    _declared.append(declaration)
    return declaration


def declared() -> list[Declaration]:
    return list(_declared)


def declared_for(source: str, event: str) -> list[Rule]:
    every = (one.rule for one in _declared)
    return [rule for rule in every if rule.source == source and rules.means(rule.event, event)]


def declared_rule(key: str) -> Rule | None:
    return next((one.rule for one in _declared if one.rule.key == key), None)
