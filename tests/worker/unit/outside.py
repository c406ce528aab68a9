"""The outside world of the worker: a small farm that speaks the worker protocol, and can misbehave.

It is not jobfarm: it keeps its jobs in memory, so that these tests need no database and can lose
answers, cut sockets and refuse calls at will. The same worker meets the real server in
tests/worker/integration.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import parse_qs, unquote

import uvicorn

from jobfarm_worker import Worker
from tests.worker.unit.stored import Jobs, SayNo, StoredJob

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
KEY = "test-key"
__all__ = ["KEY", "Door", "FarmServer", "Least", "SayNo", "StoredJob", "serving", "until", "working"]


class FarmServer(Jobs):
    """Jobs in memory, the two ways to speak of them, and the faults that a test asks for."""

    def __init__(self) -> None:
        super().__init__()
        self.ways: Counter[str] = Counter()  # calls by "ws" or "http"
        self.has_socket = True
        self.key_is_good = True
        self.lets_in_first = False  # a wrong key is shown out after the socket was opened, as the real farm does
        self.never_waits = False
        self.lose_answers: Counter[str] = Counter()  # verb: so many answers are lost after they took effect
        self.hold: set[str] = set()  # verbs that take effect, and whose answers wait until they are taken out
        self.answered: Counter[str] = Counter()  # verb: answers that left late
        self.sockets: dict[int, asyncio.Queue[dict[str, Any]]] = {}
        self.opened = 0  # sockets so far
        self._late: set[asyncio.Task[None]] = set()
        self.base = ""  # the path below which this farm lives
        self.url = ""
        self._loop: asyncio.AbstractEventLoop | None = None

    # What tests do

    def submit(self, kind: str, payload: Any = None, *, queue: str = "default", **fields: Any) -> StoredJob:
        with self._lock:
            job = StoredJob(id=len(self.jobs) + 1, kind=kind, payload=payload, queue=queue, **fields)
            self.jobs[job.id] = job
        return job

    def cancel(self, job: StoredJob) -> None:
        with self._lock:
            job.status = "canceled"
        self.push_stop(job)

    def push_stop(self, job: StoredJob, **fields: Any) -> None:
        """Tell whoever has it to stop."""
        self._push({"type": "stop", "job": job.id, **fields})

    def announce(self) -> None:
        """Say that there is work, whether or not there is."""
        self._push({"type": "work", "available": True})

    def share(self) -> None:
        """Say that another worker waits for work."""
        self._push({"type": "share"})

    def drain(self) -> None:
        """Give nothing more, and say so."""
        self.is_drained = True
        self._push({"type": "drained", "drained": True})

    def cut_sockets(self, code: int = 1012) -> None:
        self._push({"close": code})

    def _push(self, message: dict[str, Any]) -> None:
        def deliver() -> None:
            for queue in self.sockets.values():
                queue.put_nowait(message)

        if self._loop is not None:
            self._loop.call_soon_threadsafe(deliver)

    # The two ways to speak

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not scope["path"].startswith(f"{self.base}/"):
            return  # sent by the worker of an earlier test, which has gone: it took a job of this one
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
        self.answered[scope["raw_path"].decode().rpartition("/")[2]] += 1

    async def _http_answer(self, scope: Scope, raw: bytes) -> tuple[int, dict[str, Any] | None]:
        if not self._is_known(scope):
            return 401, {"error": "unauthorized", "message": "No."}
        verb, body = _understood(scope, raw, base=self.base)
        self.ways["http"] += 1
        try:
            answer = await self._waited(verb, body)
        except SayNo as no:
            await self._held_back(verb)
            return no.status, no.body
        await self._held_back(verb)
        return 200, None if self._loses(verb) else answer

    async def _waited(
        self, verb: str, body: dict[str, Any], *, while_there: Callable[[], bool] = lambda: True
    ) -> dict[str, Any]:
        """The answer to a call; to a claim that may wait, with the first job that comes meanwhile."""
        answer = self.answer(verb, body)
        deadline = time.monotonic() + (body.get("wait", 0) if verb == "claim" else 0)
        while verb == "claim" and not (answer["jobs"] or self.never_waits) and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
            if not while_there():
                break
            answer = self._claim(body)
        return answer

    async def _held_back(self, verb: str) -> None:
        while verb in self.hold:  # noqa: ASYNC110 (taken out by another thread)
            await asyncio.sleep(0.01)

    def _loses(self, verb: str) -> bool:
        if self.lose_answers[verb] < 1:
            return False
        self.lose_answers[verb] -= 1
        return True

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        if not self.has_socket or not (self._is_known(scope) or self.lets_in_first):
            await send({"type": "websocket.close", "code": 4401})  # before accepting: an HTTP 403
            return
        await send({"type": "websocket.accept"})
        if not self._is_known(scope):
            await send({"type": "websocket.close", "code": 4401})
            return
        self.opened += 1
        queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.sockets[id(queue)] = queue
        reader = asyncio.create_task(self._read(receive, queue))
        try:
            while "close" not in (message := await queue.get()):
                await send({"type": "websocket.send", "text": json.dumps(message)})
            with contextlib.suppress(RuntimeError):  # the worker closed first
                await send({"type": "websocket.close", "code": message["close"]})
        finally:
            del self.sockets[id(queue)]
            reader.cancel()

    async def _read(self, receive: Receive, queue: asyncio.Queue[dict[str, Any]]) -> None:
        while (message := await receive())["type"] == "websocket.receive":
            body = json.loads(message["text"])
            self.ways["ws"] += 1
            answering = asyncio.create_task(self._answer_to(body, queue))
            self._late.add(answering)
        queue.put_nowait({"close": 1000})

    async def _answer_to(self, body: dict[str, Any], queue: asyncio.Queue[dict[str, Any]]) -> None:
        verb, ref = body["type"], body["ref"]
        try:
            waited = await self._waited(verb, body, while_there=lambda: id(queue) in self.sockets)
            answer = {"type": verb, "ref": ref, **waited}
        except SayNo as no:
            answer = {**no.body, "type": "error", "ref": ref, "status": no.status}
        else:
            answer = {"close": 1012} if self._loses(verb) else answer
        was_held = verb in self.hold
        await self._held_back(verb)
        queue.put_nowait(answer)
        self.answered[verb] += was_held

    def served_by(self, door: Door) -> FarmServer:
        """Take the place behind this door, below a path that no farm had before."""
        self.base = f"/{next(door.numbers)}"
        door.app, self.url, self._loop = self, door.url + self.base, door.loop
        return self


class Door:
    """An address that one app after the other can live at: a server takes longer to stop than a test."""

    def __init__(self) -> None:
        self.app: Any = None
        self.numbers = itertools.count(1)
        self.url = ""
        self.loop: asyncio.AbstractEventLoop | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)

    @contextmanager
    def open(self) -> Iterator[Door]:
        """Serve on a free port of this machine, from a thread of its own."""
        with serving(self) as (self.url, self.loop):
            yield self


def _understood(scope: Scope, raw: bytes, *, base: str) -> tuple[str, dict[str, Any]]:
    parts = scope["raw_path"].decode().removeprefix(f"{base}/api/v1/worker/").split("/")
    if scope["method"] == "PUT":
        lease = parse_qs(scope["query_string"].decode())["lease"][0]
        return "file", {"job": int(parts[1]), "name": unquote(parts[3]), "lease": lease, "data": raw}
    body = json.loads(raw)
    if parts[0] == "jobs":
        body["job"] = int(parts[1])
    return f"{parts[0]}_many" if parts[0] in {"finish", "heartbeat"} else parts[-1], body


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


class Least(random.Random):
    """Dice that always show little: a pause between two claims came to 9.7 s."""

    def uniform(self, a: float, b: float) -> float:
        return a + (b - a) / 10


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
