"""A thousand who wait cost no thread and no connection each."""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.db import connection

from accounts import operations as accounts
from jobs import operations
from jobs.models import Job, Worker
from postgres import connections
from tests import farm
from tests.api.edges import callers
from tests.servers import Server

pytestmark = pytest.mark.django_db(transaction=True)
EACH = 500
# Seen: 8 and 13, and 28 on a busy machine: the server's pool (20 at most), its listener, and this test's own. Never one
# for each of a thousand.
MOST_THREADS = 40
MOST_CONNECTIONS = 40


@dataclass
class Caller:
    """One raw HTTP request, and its answer as it comes."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @classmethod
    async def calling(cls, server: Server, head: str, body: bytes, key: str) -> "Caller":
        """Connect and send the request."""
        host, port = server.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(
            f"{head} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        return cls(reader, writer)

    async def until(self, text: bytes) -> bytes:
        """Read until this came."""
        async with asyncio.timeout(60):
            return await self.reader.readuntil(text)

    async def rest(self) -> bytes:
        """Read to the end."""
        async with asyncio.timeout(60):
            return await self.reader.read()

    def close(self) -> None:
        """Go away."""
        self.writer.close()


class TestAThousandWaiters:
    def test_hold_no_thread_and_no_connection_each(self, server: Server, ada: User) -> None:
        crew = callers.crew(server)
        _, token = accounts.create_token(ada, name="crowd")
        watched = operations.submit("image", {}, owner=ada)
        claims = asyncio.run(self._crowd(server, crew.key, token, watched))
        assert claims == list(Job.objects.filter(kind="chat").order_by("id").values_list("pk", flat=True))

    async def _crowd(self, server: Server, key: str, token: str, watched: Job) -> list[int]:
        """Open all, look at what they cost, then give work to three and an end to the watched job."""
        streams = [
            await Caller.calling(server, f"GET /api/v1/jobs/{watched.pk}/events", b"", token) for _ in range(EACH)
        ]
        for stream in streams:
            await stream.until(b"event: job")
        polls = [await Caller.calling(server, "POST /api/v1/worker/claim", b'{"wait": 60}', key) for _ in range(EACH)]
        await connections.run(self._all_wait, server)
        await connections.run(self._cost_little, server)
        answered = [asyncio.create_task(poll.rest()) for poll in polls]
        for number in range(3):
            await connections.run(operations.submit, "chat", number)
        claimed: list[int] = []
        while len(claimed) < 3:
            done, _ = await asyncio.wait(answered, timeout=60, return_when=asyncio.FIRST_COMPLETED)
            claimed += [job for task in done for job in _jobs(task.result())]
            answered = [task for task in answered if not task.done()]
        assert len(answered) == EACH - 3  # nobody else was sent home
        await connections.run(operations.cancel, watched.pk, by=None)
        for stream in streams:
            assert b"event: end" in await stream.rest()
        for task in answered:
            task.cancel()
        await asyncio.gather(*answered, return_exceptions=True)
        for caller in [*polls, *streams]:
            caller.close()
        return sorted(claimed)

    def _all_wait(self, server: Server) -> None:
        """All polls were inside of Django and came out again: nobody runs a statement any more."""
        farm.until(lambda: Worker.objects.get().last_seen_at, what="the first poll")
        looks = [False]

        def is_quiet() -> bool:
            looks.append(_open_files(server.pid) >= 2 * EACH and _active_backends() == 0)
            return all(looks[-20:]) and len(looks) > 20

        farm.until(is_quiet, within_s=60, what="the rest after a thousand requests")

    def _cost_little(self, server: Server) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
            backends = cursor.fetchone()[0]
        assert _threads(server.pid) < MOST_THREADS
        assert backends < MOST_CONNECTIONS


def _threads(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def _open_files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def _active_backends() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND state <> 'idle' AND pid <> pg_backend_pid()"
            " AND backend_type = 'client backend'"
        )
        return int(cursor.fetchone()[0])


def _jobs(answer: bytes) -> list[int]:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), answer
    return [job["id"] for job in json.loads(body)["jobs"]]
