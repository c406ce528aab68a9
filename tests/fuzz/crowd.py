"""A crowd that says garbage and goes, a page that does not read, and what the server holds meanwhile."""

import asyncio
import json
import os
import socket as sockets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from websockets.sync.client import ClientConnection, connect

from tests import farm
from tests.api.edges.callers import PATIENCE_S
from tests.servers import Server

AT_ONCE = 100  # how many of them are there at the same time
GARBAGE = [  # a message that is none, bytes, no frame at all, JSON cut short, nothing
    b"\x81\x85\x00\x00\x00\x00hello",
    b"\x82\x82\x00\x00\x00\x00\xff\x00",
    b"\xff" * 40,
    b"\x81\x81\x00\x00\x00\x00{",
    b"",
]


async def come_and_go(url: str, *, count: int, headers: str) -> None:
    """So many sockets to the server at `url`, half of them pages and half workers, with these headers."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        async with gate:
            await _one(url, number, headers)

    await asyncio.gather(*(one(number) for number in range(count)))


async def _one(url: str, number: int, headers: str) -> None:
    """Shake hands, say something that is no message (or no frame), and be gone without a word."""
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    path = "/ws/worker/" if number % 2 else "/ws/live/"
    request = (
        f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n{headers}\r\n"
    )
    writer.write(request.encode())
    assert b"101" in await reader.readline()
    writer.write(GARBAGE[number % len(GARBAGE)])
    await writer.drain()
    writer.transport.abort()


def settled(server: Server) -> int:
    """How many files are open once the first ones' are closed: the sockets that stay, and the server's own."""
    counts: list[int] = []

    def is_steady() -> bool:
        counts.append(open_files(server))
        return len(counts) > 20 and len(set(counts[-20:])) == 1

    farm.until(is_steady, what="a steady number of open files")
    return counts[-1]


def open_files(server: Server) -> int:
    """How many files the server's process holds, sockets among them, connections to the database not: a thread that
    served nobody before opens one for itself, and keeps it. (All but ours are the server's; we have as many each time.)
    """
    return len(os.listdir(f"/proc/{server.pid}/fd")) - backends()


def backends() -> int:
    """How many connections to the test's database there are."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND backend_type = 'client backend'"
        )
        return int(cursor.fetchone()[0])


def resident_bytes(server: Server) -> int:
    """How much memory the server's process holds."""
    pages = int(Path(f"/proc/{server.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def stubborn(server: Server, **options: Any) -> Iterator[ClientConnection]:
    """A page that asks and does not read: its buffers are small, and fill up."""
    host, port = server.url.removeprefix("http://").split(":")
    own = sockets.socket()
    own.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4096)
    own.connect((host, int(port)))
    with connect(
        f"{server.ws_url}/ws/live/",
        sock=own,
        additional_headers=as_page_of(server),
        max_queue=1,
        max_size=None,
        open_timeout=PATIENCE_S,
    ) as page:
        page.send(json.dumps(options))
        yield page


def as_page_of(server: Server) -> dict[str, str]:
    """The headers of a page of this site that Ada has open."""
    browser = Client()
    browser.force_login(User.objects.get(username="ada"))
    return {"Origin": server.url, "Cookie": f"sessionid={browser.cookies['sessionid'].value}"}
