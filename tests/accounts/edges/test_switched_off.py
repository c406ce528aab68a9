"""Somebody who may not log in any more is out of their open pages and streams at once, on a real server."""

import asyncio
import contextlib
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import httpx
import pytest
import websockets
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client
from websockets.asyncio.client import connect

from accounts import operations
from postgres import connections
from tests import farm
from tests.servers import Server, serve

pytestmark = pytest.mark.django_db(transaction=True)
WITHIN_S = 10


def switched_off_in_the_administration(person: User) -> None:
    boss = Client()
    boss.force_login(User.objects.create_superuser("boss"))
    boss.post(f"/admin/auth/user/{person.pk}/change/", {"username": person.username})


def not_known_to_the_provider_any_more(_: User) -> None:
    """A session of single sign-on runs out, and is not renewed."""
    Session.objects.update(expire_date=farm.now() - timedelta(minutes=1))
    operations.end_sessions()


def _member() -> tuple[User, int, str, str, int]:
    ada = farm.user("ada")
    group = operations.create_group("painters", by=ada)
    browser = Client()
    browser.force_login(ada)
    _, key = operations.create_token(ada, name="ci")
    farm.kind()
    [job] = farm.submit(1, owner=ada)
    return ada, group.pk, f"sessionid={browser.cookies['sessionid'].value}", key, job.pk


async def _socket_is_closed(server: Server, group_id: int, cookie: str, end: Callable[[], Any]) -> int | None:
    headers = {"Cookie": cookie}
    origin = websockets.Origin(server.url)
    async with connect(f"{server.ws_url}/ws/live/", origin=origin, additional_headers=headers) as socket:
        watched = {"id": "a", "name": "group-members", "args": {"group_id": group_id}}
        await socket.send(json.dumps({"watch": [watched]}))
        assert "ada" in str(await socket.recv())
        await end()
        with contextlib.suppress(websockets.ConnectionClosed):
            async with asyncio.timeout(WITHIN_S):
                async for _ in socket:
                    pass
        return socket.close_code


@pytest.mark.parametrize("change", [switched_off_in_the_administration, not_known_to_the_provider_any_more])
async def test_an_open_page_is_closed(change: Callable[[User], None]) -> None:
    ada, group_id, cookie, _, _ = await connections.run(_member)
    with serve() as server:
        code = await _socket_is_closed(server, group_id, cookie, lambda: connections.run(change, ada))
    assert code == 4401


async def test_an_open_stream_of_a_program_ends() -> None:
    ada, _, _, key, job_id = await connections.run(_member)
    with serve() as server:
        headers = {"Authorization": f"Bearer {key}"}
        async with (
            httpx.AsyncClient(base_url=server.url, headers=headers, timeout=WITHIN_S) as client,
            client.stream("GET", f"/api/v1/jobs/{job_id}/events") as stream,
        ):
            pieces = stream.aiter_text()
            while "pending" not in await anext(pieces):
                pass
            await connections.run(switched_off_in_the_administration, ada)
            async with asyncio.timeout(WITHIN_S):
                async for _ in pieces:
                    pass
            again = await client.get(f"/api/v1/jobs/{job_id}")
        assert again.status_code == 401
