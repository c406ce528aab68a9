"""What lost connections do: nothing that anybody notices. Against a small farm in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from jobfarm_worker import Job, Unreachable, Worker, links
from jobfarm_worker.links import HttpLink, SocketLink
from jobfarm_worker.protocol import Call, ClaimedJob
from jobfarm_worker.tasks import first
from tests.ports import free_port
from tests.worker.unit.outside import KEY, Door, FarmServer, SayNo, serving, until, working


class TestLostConnection:
    async def test_in_mid_stream_neither_loses_nor_doubles_text(self, farm: FarmServer, worker: Worker) -> None:
        farm.lose_answers["output"] = 3
        words = [f"word {number}, " for number in range(30)]

        @worker.handler("stream")
        async def stream(job: Job) -> None:
            for number, word in enumerate(words):
                job.write(word)
                if number % 10 == 0:
                    await job.flush()

        async with working(worker):
            job = farm.submit("stream")
            await until(lambda: job.finishes, timeout_s=20)

        assert (job.status, job.text) == ("success", "".join(words))
        assert farm.lose_answers["output"] == 0
        seqs = [body["seq"] for body in farm.bodies["output"]]
        assert len(seqs) == len(set(seqs)) + 3  # each lost answer was asked for once more, under its own number

    async def test_on_the_finish_is_sent_again_and_done_once(self, farm: FarmServer, worker: Worker) -> None:
        farm.lose_answers["finish"] = 1
        runs: list[int] = []

        @worker.handler("once")
        async def once(job: Job) -> str:
            runs.append(job.id)
            return "done"

        async with working(worker):
            job = farm.submit("once")
            await until(lambda: worker.board.endings["success"])

        assert (job.status, job.result, job.finishes) == ("success", "done", 1)
        assert (runs, farm.calls["finish"]) == ([job.id], 2)
        assert [body["lease"] for body in farm.bodies["finish"]] == [job.lease, job.lease]

    async def test_on_the_finish_is_no_reason_to_mistake_it_for_a_lost_lease(
        self, farm: FarmServer, worker: Worker, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Heartbeats go on until the farm has answered the finish; by then they are refused."""
        farm.heartbeat_every = 0.05
        farm.lose_answers["finish"] = 4
        worker.handler("once")(lambda _job: "done")

        async with working(worker):
            job = farm.submit("once")
            await until(lambda: worker.board.endings)

        assert (job.finishes, dict(worker.board.endings)) == (1, {"success": 1})
        assert "is stopped" not in caplog.text

    async def test_leaves_a_running_handler_alone(self, farm: FarmServer, socket_worker: Worker) -> None:
        go_on = asyncio.Event()

        @socket_worker.handler("wait")
        async def wait(job: Job) -> str:
            await go_on.wait()
            job.write("After the cut.")
            return "whole"

        async with working(socket_worker):
            job = farm.submit("wait")
            await until(lambda: job.status == "in_progress")
            [cut] = farm.sockets.values()
            farm.cut_sockets()
            await until(lambda: cut not in farm.sockets.values())  # it may be connected again by then
            go_on.set()
            await until(lambda: job.finishes)

        assert (job.result, job.text, job.attempt) == ("whole", "After the cut.", 1)

    async def test_falls_back_to_http_and_returns_to_the_socket(self, farm: FarmServer) -> None:
        worker = Worker(farm.url, KEY)
        worker.handler("quick")(lambda job: job.payload)

        async with working(worker):
            first = farm.submit("quick", 1)
            await until(lambda: first.finishes)
            assert (worker.connection, farm.ways["http"]) == ("WebSocket", 0)

        farm.has_socket = False
        async with working(worker):
            second = farm.submit("quick", 2)
            await until(lambda: second.finishes)
            assert worker.connection == "HTTP"

        assert (first.result, second.result) == (1, 2)
        assert farm.ways["http"] >= 2


class Proxy:
    """What stands between a worker and its farm, and answers the first requests with a page of its own."""

    def __init__(self, farm: FarmServer, *, status: int, times: int, verb: str, body: bytes | None = None) -> None:
        self.farm = farm
        self.status = status
        self.times = times
        self.verb = verb
        self.body = (b"" if status < 300 else b"<h1>nginx</h1>") if body is None else body

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or self.verb not in scope["path"] or self.times < 1:
            await self.farm(scope, receive, send)
            return
        self.times -= 1
        headers = [(b"content-type", b"text/html")]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


STRANGE = [
    (404, b'{"error": "Not Found", "message": "No static resource.", "status": 404}'),
    (401, b'{"message": "Unauthorized"}'),
    (200, b'{"message": "Down for maintenance."}'),
]
STRANGER = [(410, b'{"error": "gone"}'), (403, b'{"error": {"code": 403, "message": "No."}}'), (404, b"[" * 100_000)]


class TestProxy:
    @pytest.mark.parametrize(
        ("status", "verb"),
        [(502, "claim"), (504, "finish"), (404, "output"), (403, "files"), (401, "output")]
        + [(status, verb) for status in (200, 204) for verb in ("output", "files", "finish")],
    )
    async def test_that_answers_for_a_farm_that_is_away_is_waited_out(
        self, farm: FarmServer, door: Door, status: int, verb: str
    ) -> None:
        door.app = proxy = Proxy(farm, status=status, times=2, verb=verb)
        worker = Worker(farm.url, KEY, transport="http")

        @worker.handler("greet")
        async def greet(job: Job) -> str:
            job.write("Hello.")
            job.file("a.txt", b"a")
            return "done"

        async with working(worker):
            job = farm.submit("greet")
            await until(lambda: job.finishes, timeout_s=20)

        assert (job.status, job.text, job.files) == ("success", "Hello.", {"a.txt": b"a"})
        assert proxy.times == 0

    @pytest.mark.parametrize(
        ("status", "body", "verb"),
        [
            *((*answer, verb) for verb in ("output", "files", "checkpoint", "submit") for answer in STRANGE),
            *((*answer, "finish") for answer in (*STRANGE, *STRANGER)),
        ],
    )
    async def test_that_answers_for_it_in_json_is_waited_out(
        self, farm: FarmServer, door: Door, status: int, body: bytes, verb: str
    ) -> None:
        """Such an answer stopped jobs, ended workers, failed attempts, and was taken for the receipt of a result."""
        door.app = proxy = Proxy(farm, status=status, times=2, verb=verb, body=body)
        worker = Worker(farm.url, KEY, transport="http")

        @worker.handler("greet")
        async def greet(job: Job) -> int:
            job.write("Hello.")
            job.file("a.txt", b"a")
            job.checkpoint(1)
            return int((await job.submit("child", None)).id)

        async with working(worker):
            job = farm.submit("greet")
            await until(lambda: job.finishes, timeout_s=20)

        assert (job.status, job.result, job.text, job.files) == ("success", 1000, "Hello.", {"a.txt": b"a"})
        assert (proxy.times, job.checkpoint, job.attempt) == (0, 1, 1)

    async def test_that_answers_a_heartbeat_confirms_no_lease(self, farm: FarmServer, door: Door) -> None:
        """A job that must not run twice began, though the farm knew nothing of it."""
        door.app = Proxy(farm, status=200, times=2, verb="heartbeat", body=b'{"message": "Down for maintenance."}')
        worker = Worker(farm.url, KEY, transport="http")
        worker.handler("once")(lambda _job: farm.calls["heartbeat"])

        async with working(worker):
            job = farm.submit("once", retry_when_lost=False)
            await until(lambda: job.finishes)

        assert job.result == 1

    async def test_that_has_a_worker_wait_before_the_farm_has_answered_is_no_stranger(
        self, farm: FarmServer, door: Door
    ) -> None:
        door.app = Proxy(farm, status=429, times=2, verb="claim")
        worker = Worker(farm.url, KEY, transport="http")
        worker.handler("greet")(lambda _job: "hello")

        async with working(worker):
            job = farm.submit("greet")
            await until(lambda: job.finishes)

        assert job.result == "hello"

    async def test_that_finds_a_file_too_large_is_believed(self, farm: FarmServer, door: Door) -> None:
        door.app = Proxy(farm, status=413, times=99, verb="files")
        worker = Worker(farm.url, KEY)
        worker.handler("paint")(lambda job: job.file("a.txt", b"a"))

        async with working(worker):
            job = farm.submit("paint")
            await until(lambda: job.finishes)

        assert (job.status, job.error) == ("failed", "The farm refused the file a.txt: It is too large.")


@asynccontextmanager
async def answering(at_once: bytes, *, then: bytes = b"") -> AsyncIterator[str]:
    """A server that answers whatever it is asked with these bytes; with those `then` one by one, twenty a second."""

    is_over = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(at_once)
        for byte in then:
            await first(is_over.wait(), timeout_s=0.05)
            writer.write(bytes([byte]))
            if is_over.is_set():
                break
        writer.close()
        await asyncio.wait([asyncio.create_task(writer.wait_closed())])

    answering: set[asyncio.Task[None]] = set()
    server = await asyncio.start_server(lambda *ends: answering.add(asyncio.create_task(answer(*ends))), "127.0.0.1", 0)
    try:
        yield f"://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        is_over.set()
        await asyncio.gather(*answering)


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n"
FILE = ClaimedJob(id=1, kind="k", queue="q", payload=None, attempt=1, lease="1-1", heartbeat_s=1.0)


class TestAnswerThatTrickles:
    """A byte now and then: no step of it takes long, and the whole for ever."""

    @pytest.mark.parametrize(("at_once", "then"), [(b"", HEAD), (HEAD, b" " * 500)], ids=["head", "body"])
    async def test_is_given_up_in_the_time_of_a_call(self, at_once: bytes, then: bytes) -> None:
        async with answering(at_once, then=then) as address:
            link = HttpLink(url=f"http{address}", headers={})
            async with asyncio.timeout(1.5):
                with pytest.raises(Unreachable) as lost:
                    await link.call(Call(verb="hello"), timeout_s=0.3)
            await link.close()
        assert lost.value.maybe_done

    async def test_is_given_up_for_an_input_too(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(links, "FETCH_S", 0.3)
        taken: list[bytes] = []

        async def take(_: int, piece: bytes) -> None:
            taken.append(piece)

        head = HEAD.replace(b"\r\n\r\n", b"\r\nContent-Disposition: inline\r\n\r\n")
        async with answering(head, then=b"x" * 500) as address:
            link = HttpLink(url=f"http{address}", headers={})
            async with asyncio.timeout(1.5):
                with pytest.raises(Unreachable):
                    await link.fetch("a", claimed=FILE, start=0, take=take)
            await link.close()
        assert set(taken) == {b"x"}, "what came is kept: the next download goes on behind it"


class TestRedirectOfTheSocket:
    @pytest.mark.parametrize("location", ["http://[::1", "ws://farm:99999/", "https://elsewhere.example/"])
    async def test_to_nowhere_is_a_socket_that_does_not_open(self, location: str) -> None:
        """An address that cannot be read ended the worker."""
        async with answering(f"HTTP/1.1 302 Found\r\nLocation: {location}\r\n\r\n".encode()) as address:
            with pytest.raises(Unreachable):
                await SocketLink.opened(url=f"ws{address}/", headers={}, on_push=print, timeout_s=5)


class TestFarmThatIsNotThereYet:
    async def test_is_waited_for(self, transport: Any) -> None:
        port = free_port()
        farm = FarmServer()
        job = farm.submit("greet")
        worker = Worker(f"http://127.0.0.1:{port}", KEY, transport=transport)
        worker.handler("greet")(lambda _job: "hello")

        async with working(worker):
            await asyncio.sleep(0.1)
            with serving(farm, port=port):
                await until(lambda: job.finishes, timeout_s=20)
                worker.stop()

        assert job.result == "hello"

    async def test_that_asks_for_patience_is_obeyed(self, farm: FarmServer, worker: Worker) -> None:
        farm.refusals["claim"] = [SayNo(429, "rate_limited", retry_after=0.2), SayNo(503, "unavailable")]
        worker.handler("greet")(lambda _job: "hello")

        async with working(worker):
            job = farm.submit("greet")
            await until(lambda: job.finishes)

        assert (job.result, farm.refusals["claim"]) == ("hello", [])
