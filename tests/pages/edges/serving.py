"""A page as it is served: through our own part of the server, not through the one that Django's test client brings."""

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import httpx
from django.contrib.auth.models import User
from django.test import Client

from jobfarm.server import OneHop


def served(user: User | None, path: str, headers: Mapping[str, str] | None = None) -> httpx.Response:
    """What this person, or a stranger (None), is answered."""
    client = Client()
    if user is not None:
        client.force_login(user)
    cookies = {name: morsel.value for name, morsel in client.cookies.items()}
    return asyncio.run(_served(path, dict(headers or {}), cookies))


async def _served(path: str, headers: dict[str, str], cookies: dict[str, str]) -> httpx.Response:
    transport = httpx.ASGITransport(cast("Any", OneHop()))
    async with httpx.AsyncClient(transport=transport, base_url="http://testserver", cookies=cookies) as browser:
        return await browser.get(path, headers=headers)
