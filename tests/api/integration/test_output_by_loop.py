"""Pieces of output that the event loop stores itself, and when it leaves them to a thread."""

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.db import connection, transaction
from pytest_django import Settings

from core.refusal import Refusal
from jobs import operations
from jobs.domain.quotas import FRESH_S
from jobs.models import OutputChunk, Worker
from jobs.operations import quotas
from jobs.protocol import messages, sessions
from live import hub
from live.send_queue import SendQueue
from postgres import by_loop, connections, statements
from postgres.backend import trips
from tests import farm
from tests.jobs.presence import running

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("work_kind")]
PATIENCE_S = 20
Written = Sequence[sessions.Performed | Refusal | None]


@dataclass
class Holder:
    """A worker with some jobs, known to this process, whose loop has a connection."""

    worker: Worker
    key: str
    jobs: list[operations.ClaimedJob]
    texts: dict[int, int] = field(default_factory=dict)

    def call(self, place: int, seq: int, text: str = "a\n") -> messages.Call:
        job = self.jobs[place]
        fields = {"type": "output", "ref": seq, "job": job.id, "lease": str(job.lease), "seq": seq, "text": text}
        return messages.read(json.dumps(fields))

    async def write(self, *calls: messages.Call) -> Written:
        return await sessions.write_by_loop(self.key, calls)

    async def write_by_thread(self, *calls: messages.Call) -> Written:
        return await connections.run(sessions.write, self.key, calls)


@asynccontextmanager
async def holding(count: int = 3) -> AsyncIterator[Holder]:
    here = hub.current()
    await here.ready()
    try:
        holder = await connections.run(_holder, count)
        await opened(holder)
        yield holder
    finally:
        await here.stop()
        await by_loop.close()


def _holder(count: int) -> Holder:
    operations.sync()
    worker, key = operations.create_worker("w1", queues=["work"])
    farm.submit(count, owner=farm.user("ada"))
    return Holder(operations.authenticate(key), key, operations.claim(worker, limit=count))


async def opened(holder: Holder) -> None:
    """Return when the loop has a connection: pieces are left to threads until then."""
    await holder.write_by_thread(holder.call(0, 0))  # what the farm has of output is read
    async with asyncio.timeout(PATIENCE_S):
        while await holder.write(holder.call(0, 0)) == [None]:  # noqa: ASYNC110 (nothing says when it is opened)
            await asyncio.sleep(0.02)


def stored() -> list[tuple[int, str]]:
    return sorted(OutputChunk.objects.values_list("seq", "text"))


def numbers(written: Written) -> list[int]:
    return [json.loads(each.text)["next_seq"] for each in written if isinstance(each, sessions.Performed)]


async def test_pieces_are_stored_and_shown_without_a_thread(transactional_db: None) -> None:
    async with holding() as holder:
        queue = SendQueue()
        watched: dict[str, Any] = {"watch_id": "1", "audience": "member", "language": "en"}
        watch = hub.current().watch(queue, "job-output", {"job_id": holder.jobs[1].id}, **watched)
        before = threading.active_count()
        assert numbers(await holder.write(holder.call(1, 0, "one\n"), holder.call(2, 0, "two\n"))) == [1, 1]
        assert numbers(await holder.write(holder.call(1, 1, "three\n"))) == [2]
        assert threading.active_count() == before
        seen = ""
        async with asyncio.timeout(PATIENCE_S):
            while "three" not in seen:
                seen += "".join(message.text() for message in await queue.take())
        assert seen.count("one") == 1
        watch.close()
        assert [text for _, text in await connections.run(stored)] == ["a\n", "one\n", "two\n", "three\n"]


async def test_pieces_that_are_large_together_are_left_to_a_thread(transactional_db: None) -> None:
    async with holding() as holder:
        half = "x" * (sessions.MOST_BY_LOOP // 2)
        large = [holder.call(1, 0, half), holder.call(2, 0, half + "x")]
        assert await holder.write(*large) == [None, None]
        assert len(await connections.run(stored)) == 1
        assert numbers(await holder.write_by_thread(*large)) == [1, 1]
        assert numbers(await holder.write(holder.call(1, 1, half), holder.call(2, 1, half))) == [2, 2]


async def test_the_same_piece_again_is_stored_once(transactional_db: None) -> None:
    async with holding() as holder:
        assert numbers(await holder.write(holder.call(1, 0))) == numbers(await holder.write(holder.call(1, 0))) == [1]
        assert len(await connections.run(stored)) == 2


async def test_what_is_refused_is_left_to_a_thread_and_the_rest_is_stored_once(transactional_db: None) -> None:
    async with holding() as holder:
        calls = [holder.call(1, 0, "good\n"), holder.call(2, 7, "a gap\n")]
        stored_one, left = await holder.write(*calls)
        assert numbers([stored_one]) == [1]
        assert left is None
        good, gap = await holder.write_by_thread(*calls)
        assert numbers([good]) == [1]
        assert isinstance(gap, Refusal)
        assert gap.code == "output_gap"
        assert await connections.run(stored) == [(0, "a\n"), (0, "good\n")]


def _revoke(holder: Holder) -> None:
    operations.revoke(holder.worker)


def _lose(holder: Holder) -> None:
    farm.expire_lease(holder.jobs[1])
    farm.lose(holder.jobs[1])


@pytest.mark.parametrize("change", [_revoke, _lose])
async def test_nothing_is_stored_for_who_lost_it(transactional_db: None, change: Callable[[Holder], None]) -> None:
    async with holding() as holder:
        await connections.run(change, holder)
        assert await holder.write(holder.call(1, 0)) == [None]
        assert len(await connections.run(stored)) == 1


async def test_a_row_that_another_keeps_locked_holds_up_no_other_piece(transactional_db: None) -> None:
    async with holding() as holder:
        is_locked, may_go = threading.Event(), threading.Event()

        def lock() -> None:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute("SELECT FROM jobs_live WHERE job_id = %s FOR UPDATE", [holder.jobs[1].id])
                is_locked.set()
                assert may_go.wait(PATIENCE_S)

        locking = asyncio.create_task(connections.run(lock))
        assert await asyncio.to_thread(is_locked.wait, PATIENCE_S)
        locked, other = holder.call(1, 0), holder.call(2, 0)
        left, written = await holder.write(locked, other)
        assert left is None
        assert numbers([written]) == [1]
        waiting = asyncio.create_task(holder.write_by_thread(locked))
        await connections.run(farm.until, farm.waiting_for_locks)
        may_go.set()
        await locking
        assert numbers(await waiting) == [1]


async def test_a_connection_that_is_lost_costs_no_piece(transactional_db: None) -> None:
    def end_sessions() -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                " WHERE datname = current_database() AND application_name = %s",
                [by_loop.NAME],
            )
            assert cursor.rowcount == 1

    async with holding() as holder:
        await connections.run(end_sessions)
        call = holder.call(1, 0, "kept\n")
        assert await holder.write(call) == [None]
        assert numbers(await holder.write_by_thread(call)) == [1]
        await opened(holder)
        assert numbers(await holder.write(holder.call(1, 1, "on\n"))) == [2]


def sessions_here() -> list[int]:
    """The processes of the server that serve a loop."""
    with connection.cursor() as cursor:
        named = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = %s"
        cursor.execute(named, [by_loop.NAME])
        return [pid for (pid,) in cursor.fetchall()]


async def test_a_session_that_is_frozen_is_given_up_and_holds_up_no_other_piece(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trips, "ANSWER_S", 0.5)
    async with holding() as holder, asyncio.timeout(PATIENCE_S):
        [session] = await connections.run(sessions_here)
        with running.frozen(session):
            waiting = asyncio.create_task(holder.write(holder.call(1, 0, "kept\n")))
            await asyncio.sleep(0)  # it has taken the connection
            while (other := await holder.write(holder.call(2, 0, "other\n"))) == [None]:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
            assert numbers(other) == [1]
            assert await waiting == [None]
            assert numbers(await holder.write_by_thread(holder.call(1, 0, "kept\n"))) == [1]
            assert numbers(await holder.write(holder.call(1, 1, "on\n"))) == [2]
    await connections.run(farm.until, lambda: sessions_here() == [])
    assert [text for _, text in await connections.run(stored)] == ["a\n", "kept\n", "other\n", "on\n"]


async def test_a_loop_that_closes_leaves_no_session(transactional_db: None) -> None:
    async with holding() as holder:
        assert numbers(await holder.write(holder.call(1, 0))) == [1]
        assert len(await connections.run(sessions_here)) == 1
    await connections.run(farm.until, lambda: sessions_here() == [])


async def test_a_loop_that_closes_waits_for_no_server_that_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = f"host=127.0.0.1 port={silent.getsockname()[1]} connect_timeout=60"
        monkeypatch.setattr(connections, "conninfo", lambda: where)
        assert await by_loop.run(statements.load("jobs", "write_output"), {}) is None
        accepted, _ = await asyncio.to_thread(silent.accept)
        with accepted:
            async with asyncio.timeout(PATIENCE_S):
                await by_loop.close()


class Clock:
    """One that goes on by so many seconds each time somebody looks at it."""

    now_s = step_s = 0.0

    def monotonic(self) -> float:
        self.now_s += self.step_s
        return self.now_s


async def test_what_was_known_of_an_owner_until_this_moment_is_read_by_a_thread_or_not_at_all(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    settings.JOBFARM = settings.JOBFARM | {"OUTPUT_BYTES_PER_OWNER": 10**9, "OUTPUT_BYTES_IN_ALL": 0}
    monkeypatch.setattr(quotas, "time", clock := Clock())
    async with holding() as holder:
        quotas.OUTPUT.forget()
        await holder.write_by_thread(holder.call(1, 0))
        clock.step_s = FRESH_S / 3 + 0.1  # what is looked at three times is known twice
        assert numbers(await holder.write(holder.call(1, 1))) == [2]
        assert numbers(await holder.write(holder.call(1, 2))) == [3]
