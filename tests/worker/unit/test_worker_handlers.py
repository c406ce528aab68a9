"""What handlers may do and what becomes of them, against a small farm in memory."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from jobfarm_worker import Failed, Job, Worker, outbox, reports
from tests.unprintable import Unprintable
from tests.worker.unit.outside import FarmServer, SayNo, until, working


class TestHandler:
    async def test_tells_progress_text_files_and_a_result(self, farm: FarmServer, worker: Worker) -> None:
        @worker.handler("greet")
        async def greet(job: Job) -> dict[str, Any]:
            job.progress(0.5, "Greeting")
            job.write("Hello, ")
            job.write("you")
            job.file("a-name_1.txt", b"\x00\xff")
            await job.flush()
            await until(lambda: farm.jobs[job.id].reports)
            return {"greeted": job.payload}

        async with working(worker):
            job = farm.submit("greet", {"name": "Ada"})
            await until(lambda: job.finishes)

        assert (job.status, job.result) == ("success", {"greeted": {"name": "Ada"}})
        assert (job.text, job.files) == ("Hello, you", {"a-name_1.txt": b"\x00\xff"})
        assert job.reports == [{"progress": 0.5, "detail": "Greeting"}]

    async def test_that_is_faster_than_the_network_waits_where_it_awaits(
        self, farm: FarmServer, worker: Worker
    ) -> None:
        text = "x" * 100_000
        written: list[int] = []
        farm.hold.add("output")

        @worker.handler("flood")
        async def flood(job: Job) -> None:
            for number in range(100):
                job.write(text)
                written.append(number)
                await asyncio.sleep(0)

        async with working(worker):
            job = farm.submit("flood")
            await until(lambda: len(written) > 9)
            for _ in range(200):
                await asyncio.sleep(0)
            while_held = len(written)
            farm.hold.clear()
            await until(lambda: job.finishes, timeout_s=30)

        assert while_held <= 1 + (outbox.ROOM + outbox.PIECE) // len(text)
        assert (len(written), job.text == 100 * text) == (100, True)

    async def test_may_await_room_in_tasks_of_its_own_and_is_canceled_there(
        self, farm: FarmServer, socket_worker: Worker
    ) -> None:
        text = "x" * 100_000
        written: list[int] = []
        endings: list[str] = []
        farm.hold.add("output")

        async def fill(job: Job) -> None:
            while True:
                await job.room()
                job.write(text)
                written.append(len(written))

        @socket_worker.handler("flood")
        async def flood(job: Job) -> None:
            filling = asyncio.create_task(fill(job))
            try:
                await filling
            except asyncio.CancelledError:
                endings.append("canceled")
                raise

        async with working(socket_worker):
            job = farm.submit("flood")
            await until(lambda: len(written) > 9)
            farm.cancel(job)
            await until(lambda: endings)
            farm.hold.clear()

        assert len(written) <= 1 + (outbox.ROOM + outbox.PIECE) // len(text)
        assert endings == ["canceled"]

    async def test_is_heard_after_a_second_whatever_it_wrote_and_while_it_blocks(
        self, farm: FarmServer, worker: Worker
    ) -> None:
        go_on = threading.Event()

        @worker.handler("load")
        def load(job: Job) -> str:
            job.write("Loading the model")
            return "arrived" if go_on.wait(20) else "never heard"

        async with working(worker):
            job = farm.submit("load")
            await until(lambda: job.text)
            early = job.text
            go_on.set()
            await until(lambda: job.finishes)

        assert (early, job.text, job.result) == ("Loading the model", "Loading the model", "arrived")

    async def test_is_heard_in_time_also_when_older_text_went_meanwhile(self, farm: FarmServer, worker: Worker) -> None:
        """The second of the older text is running when the younger is written; when it is over, that is too young."""
        arrived = asyncio.Event()

        @worker.handler("slow")
        async def slow(job: Job) -> None:
            job.write("Older")
            await asyncio.sleep(0.3)
            job.write(". ")
            await asyncio.sleep(0.3)
            job.write("Younger")
            await arrived.wait()

        async with working(worker):
            job = farm.submit("slow")
            await until(lambda: job.text == "Older. Younger")
            arrived.set()
            await until(lambda: job.finishes)

    async def test_may_return_a_megabyte_of_any_text_without_holding_up_the_socket(
        self, farm: FarmServer, socket_worker: Worker
    ) -> None:
        """So long a message goes by HTTP: behind it heartbeats would wait, and servers close sockets for less."""
        socket_worker.handler("long")(lambda _job: "é" * 499_999)

        async with working(socket_worker):
            job = farm.submit("long")
            await until(lambda: job.finishes)

        assert (job.result, farm.ways["http"], farm.opened) == ("é" * 499_999, 1, 1)

    async def test_may_be_a_plain_function_that_uses_the_same_interface(self, farm: FarmServer, worker: Worker) -> None:
        @worker.handler("plain")
        def plain(job: Job) -> list[int]:
            assert threading.current_thread() is not threading.main_thread()
            for number in range(50):
                job.write(f"{number} ")
            job.file("numbers.txt", b"0 to 49")
            return [job.attempt]

        async with working(worker):
            job = farm.submit("plain")
            await until(lambda: job.finishes)

        assert (job.status, job.result, job.files) == ("success", [1], {"numbers.txt": b"0 to 49"})
        assert job.text == "".join(f"{number} " for number in range(50))

    async def test_that_raises_fails_its_attempt_with_the_traceback_and_the_worker_goes_on(
        self, farm: FarmServer, worker: Worker
    ) -> None:
        @worker.handler("bad")
        async def bad(job: Job) -> None:
            job.write("so far")
            raise LookupError("no such thing")

        @worker.handler("exit")
        def leave(_job: Job) -> None:
            raise SystemExit(3)

        @worker.handler("good")
        async def good(_job: Job) -> None:
            return None

        async with working(worker):
            jobs = [farm.submit(kind) for kind in ("bad", "exit", "good")]
            await until(lambda: all(job.finishes for job in jobs))

        assert [job.status for job in jobs] == ["failed", "failed", "success"]
        assert "Traceback" in jobs[0].error
        assert "LookupError: no such thing" in jobs[0].error
        assert (jobs[0].retryable, jobs[0].text) == (True, "so far")
        assert "SystemExit: 3" in jobs[1].error

    async def test_says_with_failed_that_trying_again_is_useless(self, farm: FarmServer, worker: Worker) -> None:
        @worker.handler("hopeless")
        def hopeless(_job: Job) -> None:
            raise Failed("The picture has no pixels.", retryable=False)

        async with working(worker):
            job = farm.submit("hopeless")
            await until(lambda: job.finishes)

        assert (job.status, job.error, job.retryable) == ("failed", "The picture has no pixels.", False)

    @pytest.mark.parametrize("value", [b"bytes", float("nan"), {1, 2}, object(), {"a": "\ud800"}])
    async def test_that_returns_no_json_fails_with_a_sentence(
        self, farm: FarmServer, socket_worker: Worker, value: object
    ) -> None:
        @socket_worker.handler("odd")
        async def odd(_job: Job) -> object:
            return value

        async with working(socket_worker):
            job = farm.submit("odd")
            await until(lambda: job.finishes)

        assert job.status == "failed"
        assert job.error.startswith("The handler returned something that is not JSON")

    async def test_that_is_missing_fails_the_attempt_once_and_names_what_there_is(
        self, farm: FarmServer, worker: Worker
    ) -> None:
        worker.handler("known")(lambda _job: None)

        async with working(worker):
            job = farm.submit("unknown")
            await until(lambda: job.finishes)

        assert (job.status, job.retryable, job.attempt) == ("failed", True, 1)
        assert job.error == "This worker has no handler for the kind 'unknown'; it knows known."

    async def test_whose_file_is_refused_fails_instead_of_succeeding_without_it(
        self, farm: FarmServer, worker: Worker
    ) -> None:
        farm.refusals["file"].append(SayNo(413, "too_large"))

        @worker.handler("paint")
        async def paint(job: Job) -> str:
            job.file("huge.png", b"...")
            return "painted"

        async with working(worker):
            job = farm.submit("paint")
            await until(lambda: job.finishes)

        assert (job.status, job.retryable) == ("failed", False)
        assert job.error == "The farm refused the file huge.png: No: too_large."

    async def test_whose_result_is_refused_fails_with_the_reason(self, farm: FarmServer, worker: Worker) -> None:
        farm.refusals["finish"].append(SayNo(413, "too_large"))
        worker.handler("big")(lambda _job: "x" * 1000)

        async with working(worker):
            job = farm.submit("big")
            await until(lambda: job.finishes)

        assert (job.status, job.error) == ("failed", "The farm refused the result: No: too_large.")

    async def test_that_raises_what_has_no_text_fails_its_attempt_alone(self, farm: FarmServer, worker: Worker) -> None:
        class Wordless(Failed, Unprintable):
            __str__ = Unprintable.__str__

        @worker.handler("break")
        async def broken(job: Job) -> None:
            raise Wordless(retryable=False) if job.payload else Unprintable

        async with working(worker):
            jobs = [farm.submit("break", payload) for payload in ({}, {"wordless": True})]
            await until(lambda: all(job.finishes for job in jobs))

        assert ["its text raises" in str(job.error) or "str() failed" in str(job.error) for job in jobs] == [True, True]
        assert [job.retryable for job in jobs] == [True, False]

    async def test_that_raises_what_is_no_exception_fails_its_attempt_alone(
        self, farm: FarmServer, worker: Worker
    ) -> None:
        @worker.handler("odd")
        async def odd(_job: Job) -> None:
            raise BaseExceptionGroup("several", [asyncio.CancelledError("one of its own")])

        async with working(worker):
            job = farm.submit("odd")
            await until(lambda: job.finishes)

        assert (job.status, job.error.splitlines()[-1]) == ("failed", "    +------------------------------------")


class TestHeartbeat:
    async def test_goes_on_while_a_plain_function_blocks(self, farm: FarmServer, worker: Worker) -> None:
        farm.heartbeat_every = 0.1
        let_go = threading.Event()

        @worker.handler("block")
        def block(_job: Job) -> None:
            let_go.wait(10)

        async with working(worker):
            job = farm.submit("block")
            await until(lambda: job.beats >= 3)
            let_go.set()
            await until(lambda: job.finishes)

        assert job.status == "success"

    async def test_carries_the_latest_progress_and_merges_the_rest(self, farm: FarmServer, worker: Worker) -> None:
        @worker.handler("count")
        async def count(job: Job) -> None:
            for number in range(1, 201):
                await asyncio.sleep(0.001)
                job.progress(number / 200)
            job.progress(detail="Counted")  # no await before it: no heartbeat takes the last number alone
            await until(lambda: any(report.get("detail") == "Counted" for report in farm.jobs[job.id].reports))

        started_s = time.monotonic()
        async with working(worker):
            job = farm.submit("count")
            await until(lambda: job.finishes)

        assert job.reports[-1] == {"progress": 1.0, "detail": "Counted"}
        assert len(job.reports) <= 2 + 5 * (time.monotonic() - started_s)

    async def test_does_not_come_before_the_first_text_and_carries_what_was_said_since(
        self, farm: FarmServer, worker: Worker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for pause in ("FIRST_REPORT_S", "CONFIRM_S"):
            monkeypatch.setattr(reports, pause, 2.0)  # a busy machine takes its time
        before: list[Any] = []

        @worker.handler("write")
        async def write(job: Job) -> None:
            job.progress(detail="Asking")
            await asyncio.sleep(0.01)
            job.write("One.\n")
            await job.flush()
            before.extend(farm.jobs[job.id].reports)
            job.progress(detail="Writing")
            await until(lambda: farm.jobs[job.id].reports)

        async with working(worker):
            job = farm.submit("write")
            await until(lambda: job.finishes)

        assert (before, [report["detail"] for report in job.reports]) == ([], ["Writing"])

    async def test_that_is_refused_for_now_is_sent_again_with_its_progress(
        self, farm: FarmServer, worker: Worker
    ) -> None:
        farm.refusals["heartbeat"].append(SayNo(429, "rate_limited", retry_after=0))

        @worker.handler("slow")
        async def slow(job: Job) -> None:
            job.progress(0.25, "A quarter")
            await until(lambda: farm.jobs[job.id].reports)

        async with working(worker):
            job = farm.submit("slow")
            await until(lambda: job.finishes)

        assert job.reports == [{"progress": 0.25, "detail": "A quarter"}]
