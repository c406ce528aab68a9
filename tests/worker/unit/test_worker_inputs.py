"""A worker fetches input files: whole, in spite of cuts, from servers that know no ranges, and never a wrong one."""

from __future__ import annotations

import asyncio
import hashlib
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from jobfarm_worker import Failed, JobStopped
from jobfarm_worker.asking import MOST_CUTS, Asking
from jobfarm_worker.farm import Farm
from jobfarm_worker.job import Job
from jobfarm_worker.links import HttpLink
from jobfarm_worker.outbox import Outbox
from jobfarm_worker.protocol import ClaimedJob, InputFile, claimed_jobs
from tests.worker.unit.outside import until

SOUND = random.Random(7).randbytes(300_000)
REFUSED = '{"error": "%s", "message": "No.", "reason": "canceled"}'


@dataclass
class Faults:
    """What goes wrong with the next answers, and what was asked for."""

    cuts: list[int] = field(default_factory=list)  # after so many bytes
    wrong: list[bytes] = field(default_factory=list)  # bytes in place of the file
    refusals: list[tuple[int, str]] = field(default_factory=list)
    knows_ranges: bool = True
    redirects: bool = False
    ranges: list[str | None] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)


def _handler(faults: Faults) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        server: ThreadingHTTPServer

        def do_GET(self) -> None:
            faults.ranges.append(self.headers["Range"])
            faults.keys.append(self.headers["Authorization"])
            if faults.redirects and self.path.startswith("/api"):
                self._begin(302, 0, Location=f"http://localhost:{self.server.server_port}/elsewhere")
            elif faults.refusals:
                status, text = faults.refusals.pop(0)
                self._begin(status, len(text))
                self.wfile.write(text.encode())
            else:
                self._send(faults.wrong.pop(0) if faults.wrong else SOUND)

        def _send(self, content: bytes) -> None:
            requested = self.headers["Range"] if faults.knows_ranges else None
            start = int(requested.removeprefix("bytes=").rstrip("-")) if requested else 0
            part = content[start:]
            self._begin(206 if requested else 200, len(part), **{"Content-Disposition": "attachment"})
            self.wfile.write(part[: faults.cuts.pop(0)] if faults.cuts else part)

        def _begin(self, status: int, length: int, **headers: str) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(length)}.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Nothing on the screen."""

    return Handler


@pytest.fixture
def faults() -> Faults:
    return Faults()


@pytest.fixture
def url(faults: Faults) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(faults))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


class Never(random.Random):
    """Dice that always show the least: no pause."""

    def uniform(self, a: float, b: float) -> float:
        return a


def held(url: str, use: Callable[[Job, Outbox], Any], *, content: bytes = SOUND) -> list[str]:
    """Let `use` work with a job that has this file as an input; why its lease was lost, if it was."""
    lost: list[str] = []
    file = InputFile(name="audio", size=len(content), sha256=hashlib.sha256(content).hexdigest(), type="audio/ogg")
    claimed = ClaimedJob(id=7, kind="k", queue="q", payload=None, attempt=1, lease="l", heartbeat_s=0.1, files=(file,))

    async def run() -> None:
        box = Outbox(wake=lambda: None)
        http = HttpLink(url=url, headers={"Authorization": "Bearer key"})
        farm = Farm(http, socket=None, needs_socket=False, rng=Never())
        asking = Asking(claimed=claimed, farm=farm, outbox=box, on_lost=lost.append, loop=asyncio.get_running_loop())
        job = Job(claimed, outbox=box, confirmed=lambda: asyncio.sleep(0), asking=asking)
        await use(job, box)
        await http.close()

    asyncio.run(run())
    return lost


async def whole(job: Job, _: Outbox) -> None:
    assert await job.input("audio") == SOUND


class TestAnInput:
    def test_is_there_with_what_is_known_of_it(self, url: str) -> None:
        async def use(job: Job, _: Outbox) -> None:
            assert job.inputs["audio"].size == len(SOUND)
            assert job.inputs["audio"].type == "audio/ogg"
            await whole(job, _)

        held(url, use)

    def test_is_written_to_a_file_that_has_its_name_once_it_is_whole(
        self, url: str, faults: Faults, tmp_path: Path
    ) -> None:
        path = tmp_path / "sound.ogg"
        faults.cuts = [100_000]

        async def use(job: Job, _: Outbox) -> None:
            assert await job.save_input("audio", str(path)) == path

        held(url, use)
        assert path.read_bytes() == SOUND
        assert list(tmp_path.iterdir()) == [path]

    def test_goes_on_where_it_was_cut(self, url: str, faults: Faults) -> None:
        faults.cuts = [100_000, 0, 1, 50_000]
        held(url, whole)
        starts = [0 if requested is None else int(requested[6:-1]) for requested in faults.ranges]
        assert starts == [0, 100_000, 100_000, 100_001, 150_001]

    def test_comes_whole_from_a_server_that_knows_no_ranges(self, url: str, faults: Faults) -> None:
        faults.knows_ranges, faults.cuts = False, [100_000, 250_000, 10]
        held(url, whole)

    def test_comes_after_answers_that_are_for_now(self, url: str, faults: Faults) -> None:
        faults.refusals = [
            (503, REFUSED % "unavailable"),
            (502, "<html>"),
            (200, "<p>Log in."),
            (429, REFUSED % "rate_limited"),
        ]
        held(url, whole)
        assert (len(faults.ranges), [each for each in faults.ranges if each]) == (5, []), "no page was a part of it"

    def test_comes_from_elsewhere_and_the_key_does_not_go_there(self, url: str, faults: Faults) -> None:
        faults.redirects, faults.cuts = True, [100_000]
        held(url, whole)
        assert faults.keys == ["Bearer key", None] * 2

    def test_that_came_wrong_is_fetched_once_more(self, url: str, faults: Faults) -> None:
        faults.wrong = [bytes(len(SOUND))]
        held(url, whole)

    def test_that_comes_wrong_again_fails_and_leaves_no_file(self, url: str, faults: Faults, tmp_path: Path) -> None:
        faults.wrong = [bytes(len(SOUND))] * 2

        async def use(job: Job, _: Outbox) -> None:
            with pytest.raises(Failed, match="SHA-256"):
                await job.save_input("audio", tmp_path / "sound.ogg")

        held(url, use)
        assert not list(tmp_path.iterdir())

    def test_that_is_shorter_than_it_was_fails(self, url: str, faults: Faults) -> None:
        faults.cuts = [1000, *[0] * (MOST_CUTS + 1)]

        async def use(job: Job, _: Outbox) -> None:
            with pytest.raises(Failed, match="ends at byte 1000"):
                await job.input("audio")

        held(url, use)

    def test_that_the_farm_has_no_more_fails_for_good(self, url: str, faults: Faults) -> None:
        faults.refusals = [(404, REFUSED % "not_found")]

        async def use(job: Job, _: Outbox) -> None:
            with pytest.raises(Failed) as failed:
                await job.input("audio")
            assert not failed.value.retryable

        assert held(url, use) == []

    def test_of_another_name_is_refused_without_a_call(self, url: str, faults: Faults) -> None:
        async def use(job: Job, _: Outbox) -> None:
            with pytest.raises(Failed, match="it has: audio"):
                await job.input("video")

        held(url, use)
        assert not faults.ranges

    def test_of_a_lost_lease_stops_the_job(self, url: str, faults: Faults) -> None:
        faults.refusals = [(409, REFUSED % "lease_lost")]

        async def use(job: Job, _: Outbox) -> None:
            with pytest.raises(JobStopped):
                await job.input("audio")

        assert held(url, use) == ["it was canceled"]

    def test_without_a_byte_needs_no_call(self, url: str, faults: Faults) -> None:
        async def use(job: Job, _: Outbox) -> None:
            assert await job.input("audio") == b""

        held(url, use, content=b"")
        assert not faults.ranges


class TestAPlainFunction:
    def test_waits_for_the_bytes(self, url: str, tmp_path: Path) -> None:
        def plain(job: Job) -> None:
            assert job.input("audio") == SOUND
            assert job.save_input("audio", tmp_path / "a").read_bytes() == SOUND

        held(url, lambda job, _: asyncio.to_thread(plain, job))

    def test_is_stopped_while_it_waits(self, url: str, faults: Faults) -> None:
        faults.refusals = [(503, REFUSED % "unavailable")] * 10_000

        def plain(job: Job) -> None:
            with pytest.raises(JobStopped):
                job.input("audio")

        async def use(job: Job, box: Outbox) -> None:
            waiting = asyncio.create_task(asyncio.to_thread(plain, job))
            await until(lambda: faults.ranges)
            box.stop()
            await waiting

        held(url, use)


def test_a_claimed_job_of_an_older_farm_has_no_inputs() -> None:
    answer = {"id": 1, "kind": "k", "lease": "l"}
    file = {"name": "a", "size": 1, "sha256": "0", "type": "text/plain", "more": 1}
    old, new = claimed_jobs({"jobs": [answer, answer | {"files": [file]}]})
    assert old.files == ()
    assert new.files == (InputFile(name="a", size=1, sha256="0", type="text/plain"),)
