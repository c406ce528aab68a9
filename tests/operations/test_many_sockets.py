"""Five thousand sockets on one web process, the number that docs/scale.md names: it is ready, and what it holds is
bounded."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

import httpx
import psycopg
import pytest
from django.db import connection
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Origin

from jobfarm.server import PROBE_THREADS, THREADS
from jobs import operations
from postgres import configuration, connections, descriptors
from tests.farm import until
from tests.servers import Server, serve

pytestmark = [pytest.mark.long, pytest.mark.django_db(transaction=True)]
WORKERS, OF_A_WORKER, PAGES, OF_AN_ADDRESS, IDLE = 25, 100, 2_000, 400, 500
ALL: Final = WORKERS * OF_A_WORKER + PAGES + IDLE
AT_ONCE: Final = 50  # handshakes
OTHER_FILES: Final = 150  # code, logs, the pool, the loop
OTHER_THREADS: Final = 20  # the pool's, the metrics', the loop's own


@pytest.fixture
def server() -> Iterator[Server]:
    assert descriptors.allow_many() >= 2 * ALL, "raise `ulimit -Hn`"
    with serve() as running:
        yield running


async def test_leave_it_ready_with_bounded_files_threads_and_connections(server: Server) -> None:
    keys = await connections.run(_keys)
    async with _sockets(server, keys) as opened, httpx.AsyncClient(base_url=server.url, timeout=30) as client:
        assert opened == ALL
        for _ in range(2):
            assert (await client.get("/health/ready")).status_code == 200
        claim = await client.post("/api/v1/worker/claim", headers={"Authorization": f"Bearer {keys[0]}"}, json={})
        assert claim.status_code == 200
        assert ALL <= _files(server) < ALL + OTHER_FILES
        assert len(os.listdir(f"/proc/{server.pid}/task")) < (
            THREADS + PROBE_THREADS + connections.threads() + OTHER_THREADS
        )
        assert _sessions() <= configuration.POOL_MAX + 5  # and those that listen
    await asyncio.to_thread(until, lambda: _files(server) < OTHER_FILES, what="the end of all")


def _keys() -> list[str]:
    return [operations.create_worker(f"w{n}", queues=["work"])[1] for n in range(WORKERS)]


@contextlib.asynccontextmanager
async def _sockets(server: Server, keys: list[str]) -> AsyncIterator[int]:
    """Workers', pages', and such of which nobody says what they are."""
    room = asyncio.Semaphore(AT_ONCE)
    host, port = "127.0.0.1", int(server.url.rpartition(":")[2])

    async def worker(key: str) -> ClientConnection:
        async with room:
            headers = {"Authorization": f"Bearer {key}"}
            return await connect(
                f"{server.ws_url}/ws/worker/", additional_headers=headers, open_timeout=60, ping_interval=None
            )

    async def page(number: int) -> ClientConnection:
        address = (f"127.0.0.{2 + number // OF_AN_ADDRESS}", 0)
        async with room:
            return await connect(
                f"{server.ws_url}/ws/live/", origin=Origin(server.url), local_addr=address, open_timeout=60,
                ping_interval=None,
            )  # fmt: skip

    named = [worker(key) for key in keys for _ in range(OF_A_WORKER)] + [page(n) for n in range(PAGES)]
    sockets = await asyncio.gather(*named)
    idle = [await asyncio.open_connection(host, port) for _ in range(IDLE)]  # 20 s are theirs to send a head
    try:
        yield len(sockets) + len(idle)
    finally:
        for _, writer in idle:
            writer.close()
        await asyncio.gather(*(socket.close() for socket in sockets))


def _files(server: Server) -> int:
    return len(list(Path(f"/proc/{server.pid}/fd").iterdir()))


def _sessions() -> int:
    """Of the database of this test, but for the test's own."""
    name = str(connection.settings_dict["NAME"])
    with psycopg.connect(connections.conninfo(), dbname="postgres") as other:
        found = other.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND application_name NOT LIKE 'pytest%%'", [name]
        ).fetchone()
    assert found is not None
    return int(found[0])
