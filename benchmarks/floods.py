"""Floods: what others notice of fifty page sockets that ask without end, and of webhook bodies that idle or are large.

.venv/bin/python -m benchmarks.floods [--quick]

One process serves. GET /health/live and the log-in page take turns on one connection while fifty sockets of nobody,
from a process of their own, each repeat one thing as fast as they are answered, and come back when they are closed.
Then a signed delivery of GitHub's, one after the other, while others hold bodies that they announced and do not send,
and while bodies of 20 MB come one after the other.
"""

import asyncio
import itertools
import json
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from statistics import quantiles
from typing import Final

from benchmarks import own, results
from benchmarks.flooding import WAYS
from benchmarks.options import Options, parse, scaled_s
from benchmarks.peers import ROOT
from benchmarks.results import Table
from benchmarks.web import server
from webhooks.domain.deliveries import Source
from webhooks.operations import secrets
from webhooks.sources import configs

SOCKETS, SECONDS, REST_S, BEGUN_S = 50, 8.0, 0.005, scaled_s(1.0, least_s=0.3)
CALM: Final = "no flood"
PAGES: Final[Mapping[str, str]] = {"/health/live": "/health/live", "The log-in page": "/accounts/login/"}
WORST: Final = "watch"
IDLE: Final = (12, 200)
LARGE_BYTES: Final = 20 << 20
LARGE: Final = "bodies of 20 MB, one after the other"


def _get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()


GETS: Final = {page: partial(_get, path) for page, path in PAGES.items()}
Times = Mapping[str, list[float]]
Load = Callable[[int], AbstractAsyncContextManager[None]]
_numbers = itertools.count(1)


def main(options: Options) -> list[Table]:
    """Measure; a table for p50 and p99 of each page, and of a delivery."""
    seconds = options.seconds(SECONDS)
    with own.database() as name:
        _, secret = secrets.add(Source.GITHUB)
        return [*_of_pages(name, options.rounds, seconds), *_of_deliveries(name, secret, options.rounds, seconds)]


def _of_pages(name: str, rounds: int, seconds: float) -> Iterator[Table]:
    tables = {
        (page, share): _table(f"{page} beside {SOCKETS} page sockets, {share} (ms)", WORST, mark=mark)
        for page in PAGES
        for share, mark in (("p50", 2.0), ("p99", None))
    }
    for _ in range(rounds):
        with _served({"JOBFARM_TEST_DATABASE": name}) as port:
            for way in (CALM, *WAYS):
                with _flood(port, way):
                    times = asyncio.run(_requests(port, GETS, seconds))
                for page, took in times.items():
                    tables[page, "p50"].add(way, _at(took, 50))
                    tables[page, "p99"].add(way, _at(took, 99))
    yield from tables.values()


def _of_deliveries(name: str, secret: str, rounds: int, seconds: float) -> Iterator[Table]:
    loads: dict[str, Load] = {CALM: _nothing, LARGE: partial(_large, secret)}
    loads |= {f"{number} bodies of 25 MB announced, one byte sent": partial(_idle, number) for number in IDLE}
    tables = [_table(f"A signed delivery beside bodies, {share} (ms)", LARGE) for share in ("p50", "p99")]
    environment = {"JOBFARM_TEST_DATABASE": name, "WEBHOOKS_PER_MINUTE": "100000000"}
    for _ in range(rounds):
        with _served(environment) as port:
            for what, load in loads.items():
                [took] = asyncio.run(_beside(load, port, partial(_delivery, secret), seconds)).values()
                tables[0].add(what, _at(took, 50))
                tables[1].add(what, _at(took, 99))
    yield from tables


def _table(what: str, ours: str, *, mark: float | None = None) -> Table:
    return Table(what=what, floor=CALM, ours=ours, mark=mark, is_less_better=True)


@contextmanager
def _served(environment: Mapping[str, str]) -> Iterator[int]:
    """A server that has answered for a moment: its threads and connections are there."""
    with server("jobfarm.asgi:application", environment) as port:
        asyncio.run(_requests(port, GETS, 0))
        yield port


@contextmanager
def _flood(port: int, way: str) -> Iterator[None]:
    """The flood in a process of its own; it has begun when the block begins."""
    if way == CALM:
        yield
        return
    command = [sys.executable, "-m", "benchmarks.flooding", str(port), way, str(SOCKETS)]
    process = subprocess.Popen(command, cwd=ROOT)
    time.sleep(BEGUN_S)
    try:
        yield
    finally:
        assert process.poll() is None, "the flood ended by itself"
        process.terminate()
        process.wait(30)


async def _beside(load: Load, port: int, ask: Callable[[], bytes], seconds: float) -> Times:
    async with load(port):
        await asyncio.sleep(BEGUN_S)
        return await _requests(port, {"delivery": ask}, seconds)


async def _requests(port: int, asks: Mapping[str, Callable[[], bytes]], seconds: float) -> Times:
    """Milliseconds from a request to its answer, of each in turn, on one connection. The first second is left out,
    and two of each are waited for: percentiles need them."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    times: dict[str, list[float]] = {name: [] for name in asks}
    began = time.perf_counter()
    until = began + BEGUN_S + seconds
    while time.perf_counter() < until or min(map(len, times.values())) < 2:
        for name, make in asks.items():
            request, since = make(), time.perf_counter()
            writer.write(request)
            await _answered(reader)
            if since > began + BEGUN_S:
                times[name].append((time.perf_counter() - since) * 1000)
            await asyncio.sleep(REST_S)
    writer.close()
    return times


async def _answered(reader: asyncio.StreamReader) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    if b" 200 " not in head[:15]:
        raise RuntimeError(head)
    lines = head.lower().split(b"\r\n")
    await reader.readexactly(next(int(line[15:]) for line in lines if line.startswith(b"content-length:")))


def _delivery(secret: str, *, padding: int = 0) -> bytes:
    """A request of GitHub's, with a body of its own."""
    number = next(_numbers)
    commits = [{"id": "0" * 40, "message": "m" * 900}] * (padding // 1000)
    body = json.dumps({"zen": "Anything added dilutes everything else.", "n": number, "commits": commits}).encode()
    signed = configs.CONFIGS[Source.GITHUB].sign(
        body,
        secret=secret,
        event_type="test_event",
        delivery_id=f"bench-{number}",
        now=datetime.now(UTC),  # noqa: TID251 (a sender reads its clock)
    )
    return _head(len(body), signed) + body


def _head(length: int, signed: Mapping[str, str]) -> bytes:
    headers = {"Host": "127.0.0.1", "Content-Type": "application/json", "Content-Length": length, **signed}
    lines = ["POST /api/webhooks/github HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode()


@asynccontextmanager
async def _nothing(_: int) -> AsyncIterator[None]:
    yield


@asynccontextmanager
async def _idle(number: int, port: int) -> AsyncIterator[None]:
    """So many connections that announce 25 MB and send one byte; given up by the server, they come again."""
    signed = {"X-GitHub-Event": "push", "X-GitHub-Delivery": "idle", "X-Hub-Signature-256": f"sha256={'0' * 64}"}

    async def one() -> None:
        while True:
            with suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(_head(25_000_000, signed) + b"{")
                await reader.read(1 << 16)
                writer.close()

    async with _running([one() for _ in range(number)]):
        yield


@asynccontextmanager
async def _large(secret: str, port: int) -> AsyncIterator[None]:
    requests = [_delivery(secret, padding=LARGE_BYTES) for _ in range(3)]

    def send(request: bytes) -> None:
        with socket.create_connection(("127.0.0.1", port), timeout=60) as opened:
            opened.sendall(request)
            opened.recv(1)

    async def one() -> None:  # in a thread: this loop has to note when answers come
        for request in itertools.cycle(requests):
            await asyncio.to_thread(send, request)

    async with _running([one()]):
        yield


@asynccontextmanager
async def _running(loads: list[Coroutine[object, object, None]]) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(load) for load in loads]
    try:
        yield
    finally:
        assert not any(task.done() for task in tasks), "a load ended by itself"
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _at(took: list[float], share: int) -> float:
    return quantiles(took, n=100)[share - 1]


if __name__ == "__main__":
    results.show(main(parse(__doc__)))
