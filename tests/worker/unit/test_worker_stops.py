"""How jobs are stopped and how a worker leaves, against a small farm in memory."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from jobfarm_worker import Failed, Job, JobStopped, Worker, held
from jobfarm_worker.tasks import DaemonThreads
from tests import documented
from tests.worker.unit.outside import KEY, FarmServer, until, working


class TestStop:
    async def test_push_cancels_an_async_handler_and_nothing_else(self, farm: FarmServer) -> None:
        worker = Worker(farm.url, KEY, transport="ws", concurrency=2)
        ended: list[str] = []

        @worker.handler("wait")
        async def wait(job: Job) -> str:
            try:
                await asyncio.sleep(60 if job.payload == "long" else 0.2)
            finally:
                ended.append(job.payload)
            return "waited"

        async with working(worker):
            long, short = farm.submit("wait", "long"), farm.submit("wait", "short")
            await until(lambda: long.status == short.status == "in_progress")
            farm.cancel(long)
            await until(lambda: short.finishes and len(ended) == 2)
            third = farm.submit("wait", "third")
            await until(lambda: third.finishes)

        assert ended == ["long", "short", "third"]
        assert (long.status, long.finishes, short.result) == ("canceled", 0, "waited")

    async def test_push_reaches_a_plain_handler_at_its_next_word(self, farm: FarmServer) -> None:
        worker = Worker(farm.url, KEY, transport="ws")
        seen: list[object] = []

        @worker.handler("paint")
        def paint(job: Job) -> None:
            try:
                job.pause(30)
            except JobStopped:
                seen.append(job.stopped)
                for word in (job.check, lambda: job.write("x"), lambda: job.progress(1)):
                    with pytest.raises(JobStopped):
                        word()
                raise

        async with working(worker):
            job = farm.submit("paint")
            await until(lambda: job.status == "in_progress" and worker.board.jobs)
            farm.cancel(job)
            await until(lambda: seen and not worker.board.jobs)

        assert (seen, job.finishes, dict(worker.board.endings)) == ([True], 0, {"stopped": 1})

    async def test_push_about_an_earlier_claim_stops_no_later_one(self, farm: FarmServer) -> None:
        """A job that waits for a signal may come back to its worker within milliseconds, by HTTP while the socket is
        away; the next socket looks after the claim that it found."""
        worker = Worker(farm.url, KEY, transport="ws", concurrency=2)
        begun: list[int] = []

        @worker.handler("slow")
        async def slow(job: Job) -> None:
            begun.append(job.fence)
            await asyncio.sleep(30)

        async with working(worker):
            job = farm.submit("slow", fence=1)
            await until(lambda: begun == [2])
            farm.push_stop(job, fence=1, reason="lease_lost")
            other = farm.submit("slow")
            await until(lambda: begun == [2, 1])  # what was pushed before has arrived
            assert not worker.board.endings
            farm.push_stop(job, fence=2, reason="lease_lost")
            farm.push_stop(other)
            await until(lambda: worker.board.endings == {"stopped": 2})

    async def test_ends_the_process_of_a_handler_that_has_one_as_documented(
        self, farm: FarmServer, socket_worker: Worker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        program, note = tmp_path / "render", tmp_path / "pid"
        program.write_text(f'#!/bin/sh\n[ "$1" = broken ] && exit 3\necho $$ > {note}\nexec sleep 600\n')
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
        names = {"worker": socket_worker, "Failed": Failed}
        exec(documented.block("worker.md", "import subprocess"), names)

        async with working(socket_worker):
            broken = farm.submit("render", {"scene": "broken"})
            await until(lambda: broken.finishes)
            job = farm.submit("render", {"scene": "long"})
            await until(lambda: note.exists() and note.read_text())
            farm.cancel(job)
            await until(lambda: not Path(f"/proc/{note.read_text().strip()}").exists())

        assert (broken.status, broken.error) == ("failed", "render ended with 3.")

    async def test_plain_handler_that_runs_on_keeps_its_slot_and_its_job_from_beginning_again(
        self, farm: FarmServer, transport: Any
    ) -> None:
        """A timeout takes the job away, and the farm gives it to whoever asks: to this very worker, if there is none
        beside it."""
        worker = Worker(farm.url, KEY, transport=transport, concurrency=2)
        go_on = threading.Event()
        running: list[int] = []
        most: list[int] = []

        @worker.handler("slow")
        def slow(job: Job) -> int:
            running.append(job.fence)
            most.append(len(running))
            if len(most) == 1:
                go_on.wait(20)
            running.remove(job.fence)
            return job.fence

        async with working(worker):
            job = farm.submit("slow")
            await until(lambda: running)
            farm.take_back(job)
            farm.push_stop(job, reason="timed_out")
            await until(lambda: farm.calls["unclaim"] > 1)
            assert farm.calls["claim"] <= 5, "it comes back in a while, and not at once"
            await until(lambda: farm.calls["release"])  # at last the farm says how long it waits: others have its place
            assert farm.calls["unclaim"] == 3
            [still] = worker.board.jobs.values()
            is_shown = still.outbox.stopped if transport == "ws" else True
            go_on.set()
            await until(lambda: job.finishes)

        assert (max(most), job.status, is_shown) == (1, "success", True)
        assert job.result > 1

    async def test_says_which_slots_are_stuck_until_their_handlers_end(
        self, farm: FarmServer, transport: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(held, "STUCK_S", 0.05)
        worker = Worker(farm.url, KEY, transport=transport, concurrency=2)
        go_on = threading.Event()
        worker.handler("slow")(lambda _job: go_on.wait(20))
        farm.heartbeat_every = 0.2

        async with working(worker):
            job = farm.submit("slow")
            await until(lambda: worker.board.jobs and farm.calls["hello"] == 1)
            farm.cancel(job)
            await until(lambda: farm.calls["hello"] == 2)
            go_on.set()
            await until(lambda: farm.calls["hello"] == 3)

        reported = [hello.get("stuck") for hello in farm.bodies["hello"]]
        assert (reported, dict(worker.board.endings)) == ([None, [job.id], None], {"stopped": 1})

    async def test_by_a_lost_lease_ends_that_handler_and_the_worker_goes_on(
        self, farm: FarmServer, worker: Worker
    ) -> None:
        farm.heartbeat_every = 0.1
        canceled = asyncio.Event()

        @worker.handler("lose")
        async def lose(_job: Job) -> None:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                canceled.set()
                raise

        worker.handler("after")(lambda _job: "fine")

        async with working(worker):
            lost = farm.submit("lose")
            await until(lambda: lost.beats)
            farm.take_away(lost)
            await asyncio.wait_for(canceled.wait(), 10)
            after = farm.submit("after")
            await until(lambda: after.finishes)

        assert (lost.finishes, after.result) == (0, "fine")

    async def test_that_was_missed_while_the_socket_was_away_is_learnt_on_reconnecting(
        self, farm: FarmServer, socket_worker: Worker
    ) -> None:
        canceled = asyncio.Event()

        @socket_worker.handler("wait")
        async def wait(_job: Job) -> None:
            try:
                await asyncio.sleep(60)
            finally:
                canceled.set()

        async with working(socket_worker):
            job = farm.submit("wait")
            await until(lambda: job.status == "in_progress")
            job.status = "canceled"  # and nobody is told
            farm.cut_sockets()
            await asyncio.wait_for(canceled.wait(), 10)

        assert job.finishes == 0


class TestLeaving:
    async def test_lets_what_it_holds_finish_and_takes_no_more(self, farm: FarmServer, worker: Worker) -> None:
        go_on = asyncio.Event()

        @worker.handler("wait")
        async def wait(_job: Job) -> str:
            await go_on.wait()
            return "finished"

        running = asyncio.create_task(worker.run())
        first, second = farm.submit("wait"), farm.submit("wait")
        await until(lambda: worker.board.jobs)
        worker.stop()
        go_on.set()
        await asyncio.wait_for(running, 10)

        assert (first.status, first.result) == ("success", "finished")
        assert (second.status, second.attempt) == ("pending", 0)

    @pytest.mark.parametrize("plain", [True, False])
    async def test_gives_back_what_does_not_finish_in_time(self, farm: FarmServer, plain: bool) -> None:
        worker = Worker(farm.url, KEY, grace_s=0.1)

        async def patient(_job: Job) -> None:
            await asyncio.sleep(60)

        def deaf(_job: Job) -> None:
            threading.Event().wait(3)

        worker.handler("wait")(deaf if plain else patient)
        running = asyncio.create_task(worker.run())
        job = farm.submit("wait")
        await until(lambda: worker.board.jobs)
        worker.stop()
        await asyncio.wait_for(running, 5)

        assert (job.status, job.finishes, farm.calls["release"]) == ("pending", 0, 1)

    async def test_gives_back_at_once_when_told_twice_or_canceled(self, farm: FarmServer) -> None:
        for is_stopped in (True, False):
            worker = Worker(farm.url, KEY, grace_s=60)

            @worker.handler("wait")
            async def wait(_job: Job) -> None:
                await asyncio.sleep(60)

            running = asyncio.create_task(worker.run())
            job = next(iter(farm.jobs.values()), None) or farm.submit("wait")
            await until(lambda w=worker: w.board.jobs)  # type: ignore[misc]
            if is_stopped:
                worker.stop()
                worker.stop()
            else:
                running.cancel()
            await asyncio.wait({running}, timeout=5)
            assert (running.done(), job.status) == (True, "pending")


async def test_calls_in_threads_of_the_loop_are_all_done_by_as_many_threads_as_run_at_once() -> None:
    asyncio.get_running_loop().set_default_executor(DaemonThreads())
    before, gate = threading.active_count(), threading.Event()
    calls = [asyncio.ensure_future(asyncio.to_thread(gate.wait, 10)) for _ in range(200)]
    await asyncio.sleep(0)
    assert threading.active_count() <= before + 32
    gate.set()
    assert all(await asyncio.wait_for(asyncio.gather(*calls), 10))


async def test_calls_in_threads_go_on_after_some_for_which_no_thread_could_be_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    asyncio.get_running_loop().set_default_executor(DaemonThreads())
    ran: list[int] = []
    with monkeypatch.context() as without_room:
        without_room.setattr(threading.Thread, "start", start)
        for number in range(40):
            with pytest.raises(RuntimeError, match="new thread"):
                await asyncio.wait_for(asyncio.to_thread(ran.append, number), 10)
    await asyncio.wait_for(asyncio.to_thread(ran.append, 40), 10)
    assert ran == [40]
