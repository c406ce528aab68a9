"""What a test delivery says unless somebody writes it themselves: of its sender's form, and harmless, for nothing
handles its type: it ends as ignored, with all of the way behind it."""

import json
from datetime import datetime
from typing import Any, Final

from webhooks.domain.names import Source

TYPE: Final = "jobfarm.test"


def sample(source: Source, *, now: datetime, token: str) -> tuple[str, str]:
    """A type and a body. `token` makes it another one than the last, which would be a repeat of the same."""
    body = _body(source, now=now, token=token)
    return _type_of(source), json.dumps(body, indent=2)


def _type_of(source: Source) -> str:
    """Telemetry is always a batch; GitHub's types have a part after a full stop only where the body has an action."""
    return {Source.GITHUB: "jobfarm_test", Source.SANDBOX_TELEMETRY: "batch"}.get(source, TYPE)


def _body(source: Source, *, now: datetime, token: str) -> Any:
    at_ms = int(now.timestamp() * 1000)
    data = {"message": "A test delivery, sent by hand.", "test": token}
    bodies: dict[Source, Any] = {
        Source.CLERK: {"type": TYPE, "object": "event", "timestamp": at_ms, "data": data},
        Source.GITHUB: {"zen": "Half measures are as bad as nothing at all.", **data},
        Source.JIRA: {"webhookEvent": TYPE, "timestamp": at_ms, **data},
        Source.CONFLUENCE: {"event": TYPE, "timestamp": at_ms, **data},
        Source.STRIPE: _stripe(data, token=token, at_ms=at_ms),
        Source.SANDBOX_HOOKS: {"hook_event_name": TYPE, "session_id": f"test-{token}", **data},
        Source.SANDBOX_COMPLETION: {"type": TYPE, "timestamp": now.isoformat(), "data": data},
        Source.SANDBOX_TELEMETRY: [],
    }
    return bodies[source]


def _stripe(data: dict[str, str], *, token: str, at_ms: int) -> dict[str, Any]:
    named = {"id": f"evt_test_{token}", "object": "event", "type": TYPE, "created": at_ms // 1000}
    return {**named, "livemode": False, "data": {"object": data}}
