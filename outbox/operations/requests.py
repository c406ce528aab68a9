"""One request to an address that a person named, for any app of the farm."""

import asyncio
from collections.abc import Mapping

from outbox.domain.answers import Answer


def send(url: str, body: bytes, *, headers: Mapping[str, str] | None = None, timeout_s: float | None = None) -> Answer:
    """Post these bytes to an address that somebody named, within `timeout_s` in all (OUTBOX_TIMEOUT_S).

    For code without an event loop of its own, and never in a mutation. Raises BadUrl. Whatever else goes wrong is in
    the answer: a name that stands for an address that is not public is refused unless OUTBOX_ALLOWED_NETWORKS has it.
    """
    return asyncio.run(_send(url, body, headers or {}, timeout_s))


async def _send(url: str, body: bytes, headers: Mapping[str, str], timeout_s: float | None) -> Answer:
    from outbox.operations.http import Client  # noqa: PLC0415 (its libraries load in 0.1 s, for those who send alone)

    async with Client(connections=1) as client:
        return await client.post(url, body, headers=headers, timeout_s=timeout_s)
