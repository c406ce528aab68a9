"""Test deliveries: a payload signed with the source's own newest secret, posted to our own address like any other.

What one says unless somebody writes it themselves is of its sender's form and harmless: nothing handles its type, so it
ends as ignored, with all of the way behind it.
"""

import json
import secrets as rng
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.conf import settings

from postgres import clock
from webhooks.domain.names import Source
from webhooks.errors import Undeliverable
from webhooks.operations import secrets
from webhooks.sources import configs

_TIMEOUT_S: Final = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    status: int
    answer: str
    delivery_id: str


def send(
    source: Source, body: bytes, *, event_type: str = "", delivery_id: str | None = None, base_url: str | None = None
) -> Sent:
    """Sign these bytes as the sender would and post them to the source's address; what that answered.

    `event_type` matters where the sender names it outside of the body: GitHub in a header, Confluence in the address.
    `base_url` is where the farm answers (settings.WEBHOOKS["OWN_URL"]). Raises NotFound (no secret), CannotOpen, and
    Undeliverable when nothing answers there.
    """
    import httpx  # noqa: PLC0415 (0.1 s, which no process need spend when it starts)

    secret = secrets.newest(source)
    message_id = delivery_id or f"msg_{rng.token_hex(12)}"
    headers = signed_headers(
        source, body, secret=secret, event_type=event_type, delivery_id=message_id, now=clock.now()
    )
    url = f"{base_url or settings.WEBHOOKS['OWN_URL']}".rstrip("/") + configs.config_of(source).path
    params = {"event": event_type} if source is Source.CONFLUENCE and event_type else None
    try:
        answer = httpx.post(url, content=body, headers=headers, params=params, timeout=_TIMEOUT_S, trust_env=False)
    except httpx.HTTPError as error:
        raise Undeliverable(url=url, reason=str(error) or type(error).__name__) from None
    return Sent(status=answer.status_code, answer=answer.text[:2000], delivery_id=message_id)


def signed_headers(
    source: Source, body: bytes, *, secret: str, event_type: str, delivery_id: str, now: datetime
) -> dict[str, str]:
    signed = configs.config_of(source).sign(
        body, secret=secret, event_type=event_type, delivery_id=delivery_id, now=now
    )
    return {"Content-Type": "application/json", **signed}


TYPE: Final = "jobfarm.test"


def sample(source: Source, *, now: datetime, token: str) -> tuple[str, str]:
    """A type and a body. `token` makes it another one than the last, which would be a repeat of the same."""
    at_ms = int(now.timestamp() * 1000)
    data = {"message": "A test delivery, sent by hand.", "test": token}
    bodies: dict[Source, Any] = {
        Source.CLERK: {"type": TYPE, "object": "event", "timestamp": at_ms, "data": data},
        Source.GITHUB: {"zen": "Half measures are as bad as nothing at all.", **data},
        Source.JIRA: {"webhookEvent": TYPE, "timestamp": at_ms, **data},
        Source.CONFLUENCE: {"event": TYPE, "timestamp": at_ms, **data},
        Source.STRIPE: {
            "id": f"evt_test_{token}", "object": "event", "type": TYPE, "created": at_ms // 1000, "livemode": False,
            "data": {"object": data},
        },
        Source.SANDBOX_HOOKS: {"hook_event_name": TYPE, "session_id": f"test-{token}", **data},
        Source.SANDBOX_COMPLETION: {"type": TYPE, "timestamp": now.isoformat(), "data": data},
        Source.SANDBOX_TELEMETRY: [],
    }  # fmt: skip
    # Telemetry is always a batch; GitHub's types have a part after a full stop only where the body has an action.
    event_type = {Source.GITHUB: "jobfarm_test", Source.SANDBOX_TELEMETRY: "batch"}.get(source, TYPE)
    return event_type, json.dumps(bodies[source], indent=2)
