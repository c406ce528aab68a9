"""A sender for tests: signs as each source does, and posts over real sockets."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import httpx

from webhooks.domain.deliveries import Source
from webhooks.operations import secrets
from webhooks.sources import configs


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A request that is ready to be sent."""

    source: Source
    body: bytes
    headers: Mapping[str, str]
    query: Mapping[str, str] = field(default_factory=dict)

    @property
    def path(self) -> str:
        """Where it goes."""
        return configs.CONFIGS[self.source].path


def make_secrets() -> dict[Source, str]:
    """A live secret for each source."""
    return {source: secrets.add(source)[1] for source in Source}


def signed(
    source: Source,
    body: bytes | Mapping[str, Any] | list[Any],
    secret: str,
    *,
    event_type: str = "ping",
    delivery_id: str | None = None,
    now: datetime | None = None,
    **headers: str,
) -> Given:
    """A request signed as the source signs; further headers by name, with _ for -."""
    given = body if isinstance(body, bytes) else json.dumps(body).encode()
    made = configs.CONFIGS[source].sign(
        given,
        secret=secret,
        event_type=event_type,
        delivery_id=delivery_id or f"msg_{hashlib.sha256(given).hexdigest()[:20]}",
        now=now or datetime.now(UTC),
    )
    extra = {name.replace("_", "-"): value for name, value in headers.items()}
    return Given(source=source, body=given, headers={"Content-Type": "application/json", **made, **extra})


def post(client: httpx.Client, given: Given) -> httpx.Response:
    """Send it."""
    return client.post(given.path, content=given.body, headers=dict(given.headers), params=dict(given.query) or None)


# For each source a body that is of its form, and its type. Numbered, so that there are as many as one wants.
def sample(source: Source, number: int = 0) -> tuple[dict[str, Any] | list[Any], str]:
    """A body of a type that nothing handles, and the type."""
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    bodies: dict[Source, tuple[dict[str, Any] | list[Any], str]] = {
        Source.CLERK: ({"type": "test.event", "n": number, "data": {}, "timestamp": now_ms}, "test.event"),
        Source.GITHUB: ({"zen": "Keep it logically awesome.", "n": number}, "test_event"),
        Source.JIRA: ({"webhookEvent": "test_event", "n": number, "timestamp": now_ms}, "test_event"),
        Source.CONFLUENCE: ({"event": "test_event", "n": number, "timestamp": now_ms}, "test_event"),
        Source.STRIPE: ({"id": f"evt_{number}", "type": "test.event", "created": now_ms // 1000}, "test.event"),
        Source.SANDBOX_HOOKS: ({"hook_event_name": "TestEvent", "session_id": "s", "n": number}, "TestEvent"),
        Source.SANDBOX_COMPLETION: ({"type": "sandbox.session.tested", "n": number}, "sandbox.session.tested"),
        Source.SANDBOX_TELEMETRY: ([{"outcome": "ok", "n": number}], "batch"),
    }
    return bodies[source]
