"""Endpoints as tests need them."""

import asyncio
from typing import Any

from django.contrib.auth.models import User
from django.db.models.functions import Now

from outbox.models import Endpoint, Message
from outbox.operations import endpoints
from outbox.operations.http import Client
from outbox.operations.sender import Sender


def endpoint(url: str = "https://hooks.example/", *, owner: User | None = None, **fields: Any) -> Endpoint:
    """An endpoint that asks for everything, with a secret."""
    row: Endpoint = Endpoint.objects.create(**{"name": "hooks", "url": url, "owner": owner, "events": ["*"], **fields})
    endpoints.add_secret(row)
    return row


def messages(of: Endpoint) -> list[tuple[str, str]]:
    """The type and the subject of what waits or went to an endpoint, oldest first."""
    rows = Message.objects.filter(endpoint=of).select_related("event").order_by("id")
    return [(row.event.type, row.event.subject) for row in rows]


def drain(*, client: Client | None = None) -> None:
    """Send what is due, and what that lets become due, as a sender does."""

    async def run() -> None:
        sender = Sender(client=client)
        try:
            await sender.drain()
        finally:
            await sender._end()

    asyncio.run(run())


def due_now() -> None:
    """Let every retry be due."""
    Message.objects.filter(status="pending").update(next_attempt_at=Now())
    Endpoint.objects.update(held_until=None)
