"""What lies ready with a worker is for who waits in vain and could take it."""

import asyncio
from dataclasses import replace

import pytest

from jobs.queries.reads import Interest
from jobs.waiting.notifier import NEVER, Share
from tests.api.integration.test_notifier import CHAT, ringing, waiting
from tests.live.integration.support import eventually

pytestmark = pytest.mark.django_db(transaction=True)


async def test_is_shared_once_with_all_of_the_same_scope() -> None:
    calls: list[str] = []

    def holder(name: str) -> Share:
        async def share() -> None:
            calls.append(name)

        return share

    async with ringing() as notifier:
        alike, gone = holder("alike"), holder("gone")
        notifier.note_holder(alike, Interest(queues=("chat", "image"), owner_id=None))
        notifier.note_holder(gone, CHAT)
        notifier.note_holder(gone, None)
        notifier.note_holder(holder("of another queue"), Interest(queues=("image",), owner_id=None))
        notifier.note_holder(holder("of a member"), replace(CHAT, owner_id=7))
        notifier.note_holder(holder("with other labels"), replace(CHAT, satisfies=(3,)))

        early = asyncio.create_task(notifier.wait(CHAT, polled_at=NEVER, timeout_s=None))
        await asyncio.sleep(0)
        assert calls == [], "who has not claimed yet waits for nothing of theirs"
        tasks = [early, waiting(notifier), waiting(notifier)]
        await eventually(lambda: calls)
        await asyncio.sleep(0)
        assert calls == ["alike"], "once for all who wait"
        for task in tasks:
            task.cancel()
