"""The pages for what went wrong keep no connection of the database."""

import asyncio

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.db import connection, connections
from django.test import AsyncClient

from tests.edges.pages.conftest import Farm

pytestmark = pytest.mark.django_db(transaction=True)


def held() -> int:
    """How many connections of the pool are out."""
    stats: dict[str, int] = connection.pool.get_stats()  # type: ignore[attr-defined]  # Django's stubs leave it out
    return stats["pool_size"] - stats.get("pool_available", 0)


async def _status(user: User, path: str) -> int:
    client = AsyncClient()
    await client.aforce_login(user)
    answer = await client.get(path)
    await sync_to_async(
        connections.close_all
    )()  # those of the thread in which views run: the test client keeps it
    return answer.status_code


class TestAPageForAnError:
    @pytest.mark.parametrize(("path", "status"), [("/jobs/1/", 404), ("/nowhere", 404), ("/limits/", 403)])
    def test_gives_back_the_connection_it_asked_who_is_logged_in_with(
        self, little_farm: Farm, path: str, status: int
    ) -> None:
        """Under ASGI Django answers an exception in a thread of its own, which no end of a request ever reaches."""
        assert asyncio.run(_status(little_farm.eve, path)) == status
        before = held()
        assert asyncio.run(_status(little_farm.eve, path)) == status
        assert held() == before
