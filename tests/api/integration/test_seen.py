"""Connected workers count as alive."""

import asyncio

import pytest

from jobs import operations
from jobs.models import Worker
from jobs.waiting.presence import Seen
from postgres import connections

pytestmark = pytest.mark.django_db(transaction=True)


def last_seen(worker: Worker) -> object:
    """When the worker was heard of."""
    return Worker.objects.values_list("last_seen_at", flat=True).get(pk=worker.pk)


class TestSeen:
    async def test_is_who_is_connected_and_nobody_else(self, transactional_db: None) -> None:
        connected, _ = await connections.run(operations.create_worker, "here", queues=["chat"])
        left, _ = await connections.run(operations.create_worker, "left", queues=["chat"])
        seen = Seen(every_s=0.01)
        seen.came(connected.pk)
        seen.came(connected.pk)  # two sockets, one of which is closed
        seen.went(connected.pk)
        seen.came(left.pk)
        seen.went(left.pk)
        async with asyncio.timeout(20):
            while not await connections.run(last_seen, connected):
                pass
        assert await connections.run(last_seen, left) is None
        await seen.stop()
