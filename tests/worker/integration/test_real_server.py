"""The worker against the real server and a real PostgreSQL: what it depends on, over both transports."""

import asyncio
import contextlib
import hashlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.contrib.auth.models import User
from django.core.files.base import ContentFile

from jobfarm_worker import Failed, Handlers, Job as HeldJob, Unauthorized, Worker
from jobfarm_worker.handlers import image_demo
from jobs import operations
from jobs.models import Attempt, Checkpoint, Job, OutputChunk, ResultFile, Worker as Row
from postgres import connections
from tests.farm import everything, kind, lose, pass_time, status, submit, until
from tests.forkserver import ROOT
from tests.servers import Server

pytestmark = pytest.mark.django_db(transaction=True)


def new_worker(name: str = "laptop") -> tuple[Row, str]:
    return operations.create_worker(name, queues=["work"])


@contextlib.contextmanager
def process(server: Server, handler: str, *, name: str = "laptop", grace: str = "60") -> Iterator[Any]:
    """A worker in a process of its own, with one of own_handlers; killed at the end, if it has not ended."""
    command = [sys.executable, "-m", "jobfarm_worker", "--url", server.url, "--grace", grace]
    with subprocess.Popen(
        [*command, "--handler", f"work=tests.worker.unit.own_handlers:{handler}"],
        env={**os.environ, "JOBFARM_KEY": new_worker(name)[1]},
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@dataclass(kw_only=True)
class Running:
    """A worker at work in a thread of its own."""

    worker: Worker
    row: Row
    thread: threading.Thread | None = None
    errors: list[Exception] = field(default_factory=list)


@contextlib.contextmanager
def working(server: Server, handlers: Handlers, **options: Any) -> Iterator[Running]:
    """A worker with these handlers runs inside this block, and ends with it."""
    row, key = new_worker()
    worker = Worker(server.url, key, **options)
    worker.include(handlers)
    running = Running(worker=worker, row=row)
    loop = asyncio.new_event_loop()

    def run() -> None:
        try:
            loop.run_until_complete(worker.run())
        except Exception as error:
            running.errors.append(error)

    running.thread = threading.Thread(target=run)
    running.thread.start()
    try:
        yield running
    finally:
        for _ in range(2):
            loop.call_soon_threadsafe(worker.stop)
        running.thread.join(15)
        assert not running.thread.is_alive()
        loop.close()


def shown(job: Job) -> tuple[float | None, str | None]:
    """The progress and the detail that are stored of a job now."""
    stored = Job.objects.get(pk=job.pk)
    return stored.progress, stored.detail


def one_job(payload: Any = None) -> Job:
    return operations.submit("work", payload)


def text(job: Job) -> str:
    chunks = OutputChunk.objects.filter(job_id=job.pk).order_by("attempt", "seq")
    return "".join(chunks.values_list("text", flat=True))


def ended(job: Job) -> str:
    return until(lambda: (now := status(job)) not in {"pending", "in_progress"} and now, what="the end") or ""


class TestWork:
    def test_arrives_whole(self, server: Server, transport: Any) -> None:
        handlers, go_on = Handlers(), threading.Event()

        @handlers.handler("work")
        def work(job: HeldJob) -> dict[str, Any]:
            job.progress(0.4, "Painting")
            job.write("Hello, ")
            job.write("wörld \0")
            job.file("data.bin", b"\x00\xff" * 1000)
            go_on.wait(20)
            return {"echo": job.payload}

        with working(server, handlers, transport=transport):
            job = one_job({"n": 7})
            until(lambda: shown(job) == (0.4, "Painting"), what="progress")
            until(lambda: ResultFile.objects.filter(job_id=job.pk, name="data.bin", size=2000), what="file")
            go_on.set()
            assert ended(job) == "success"

        job = Job.objects.whole().get(pk=job.pk)
        assert (job.result, text(job)) == ({"echo": {"n": 7}}, "Hello, wörld \ufffd")
        assert (job.fence, job.worker_name, Attempt.objects.count()) == (1, "laptop", 0)

    def test_is_done_once_each_when_there_is_plenty(self, server: Server, transport: Any) -> None:
        handlers, done = Handlers(), []

        @handlers.handler("work")
        async def work(job: HeldJob) -> int:
            await asyncio.sleep(0)
            done.append(job.payload["n"])
            return int(job.payload["n"])

        jobs = submit(120)
        with working(server, handlers, transport=transport, concurrency=8):
            until(lambda: Job.objects.ended("success").count() == 120, what="the end")

        assert sorted(done) == list(range(120))
        # What was kept ready and given back again, on a busy machine, has a higher fence and is no attempt.
        assert {(job.attempt, job.failures) for job in Job.objects.filter(pk__in=[job.pk for job in jobs])} == {(1, 0)}

    def test_of_a_job_whose_row_is_locked_is_stored_once_it_is_free_and_that_of_the_others_before(
        self, server: Server, transport: Any
    ) -> None:
        handlers, go_on = Handlers(), threading.Event()

        @handlers.handler("work")
        async def work(job: HeldJob) -> int:
            if job.payload["n"] in {0, 1}:
                job.write("Hello, ")
                await asyncio.to_thread(go_on.wait, 20)
            if job.payload["n"] == 1:
                job.write("world")
            return int(job.payload["n"])

        jobs, before = submit(60), len(server.log)
        with working(server, handlers, transport=transport, concurrency=8):
            until(lambda: {text(job) for job in jobs[:2]} == {"Hello, "}, what="the first output")
            with psycopg.connect(connections.conninfo()) as other:
                for job in jobs[:2]:
                    other.execute("SELECT FROM jobs_live WHERE job_id = %s FOR UPDATE", [job.pk])
                go_on.set()
                until(lambda: Job.objects.ended("success").count() == 58, what="the end of the others")
                until(lambda: "A call was refused" in server.log[before:], what="the refusal of the output")
            until(lambda: Job.objects.ended("success").count() == 60, what="the end")

        assert [text(job) for job in jobs[:2]] == ["Hello, ", "Hello, world"]
        assert {(job.attempt, job.failures) for job in Job.objects.filter(pk__in=[job.pk for job in jobs])} == {(1, 0)}

    def test_goes_on_with_what_the_jobs_before_it_came_to(self, server: Server, transport: Any) -> None:
        handlers = Handlers()

        @handlers.handler("work")
        async def work(job: HeldJob) -> int:
            return int(job.payload + sum(one.result for one in job.after if one.status == "success"))

        chain = [operations.NewJob(kind="work", payload=1, name="0")]
        chain += [operations.NewJob(kind="work", payload=1, name=f"{n}", after=[f"{n - 1}"]) for n in range(1, 20)]
        with working(server, handlers, transport=transport, concurrency=4):
            operations.submit_many(chain)
            last = Job.objects.latest("pk")
            assert ended(last) == "success"
        assert Job.objects.whole().get(pk=last.pk).result == 20

    def test_that_fails_keeps_its_traceback_and_the_worker_goes_on(self, server: Server, transport: Any) -> None:
        handlers = Handlers()

        @handlers.handler("work")
        async def work(job: HeldJob) -> str:
            if job.payload == "raise":
                raise LookupError("no such thing")
            if job.payload == "give up":
                raise Failed("It cannot be done.", retryable=False)
            return "done"

        with working(server, handlers, transport=transport):
            raising, hopeless, good = one_job("raise"), one_job("give up"), one_job("fine")
            assert (ended(hopeless), ended(good)) == ("failed", "success")
            until(lambda: Attempt.objects.filter(job_id=raising.pk), what="the failed attempt")

        errors = {a.job_id: a.error for a in Attempt.objects.order_by("number")}
        assert "LookupError: no such thing" in errors[raising.pk]
        assert "Traceback" in errors[raising.pk]
        assert errors[hopeless.pk] == "It cannot be done."

    def test_reads_the_files_that_it_was_given(self, server: Server, transport: Any, ada: User, tmp_path: Path) -> None:
        handlers, sound = Handlers(), bytes(range(256)) * 20_000

        @handlers.handler("work")
        async def work(job: HeldJob) -> list[str]:
            path = await job.save_input("sound", tmp_path / f"{job.id}.ogg")
            assert path.read_bytes() == await job.input("sound")
            return [hashlib.sha256(path.read_bytes()).hexdigest(), job.inputs["sound"].type]

        @handlers.handler("plain")
        def plain(job: HeldJob) -> list[str]:
            path = job.save_input("sound", tmp_path / f"{job.id}.ogg")
            assert path.read_bytes() == job.input("sound")
            return [hashlib.sha256(path.read_bytes()).hexdigest(), job.inputs["sound"].type]

        kind("plain", queue="work")
        kept = operations.upload("sound.ogg", ContentFile(sound), owner=ada)
        with working(server, handlers, transport=transport):
            for name in ("work", "plain"):
                job = operations.submit(name, None, owner=ada, files={"sound": kept.pk})
                assert ended(job) == "success", Attempt.objects.values_list("error")
                job = Job.objects.whole().get(pk=job.pk)
                assert job.result == [kept.sha256, "audio/ogg"]

    def test_of_the_demonstrator_ends_in_a_png(self, server: Server) -> None:
        handlers = Handlers()
        handlers.add(kind="work", function=image_demo.handler(side=96, pace_s=0))
        with working(server, handlers):
            job = one_job({"prompt": "a lighthouse"})
            assert ended(job) == "success"
        names = ResultFile.objects.filter(job_id=job.pk).values_list("name", flat=True)
        assert sorted(names) == ["picture.png", "preview.png"]
        assert text(job).startswith("(demonstrator: no image model is configured)")


class TestStop:
    def test_reaches_a_handler_at_once_over_the_socket(self, server: Server) -> None:
        handlers, started, stopped = Handlers(), threading.Event(), threading.Event()

        @handlers.handler("work")
        async def work(job: HeldJob) -> str:
            if job.payload == "quick":
                return "quick"
            started.set()
            try:
                await asyncio.sleep(60)
            finally:
                stopped.set()
            return "never"

        with working(server, handlers, transport="ws"):
            job = one_job("slow")
            assert started.wait(20)
            verdict = operations.cancel(job.pk, by=None).verdict
            assert stopped.wait(10)  # a heartbeat would tell only after 20 s
            before = everything(job)
            following = one_job("quick")
            assert ended(following) == "success"

        assert (verdict, status(job)) == ("canceled_while_running", "canceled")
        assert everything(job) == before

    def test_by_a_revoked_key_ends_the_worker(self, server: Server) -> None:
        handlers, started = Handlers(), threading.Event()

        @handlers.handler("work")
        async def work(_job: HeldJob) -> None:
            started.set()
            await asyncio.sleep(60)

        with working(server, handlers, transport="ws") as running:
            one_job()
            assert started.wait(20)
            operations.revoke(running.row)
            assert running.thread is not None
            running.thread.join(10)
        assert [type(error) for error in running.errors] == [Unauthorized]


class TestServerRestart:
    def test_in_mid_stream_costs_neither_text_nor_the_attempt(self, server: Server, transport: Any) -> None:
        handlers, started, go_on = Handlers(), threading.Event(), threading.Event()
        words = [f"word {number}, " for number in range(40)]

        @handlers.handler("work")
        def work(job: HeldJob) -> str:
            for number, word in enumerate(words):
                job.write(word)
                if number == 20:
                    started.set()
                    go_on.wait(30)
            return "whole"

        with working(server, handlers, transport=transport):
            job = one_job()
            assert started.wait(20)
            server.kill()
            go_on.set()
            server.start()
            assert ended(job) == "success"

        job = Job.objects.get(pk=job.pk)
        assert (text(job), job.fence) == ("".join(words), 1)


class TestProcess:
    @pytest.mark.parametrize("grace", ["0.1", "60"])
    def test_gives_back_or_finishes_on_sigterm(self, server: Server, grace: str) -> None:
        with process(server, "wait", grace=grace) as worker:
            job = one_job(60 if grace == "0.1" else 1)
            until(lambda: shown(job)[1] == "Waiting", what="the handler")
            worker.send_signal(signal.SIGTERM)
            code = worker.wait(20)
        expected = "pending" if grace == "0.1" else "success"
        assert (code, status(job), Job.objects.get(pk=job.pk).failures) == (0, expected, 0)

    @pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM])
    def test_that_was_killed_or_stopped_leaves_a_job_to_the_next_which_goes_on_from_its_checkpoint(
        self, server: Server, sent: signal.Signals
    ) -> None:
        with process(server, "count") as first:
            job = one_job(40)
            until(lambda: Checkpoint.objects.filter(job_id=job.pk, value__2__isnull=False), what="a few steps")
            first.send_signal(sent)
            assert first.wait(20) == (0 if sent == signal.SIGTERM else -signal.SIGKILL)
        if sent == signal.SIGKILL:
            lose(job)
        kept = Checkpoint.objects.get().value
        assert (status(job), set(kept)) == ("pending", {1})
        pass_time(job, 3600)
        with process(server, "count", name="desktop"):
            assert ended(job) == "success"

        job = Job.objects.whole().get(pk=job.pk)
        assert job.result == [*kept, *[2] * (40 - len(kept))]
        assert (job.worker_name, job.checkpoint, job.failures) == ("desktop", job.result, int(sent == signal.SIGKILL))

    def test_with_a_wrong_key_says_so_and_ends(self, server: Server) -> None:
        command = [sys.executable, "-m", "jobfarm_worker", "--url", server.url, "--handler", "chat-demo"]
        for transport in ("ws", "http"):
            ran = subprocess.run(
                [*command, "--transport", transport],
                env={**os.environ, "JOBFARM_KEY": "wrong"},
                cwd=ROOT,
                capture_output=True,
                text=True,
                timeout=30,
                check=False,
            )
            assert (ran.returncode, ran.stderr.count("\n")) == (1, 1)
            assert "does not accept this key" in ran.stderr


class TestShortJobs:
    def test_that_were_not_begun_are_given_back_as_if_never_claimed(self, server: Server, transport: Any) -> None:
        handlers, reached, go_on = Handlers(), threading.Event(), threading.Event()

        @handlers.handler("work")
        async def work(job: HeldJob) -> None:
            if job.payload == "long":
                reached.set()
                await asyncio.to_thread(go_on.wait, 20)

        before = [one_job(number) for number in range(40)]
        long, after = one_job("long"), [one_job(number) for number in range(20)]
        afterwards = Job.objects.waiting().filter(pk__in=[job.pk for job in after])
        with working(server, handlers, transport=transport):
            assert reached.wait(20)
            until(lambda: any((job.fence, job.releases) == (1, 0) for job in afterwards.all()), what="jobs given back")
            until(lambda: Job.objects.running().filter(pk__in=[j.pk for j in after]).count() == 0, what="all")
            assert (status(long), Attempt.objects.exclude(outcome="unconfirmed").count()) == ("in_progress", 0)
            go_on.set()
            until(lambda: Job.objects.ended("success").count() == 61, what="the end")

        assert {job.attempt for job in Job.objects.filter(pk__in=[job.pk for job in [*before, long, *after]])} == {1}
