"""Endpoints as tests need them."""

from typing import Any

from django.contrib.auth.models import User

from outbox.models import Endpoint, Message
from outbox.operations import secrets


def endpoint(url: str = "https://hooks.example/", *, owner: User | None = None, **fields: Any) -> Endpoint:
    """An endpoint that asks for everything, with a secret."""
    row: Endpoint = Endpoint.objects.create(
        **{"name": "hooks", "url": url, "owner": owner, "events": ["*"], **fields}
    )
    secrets.add(row)
    return row


def messages(of: Endpoint) -> list[tuple[str, str]]:
    """The type and the subject of what waits or went to an endpoint, oldest first."""
    rows = Message.objects.filter(endpoint=of).select_related("event").order_by("id")
    return [(row.event.type, row.event.subject) for row in rows]
