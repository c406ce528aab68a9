"""The outside world of the worker: a small farm that speaks the worker protocol, and can misbehave.

It is not jobfarm: it keeps its jobs in memory, so that these tests need no database and can lose
answers, cut sockets and refuse calls at will. The same worker meets the real server in
tests/integration/worker.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote

import uvicorn

from jobfarm_worker import Worker

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
KEY = "test-key"


@dataclass(kw_only=True)
class StoredJob:
    """What the farm knows of a job."""

    id: int
    kind: str
    payload: Any
    queue: str = "default"
    status: str = "pending"
    attempt: int = 0
    lease: str = ""
    pieces: list[str] = field(default_factory=list)
    reports: list[dict[str, Any]] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    result: Any = None
    error: str = ""
    retryable: bool | None = None
    finishes: int = 0
    beats: int = 0

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class SayNo(Exception):
    """A refusal in the farm's error form."""

    def __init__(self, status: int, error: str, **more: Any) -> None:
        super().__init__(error)
        self.status = status
        self.body = {"error": error, "message": f"No: {error}.", **more}


class FarmServer:
    """Jobs in memory, the verbs of the protocol, and the faults that a test asks for."""

    def __init__(self) -> None:
        self.jobs: dict[int, StoredJob] = {}
        self.calls: Counter[str] = Counter()
        self.ways: Counter[str] = Counter()  # calls by "ws" or "http"
        self.bodies: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        self.heartbeat_every = 20.0
        self.has_socket = True
        self.key_is_good = True
        self.never_waits = False
        self.is_silent = False
        self.lose_answers: Counter[str] = Counter()  # verb: so many answers are lost after they took effect
        self.refusals: defaultdict[str, list[SayNo]] = defaultdict(list)
        self.sockets: dict[int, tuple[asyncio.Queue[dict[str, Any]], set[str]]] = {}
        self.url = ""
        self._lock = threading.RLock()
        self._loop: asyncio.AbstractEventLoop | None = None

    # What tests do

    def submit(self, kind: str, payload: Any = None, *, queue: str = "default") -> StoredJob:
        with self._lock:
            job = StoredJob(id=len(self.jobs) + 1, kind=kind, payload=payload, queue=queue)
            self.jobs[job.id] = job
        if not self.is_silent:
            self._push({"type": "work", "available": True}, only_waiting=True)
        return job

    def cancel(self, job: StoredJob) -> None:
        with self._lock:
            job.status = "canceled"
        self._push({"type": "stop", "job": job.id})

    def announce(self) -> None:
        """Say that there is work, whether or not there is."""
        self._push({"type": "work", "available": True})

    def take_away(self, job: StoredJob) -> None:
        """The lease is lost, and nobody is told."""
        job.lease = "somebody-else"

    def cut_sockets(self, code: int = 1012) -> None:
        self._push({"close": code})

    def _push(self, message: dict[str, Any], *, only_waiting: bool = False) -> None:
        def deliver() -> None:
            for queue, marks in self.sockets.values():
                if not only_waiting or "waiting" in marks:
                    queue.put_nowait(message)

        if self._loop is not None:
            self._loop.call_soon_threadsafe(deliver)

    # The verbs

    def answer(self, verb: str, body: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            self.calls[verb] += 1
            self.bodies[verb].append(body)
            if self.refusals[verb]:
                raise self.refusals[verb].pop(0)
            answered: dict[str, Any] = getattr(self, f"_{verb}")(body)
            return answered

    def _claim(self, body: dict[str, Any]) -> dict[str, Any]:
        waiting = [job for job in self.jobs.values() if job.status == "pending"]
        wanted = [job for job in waiting if job.queue in body.get("queues", [job.queue])]
        return {"jobs": [self._lease(job) for job in wanted[: body["limit"]]]}

    def _lease(self, job: StoredJob) -> dict[str, Any]:
        job.attempt += 1
        job.status, job.lease = "in_progress", f"{job.id}.{job.attempt}"
        job.pieces = []
        told = {name: getattr(job, name) for name in ("id", "kind", "queue", "payload", "attempt", "lease")}
        expires_at = "1999-12-31T23:59:59Z"  # the farm's clock is not the worker's
        return {**told, "lease_expires_at": expires_at, "heartbeat_every": self.heartbeat_every}

    def _held(self, body: dict[str, Any]) -> StoredJob:
        job = self.jobs[body["job"]]
        if job.status != "in_progress" or job.lease != body["lease"]:
            raise SayNo(409, "lease_lost")
        return job

    def _heartbeat(self, body: dict[str, Any]) -> dict[str, Any]:
        job = self._held(body)
        job.beats += 1
        if "progress" in body or "detail" in body:
            job.reports.append({name: body.get(name) for name in ("progress", "detail")})
        return {"lease_expires_at": "1999-12-31T23:59:59Z"}

    def _output(self, body: dict[str, Any]) -> dict[str, Any]:
        job = self._held(body)
        if body["seq"] > len(job.pieces):
            raise SayNo(409, "output_gap", next_seq=len(job.pieces))
        if body["seq"] == len(job.pieces):
            job.pieces.append(body["text"])
        return {"next_seq": len(job.pieces)}

    def _file(self, body: dict[str, Any]) -> dict[str, Any]:
        self._held(body).files[body["name"]] = body["data"]
        return {}

    def _finish(self, body: dict[str, Any]) -> dict[str, Any]:
        job = self._held(body)
        job.status = body["outcome"]
        job.result, job.error = body.get("result"), body.get("error", "")
        job.retryable = body.get("retryable")
        job.finishes += 1
        following = self._claim({"limit": body.get("claim_next", 0)})
        return {"status": job.status, **following}

    def _release(self, body: dict[str, Any]) -> dict[str, Any]:
        self._held(body).status = "pending"
        return {}

    # The two ways to speak

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._websocket(scope, receive, send)

    def _is_known(self, scope: Scope) -> bool:
        return self.key_is_good and dict(scope["headers"]).get(b"authorization") == f"Bearer {KEY}".encode()

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        status, answer = await self._http_answer(scope, body)
        if answer is None:
            return  # no answer at all
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(answer).encode()})

    async def _http_answer(self, scope: Scope, raw: bytes) -> tuple[int, dict[str, Any] | None]:
        if not self._is_known(scope):
            return 401, {"error": "unauthorized", "message": "No."}
        verb, body = _understood(scope, raw)
        self.ways["http"] += 1
        try:
            answer = self.answer(verb, body)
            deadline = time.monotonic() + body.get("wait", 0)
            while (
                verb == "claim" and not (answer["jobs"] or self.never_waits) and time.monotonic() < deadline
            ):
                await asyncio.sleep(0.02)
                answer = self._claim(body)
        except SayNo as no:
            return no.status, no.body
        return 200, None if self._loses(verb) else answer

    def _loses(self, verb: str) -> bool:
        if self.lose_answers[verb] < 1:
            return False
        self.lose_answers[verb] -= 1
        return True

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        if not self.has_socket or not self._is_known(scope):
            await send({"type": "websocket.close", "code": 4401})  # before accepting: an HTTP 403
            return
        await send({"type": "websocket.accept"})
        queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        marks: set[str] = set()
        self.sockets[id(queue)] = (queue, marks)
        reader = asyncio.create_task(self._read(receive, queue, marks))
        try:
            while "close" not in (message := await queue.get()):
                await send({"type": "websocket.send", "text": json.dumps(message)})
            with contextlib.suppress(RuntimeError):  # the worker closed first
                await send({"type": "websocket.close", "code": message["close"]})
        finally:
            del self.sockets[id(queue)]
            reader.cancel()

    async def _read(self, receive: Receive, queue: asyncio.Queue[dict[str, Any]], marks: set[str]) -> None:
        while (message := await receive())["type"] == "websocket.receive":
            body = json.loads(message["text"])
            verb, ref = body["type"], body["ref"]
            self.ways["ws"] += 1
            try:
                answer = self.answer(verb, body)
            except SayNo as no:
                queue.put_nowait({"type": "error", "ref": ref, "status": no.status, **no.body})
                continue
            if verb == "claim":
                (marks.discard if len(answer["jobs"]) == body["limit"] else marks.add)("waiting")
            answer = {"type": verb, "ref": ref, **answer}
            queue.put_nowait({"close": 1012} if self._loses(verb) else answer)
        queue.put_nowait({"close": 1000})

    def served_by(self, door: Door) -> FarmServer:
        """Take the place behind this door."""
        door.app, self.url, self._loop = self, door.url, door.loop
        return self


class Door:
    """An address that one app after the other can live at: a server takes longer to stop than a test."""

    def __init__(self) -> None:
        self.app: Any = None
        self.url = ""
        self.loop: asyncio.AbstractEventLoop | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)

    @contextmanager
    def open(self) -> Iterator[Door]:
        """Serve on a free port of this machine, from a thread of its own."""
        with serving(self) as (self.url, self.loop):
            yield self


def _understood(scope: Scope, raw: bytes) -> tuple[str, dict[str, Any]]:
    parts = scope["raw_path"].decode().removeprefix("/api/v1/worker/").split("/")
    if scope["method"] == "PUT":
        lease = parse_qs(scope["query_string"].decode())["lease"][0]
        return "file", {"job": int(parts[1]), "name": unquote(parts[3]), "lease": lease, "data": raw}
    body = json.loads(raw)
    if parts[0] == "jobs":
        body["job"] = int(parts[1])
    return parts[-1], body


@contextmanager
def serving(app: Any, *, port: int = 0) -> Iterator[tuple[str, asyncio.AbstractEventLoop]]:
    """An ASGI app on a free port of 127.0.0.1, in a thread; yields its address and its loop."""
    config = uvicorn.Config(
        app, host="127.0.0.1", port=port, lifespan="off", log_level="critical", ws="websockets-sansio"
    )
    server = uvicorn.Server(config)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=lambda: loop.run_until_complete(_serve(server)), daemon=True)
    thread.start()
    deadline = time.monotonic() + 10
    while not server.started:
        assert time.monotonic() < deadline, "the server did not start"
        time.sleep(0.01)
    address = server.servers[0].sockets[0].getsockname()
    try:
        yield f"http://127.0.0.1:{address[1]}", loop
    finally:
        server.should_exit = server.force_exit = True
        thread.join(10)
        loop.close()


async def _serve(server: uvicorn.Server) -> None:
    await server.serve()
    waiting = asyncio.all_tasks() - {asyncio.current_task()}
    for task in waiting:  # claims of workers that have long gone
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def until(condition: Callable[[], object], *, timeout_s: float = 10) -> None:
    """Wait until the condition holds; fails the test when it does not within the time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        await asyncio.sleep(0.01)


@asynccontextmanager
async def working(worker: Worker) -> AsyncIterator[Worker]:
    """The worker runs inside this block, and is stopped at its end."""
    task = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        worker.stop()
        worker.stop()
        await asyncio.wait_for(task, 10)
