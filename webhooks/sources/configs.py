"""The eight sources: where each posts, how it signs, and where the id, type and time of a delivery are; and what a
verified request says of these, or why that cannot be read."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from webhooks.domain import bodies
from webhooks.domain.deliveries import LONGEST, Source
from webhooks.errors import BadEnvelope, NotJson, UnknownSource
from webhooks.sources import requests
from webhooks.sources.requests import Envelope, NameReader, Parsed, Request, Scheme, TimeReader, Verified

_JSON: Final = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceConfig:
    """One source. `headers` are those that it sends beside its signature, by event type and delivery id.
    `is_dated_by_body`: no time is signed but the body's own, which then bounds how late a request may be repeated."""

    source: Source
    path: str
    scheme: Scheme
    delivery_id: NameReader
    event_type: NameReader
    occurred_at: TimeReader = lambda _: None
    body_limit: int = 1 << 20
    media_types: Sequence[str] = (_JSON,)
    is_dated_by_body: bool = False
    headers: Callable[[str, str], dict[str, str]] = lambda event_type, delivery_id: {}  # noqa: ARG005

    def envelope(self, request: Request, document: Any, *, verified: Verified) -> Envelope:
        """Read id, type and time; `document` is the parsed body, whose time goes before the signature's. Raises
        BadEnvelope."""
        parsed = Parsed(request=request, document=document)
        return Envelope(
            delivery_id=self.delivery_id(parsed),
            event_type=self.event_type(parsed),
            occurred_at=self.occurred_at(parsed) or verified.signed_at,
        )

    def sign(self, body: bytes, *, secret: str, event_type: str, delivery_id: str, now: datetime) -> dict[str, str]:
        """The headers with which the sender itself would post these bytes."""
        signature = self.scheme.sign(body, secret=secret, delivery_id=delivery_id, now=now)
        return signature | self.headers(event_type, delivery_id)


def find(name: str) -> Source:
    """The source of this name. Raises UnknownSource."""
    try:
        return Source(name)
    except ValueError:
        raise UnknownSource(source=name, known=", ".join(Source)) from None


def _github_type(parsed: Parsed) -> str:
    """The event's name, and the body's `action` where it has one: `push`, `issues.opened`."""
    action = parsed.body.get("action")
    event = requests.name_or_empty(parsed.request.first_header("x-github-event"), field="x-github-event")
    has_action = bool(event) and isinstance(action, str) and bool(action)
    return requests.name(f"{event}.{action}", field="action") if has_action else event


def _github_headers(event_type: str, delivery_id: str) -> dict[str, str]:
    """The event's name is what precedes the action."""
    event = event_type.partition(".")[0]
    return {"X-GitHub-Event": event, "X-GitHub-Delivery": delivery_id, "User-Agent": "GitHub-Hookshot/jobfarm-test"}


_ATLASSIAN_HEADERS: Final = {"User-Agent": "Atlassian Webhook HTTP Client"}


def _confluence_type(parsed: Parsed) -> str:
    """The body's `event`; else the address's `?event=`, since bodies of the Cloud do not name it; else what the body
    looks like. `{"test": true}` is Data Center's handshake."""
    body = parsed.body
    event = body.get("event") or parsed.request.query.get("event") or _inferred(body)
    return requests.name_or_empty(event, field="event")


def _inferred(body: Mapping[str, Any]) -> str:
    if body.get("test") is True:
        return "test"
    # A comment's body names its page too, so the more particular comes first.
    for resource in ("comment", "attachment", "blog", "page", "space"):
        if isinstance(body.get(resource), Mapping):
            return f"{resource}_created" if body[resource].get("version") == 1 else f"{resource}_updated"
    return ""


def _hook_id(parsed: Parsed) -> str:
    """The signed id. Without one (a bearer token came instead) session, event and tool use where there is one."""
    parts = [parsed.body.get(field) for field in ("session_id", "hook_event_name", "tool_use_id")]
    named = [part for part in parts if isinstance(part, str) and part]
    together, has_all = ":".join(named), len(named) == len(parts) and "webhook-id" not in parsed.request.headers
    is_name = has_all and len(together) <= LONGEST and together.isprintable()
    return together if is_name else requests.header("webhook-id")(parsed)


def _batch(parsed: Parsed) -> str:
    """All telemetry has one type. Raises BadEnvelope for what is neither an object nor a list of objects."""
    items = parsed.document if isinstance(parsed.document, list) else [parsed.document]
    if not all(isinstance(item, Mapping) for item in items):
        raise BadEnvelope(reason="the body must be a list of trace items, or one of them")
    return "batch"


_ALL: Final = (
    # Clerk sends through Svix: `svix-` headers, `webhook-` where they are not branded.
    SourceConfig(
        source=Source.CLERK,
        path="/clerk-users-webhook",
        scheme=requests.StandardWebhooks(prefixes=("svix", "webhook")),
        delivery_id=requests.header("svix-id", "webhook-id"),
        event_type=requests.optional("type"),
        occurred_at=requests.moment("timestamp"),
    ),
    # Neither id nor event is signed, so the digest of the body is a second key. GitHub never repeats by itself. A hook
    # that posts forms has its JSON in `payload`.
    SourceConfig(
        source=Source.GITHUB,
        path="/api/webhooks/github",
        scheme=requests.BodyHmac(header="X-Hub-Signature-256"),
        delivery_id=requests.header("x-github-delivery"),
        event_type=_github_type,
        body_limit=25 << 20,  # GitHub's own: what is larger it does not send
        media_types=(_JSON, "application/x-www-form-urlencoded"),
        headers=_github_headers,
    ),
    # An administrator's hook with a secret. The identifier is not signed, so the digest of the body is a second key.
    # Jira repeats on 408, 409, 425, 429, 5xx and silence, within 75 minutes; any other 4xx loses the event for good.
    SourceConfig(
        source=Source.JIRA,
        path="/api/webhooks/jira",
        scheme=requests.BodyHmac(header="X-Hub-Signature"),
        delivery_id=requests.header("x-atlassian-webhook-identifier"),
        event_type=requests.optional("webhookEvent"),
        occurred_at=requests.moment("timestamp"),
        body_limit=5 << 20,
        is_dated_by_body=True,
        headers=lambda _, delivery_id: _ATLASSIAN_HEADERS | {"X-Atlassian-Webhook-Identifier": delivery_id},
    ),
    # Data Center signs as Jira does; from the Cloud a relay of one's own signs in the same way. There is no id.
    SourceConfig(
        source=Source.CONFLUENCE,
        path="/api/webhooks/confluence",
        scheme=requests.BodyHmac(header="X-Hub-Signature"),
        delivery_id=requests.header(),
        event_type=_confluence_type,
        occurred_at=requests.moment("timestamp"),
        body_limit=5 << 20,
        is_dated_by_body=True,
        headers=lambda *_: _ATLASSIAN_HEADERS,
    ),
    # A thin event of version 2 has its time in ISO 8601.
    SourceConfig(
        source=Source.STRIPE,
        path="/api/webhooks/stripe",
        scheme=requests.TimestampedHmac(header="Stripe-Signature"),
        delivery_id=requests.required("id"),
        event_type=requests.optional("type"),
        occurred_at=requests.moment("created"),
        body_limit=2 << 20,
    ),
    # Hooks of the agents in sandboxes, whose bodies have no time. The agent's own HTTP hooks cannot sign, so a bearer
    # token of the sandbox is a second way in (operations.secrets). They read the answer: it is `{}` and nothing else,
    # since other keys would steer the agent.
    SourceConfig(
        source=Source.SANDBOX_HOOKS,
        path="/api/sandbox/hook-events",
        scheme=requests.StandardWebhooks(),
        delivery_id=_hook_id,
        event_type=requests.optional("hook_event_name"),
    ),
    # Ends of sandbox sessions: `sandbox.session.completed`, `failed`, `canceled` and so on.
    SourceConfig(
        source=Source.SANDBOX_COMPLETION,
        path="/api/sandbox/completion",
        scheme=requests.StandardWebhooks(),
        delivery_id=requests.header("webhook-id"),
        event_type=requests.optional("type"),
        occurred_at=requests.moment("timestamp"),
    ),
    # Of the Tail Worker: a list of trace items, or one of them. The busiest of the eight; stored at once and processed
    # by the cron `sandbox queue drain`. The Worker's `fetch` sends text/plain by default.
    SourceConfig(
        source=Source.SANDBOX_TELEMETRY,
        path="/api/sandbox/tail-telemetry",
        scheme=requests.StandardWebhooks(),
        delivery_id=requests.header("webhook-id"),
        event_type=_batch,
        body_limit=4 << 20,
        media_types=(_JSON, "text/plain"),
    ),
)
CONFIGS: Final[Mapping[Source, SourceConfig]] = {config.source: config for config in _ALL}
PATHS: Final[Mapping[str, Source]] = {config.path: source for source, config in CONFIGS.items()}


_LONGEST_REASON: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The envelope of a request, and its body's digest. `rejected`: why the body cannot be read; then the envelope has
    nothing but an id made of the digest."""

    envelope: Envelope
    digest: bytes
    rejected: str | None


def opened(source: Source, request: Request, *, verified: Verified) -> Opened:
    """Parse a verified body, and read its envelope. Of large bodies this takes seconds (`http.child_process`)."""
    digest = hashlib.sha256(request.body).digest()
    try:
        document = bodies.parse(request.body, content_type=request.headers.get("content-type", "")).document
        envelope = CONFIGS[source].envelope(request, document, verified=verified)
    except (NotJson, BadEnvelope) as error:
        unread = Envelope(delivery_id=f"sha256:{digest.hex()}", event_type="", occurred_at=None)
        return Opened(envelope=unread, digest=digest, rejected=error.message[:_LONGEST_REASON])
    return Opened(envelope=envelope, digest=digest, rejected=None)
