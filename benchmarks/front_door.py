"""Streamed chats: how much later their tokens come through the farm than from the model server itself.

.venv/bin/python -m benchmarks.front_door [--quick] [--rounds 3]

A hundred streams are open all the time, each with four tokens a second; one that ends is followed by the next. The
server, the worker, the model server, the database and the one client share the machine. Then 50 calls with a picture
of 20 MB each come at once, and a thousand calls wait.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import Final

import httpx
from django.contrib.auth import get_user_model
from django.db import connection

from benchmarks import own, results
from benchmarks.model_server import GAP_S, MODEL, TOKENS
from benchmarks.options import Options, parse, scaled, scaled_s
from benchmarks.peers import ROOT
from benchmarks.results import Table
from benchmarks.web import memory_mb, process_of, server
from jobs import operations as jobs
from postgres import connections

STREAMS: Final = scaled(int(os.environ.get("BENCH_STREAMS", "100")), least=4)
LASTS_S: Final = TOKENS * GAP_S  # one stream
# How late a token is, and, as the benchmarks of model servers have it (TPOT), how far apart those of an answer are.
MARKS_MS: Final = {"First token": 8.0, "Later tokens": 2.0, "Time per later token": 2.0}
CPU_MS: Final = 0.6  # of a token, in the web process
LARGE: Final = scaled(50, least=2)
LARGE_BYTES: Final = scaled(20_000_000, least=1_000_000)
LARGE_MB: Final = 200
CROWD: Final = scaled(1000, least=10)
DIRECT, OURS = "the model server itself", "jobfarm"
_BODY: Final = json.dumps({"model": MODEL, "stream": True, "messages": [{"role": "user", "content": "When?"}]})


@dataclass(slots=True)
class Delays:
    """Milliseconds: from a request to its first token; of each later token from when it was sent; of each answer from
    one token to the next, on average."""

    first: list[float] = field(default_factory=list)
    later: list[float] = field(default_factory=list)
    apart: list[float] = field(default_factory=list)


def main(options: Options) -> list[Table]:
    """Measure; seven tables."""
    tables = {
        name: Table(what=f"{name} with {STREAMS} streams open (ms, median)", is_less_better=True) for name in MARKS_MS
    }
    tails = Table(what=f"Later tokens with {STREAMS} streams open (ms, p95)", is_less_better=True)
    cost = Table(what="Processor time of a token (ms)", is_less_better=True)
    large = Table(what=f"{LARGE} calls of {LARGE_BYTES // 1_000_000} MB at once", is_less_better=True)
    crowd = Table(what=f"{CROWD:,} calls that wait", is_less_better=True)
    with own.database() as name, _farm(name) as (port, model, token, worker):
        for number in range(options.rounds):
            for who, at in ((DIRECT, model), (OURS, port)):
                processes = {who: process_of(at), **({"jobfarm's worker": worker} if who == OURS else {})}
                before = {name: _cpu_s(pid) for name, pid in processes.items()}
                delays, tokens = asyncio.run(_measured(at, token, turns=1 if options.quick else 2))
                tables["First token"].add(who, median(delays.first))
                tables["Later tokens"].add(who, median(delays.later))
                tables["Time per later token"].add(who, median(delays.apart))
                tails.add(who, quantiles(delays.later, n=20)[-1])
                for process, pid in processes.items():
                    spent = (_cpu_s(pid) - before[process]) * 1000 / tokens
                    cost.add(process, spent)
                    options.say(f"{process}: {spent:.2f} ms of processor a token")
                options.say(
                    f"{number} {who}: {len(delays.first)} firsts, {median(delays.first):.2f} ms first,"
                    f" {median(delays.later):.2f} ms later"
                )
        for what, value in asyncio.run(_large(port, token)).items():
            large.add(what, value)
        for what, value in asyncio.run(_waiting(port, token)).items():
            crowd.add(what, value)
    for name, table in tables.items():
        added = median(ours - direct for ours, direct in zip(table.values[OURS], table.values[DIRECT], strict=True))
        _judge(table, "The farm adds", added, most=MARKS_MS[name], unit="ms")
    _judge(cost, "The web process takes", median(cost.values[OURS]), most=CPU_MS, unit="ms")
    _judge(large, "The web process grows by", max(large.values["MB more"]), most=LARGE_MB, unit="MB")
    return [*tables.values(), tails, cost, large, crowd]


def _judge(table: Table, what: str, value: float, *, most: float, unit: str) -> None:
    word = "reached" if value <= most else "**missed**"
    table.notes.append(f"{what} {value:.3g} {unit}; mark: at most {most:g} {unit}: {word}.")


@contextmanager
def _farm(database: str) -> Iterator[tuple[int, int, str, int]]:
    """A farm whose one worker has the model: the ports of the farm and of the model server, a token, and the
    worker's process."""
    from accounts import operations as accounts  # noqa: PLC0415 (`own` sets Django up first)

    jobs.sync()
    owner = get_user_model().objects.create_user("bench", password=None)
    _, token = accounts.create_token(owner, name="bench", scopes=["submit"])
    _, key = jobs.create_worker("bench", queues=["openai"])
    environment = {"JOBFARM_TEST_DATABASE": database, "JOBFARM_SUBMIT_BURST": "1000000"}
    with (
        server("jobfarm.asgi:application", environment) as port,
        server("benchmarks.model_server:application", {}) as model,
    ):
        command = [sys.executable, "-m", "jobfarm_worker", "--url", f"http://127.0.0.1:{port}", "--handler", "openai"]
        keys = {"JOBFARM_KEY": key, "JOBFARM_LLM_URL": f"http://127.0.0.1:{model}/v1"}
        worker = subprocess.Popen(
            [*command, "--concurrency", str(STREAMS + 10)], cwd=ROOT, env={**os.environ, **keys},
            stdout=subprocess.DEVNULL,  # a line for each job
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            while MODEL not in jobs.offered_models(owner, away_s=0):
                if worker.poll() is not None:
                    raise RuntimeError("the worker ended")
                time.sleep(0.1)
            yield port, model, token, worker.pid
        finally:
            worker.terminate()
            worker.wait(30)


async def _measured(port: int, token: str, *, turns: int) -> tuple[Delays, int]:
    """What came once all streams were open (each begins at a moment of its own), and how many tokens came in all."""
    measured, others = Delays(), Delays()

    async def one(number: int) -> None:
        await asyncio.sleep(LASTS_S * number / STREAMS)
        for turn in range(turns + 2):  # while the first and the last run, not all others do
            await _stream(port, token, measured if 0 < turn <= turns else others)

    await asyncio.gather(*map(one, range(STREAMS)))
    return measured, sum(len(each) for of in (measured, others) for each in (of.first, of.later))


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def _opened(port: int, token: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
    head += f"Content-Type: application/json\r\nConnection: close\r\nContent-Length: {len(_BODY)}\r\n\r\n"
    writer.write((head + _BODY).encode())
    return reader, writer


async def _stream(port: int, token: str, delays: Delays) -> None:
    began_s = time.monotonic()
    reader, writer = await _opened(port, token)
    count = first_ns = last_ns = 0
    while line := await reader.readline():
        if not line.startswith(b"data: {"):
            continue
        now_ns, chunk = time.monotonic_ns(), json.loads(line[6:])
        if "error" in chunk:
            raise RuntimeError(chunk)
        content = chunk["choices"][0]["delta"].get("content")
        if content and count == 0:
            first_ns = now_ns
            delays.first.append((now_ns / 1e9 - began_s) * 1000)
        elif content:
            last_ns = now_ns
            delays.later.append((now_ns - int(content)) / 1e6)
        count += 1
    writer.close()
    if count != TOKENS + 1:
        raise RuntimeError(f"{count} chunks")
    delays.apart.append((last_ns - first_ns) / 1e6 / (TOKENS - 1))


async def _large(port: int, token: str) -> dict[str, float]:
    """What calls with large pictures cost, each with one of its own: seconds until all have their answers, and the most
    memory of the server meanwhile."""
    before, most, began_s = memory_mb(port), 0.0, time.monotonic()
    async with httpx.AsyncClient(
        base_url=f"http://127.0.0.1:{port}/v1", headers={"Authorization": f"Bearer {token}"}, timeout=600
    ) as client:
        calls = [asyncio.create_task(_large_call(client, number)) for number in range(LARGE)]
        while not all(call.done() for call in calls):
            most = max(most, memory_mb(port) - before)
            await asyncio.wait(calls, timeout=0.02)
        await asyncio.gather(*calls)
    return {"MB more": most, "seconds": time.monotonic() - began_s}


async def _large_call(client: httpx.AsyncClient, number: int) -> None:
    head = f'{{"model": "{MODEL}", "stream": true, "messages": [{{"role": "user", "content": "data:{number},'.encode()
    piece, end = b"iVBO" * 16_000, b'"}]}'

    async def body() -> AsyncIterator[bytes]:
        yield head
        for _ in range(LARGE_BYTES // len(piece)):
            yield piece
        yield end

    async with client.stream("POST", "/chat/completions", content=body()) as answer:
        async for _ in answer.aiter_bytes():
            pass
        if answer.status_code != 200:
            raise RuntimeError(f"a large call was answered {answer.status_code}")


async def _waiting(port: int, token: str) -> dict[str, float]:
    """What calls cost that wait in a paused queue: threads, connections of the database, memory of the server."""
    await asyncio.to_thread(_pause)
    before = await asyncio.to_thread(_held, port)
    opened = [await _opened(port, token) for _ in range(CROWD)]
    while await asyncio.to_thread(_count) < CROWD:  # noqa: ASYNC110 (what is counted is in the database)
        await asyncio.sleep(0.2)
    await asyncio.sleep(scaled_s(2.0, least_s=0.2))  # what a thread took is given back
    after = await asyncio.to_thread(_held, port)
    for _, writer in opened:
        writer.close()  # which cancels its job
    while await asyncio.to_thread(_count):  # noqa: ASYNC110 (as above)
        await asyncio.sleep(0.2)
    return {f"{what} more": after[what] - before[what] for what in after}


def _pause() -> None:
    with connections.released():
        jobs.pause(jobs.queue_of_model(MODEL), by=None)


def _count() -> int:
    with connections.released(), connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM jobs_live WHERE lease_secret IS NULL")
        return int(cursor.fetchone()[0])


def _held(port: int) -> dict[str, float]:
    with connections.released(), connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
        sessions = float(cursor.fetchone()[0])
    threads = float(len(list(Path(f"/proc/{process_of(port)}/task").iterdir())))
    return {"threads": threads, "connections": sessions, "MB": memory_mb(port)}


if __name__ == "__main__":
    results.show(main(parse(__doc__)))
