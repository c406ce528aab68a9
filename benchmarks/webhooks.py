"""How many webhooks a second one process takes, beside a bare Django view that inserts the same row.

    .venv/bin/python -m benchmarks.webhooks            # on a database of its own, dropped afterwards

Both are served by one uvicorn process of the same kind, and get the same requests: a push of GitHub with a body of
its own each, over connections that stay open. The rounds alternate, so that both see the machine in the same moods.
Then the inbox gets half of what it took, at even intervals whether or not it keeps up, and each answer's time counts
from when its request was due. The bare view checks nothing, schedules nothing and has no middleware.
"""

import asyncio
import itertools
import json
import statistics
import sys
import time
from datetime import UTC, datetime

from benchmarks.options import SHARE, scaled, scaled_s
from benchmarks.own import database
from benchmarks.peers import ROOT
from benchmarks.web import server
from webhooks.domain.deliveries import Source
from webhooks.models import Delivery
from webhooks.operations import secrets
from webhooks.sources import configs

PAYLOAD = ROOT / "tests/data/webhooks/payloads/github/push.2.json"
CLIENTS = scaled(32, least=4)
WARM_UP_S, ROUND_S = scaled_s(1, least_s=0.2), scaled_s(5)
ROUNDS = scaled(3)
HALF_LOAD_S = scaled_s(10)
MOST_A_SECOND = 2500  # made ahead, so that making them is not measured
GOAL_RATIO, GOAL_P99_MS = 0.7, 50.0

_START = time.time() - time.monotonic()  # noqa: TID251 (signatures bear the time)
_numbers = itertools.count(1)


def main() -> None:
    """Measure, and print one line for each number."""
    with database() as name:
        _, secret = secrets.add(Source.GITHUB)
        given = {"JOBFARM_TEST_DATABASE": name, "WEBHOOKS_PER_MINUTE": "100000000"}
        with server("jobfarm.asgi:application", given) as inbox, server("benchmarks.bare:application", given) as bare:
            print(f"{PAYLOAD.name}, {PAYLOAD.stat().st_size} bytes, {CLIENTS} connections, one process each")
            rates = _compare({"inbox": inbox, "bare view": bare}, secret)
            ratio = rates["inbox"] / rates["bare view"]
            print(f"ratio {ratio:.2f} (goal {GOAL_RATIO})")
            half = rates["inbox"] / 2
            p50, p99 = asyncio.run(_half_load(inbox, secret, rate=half))
            goal = f"goal {GOAL_P99_MS:.0f}"
            print(f"inbox at half load, {half:.0f}/s: p50 {p50:.1f} ms, p99 {p99:.1f} ms ({goal})")
    sys.exit(SHARE == 1 and (ratio < GOAL_RATIO or p99 > GOAL_P99_MS))


def _compare(ports: dict[str, int], secret: str) -> dict[str, float]:
    """Requests a second of each: the median round."""
    for port in ports.values():
        asyncio.run(_full_load(port, secret, seconds=WARM_UP_S))  # connections, caches and plans are made
    seen: dict[str, list[tuple[float, list[float]]]] = {name: [] for name in ports}
    for _ in range(ROUNDS):
        for name, port in ports.items():
            seen[name].append(asyncio.run(_full_load(port, secret, seconds=ROUND_S)))
            Delivery.objects.all()._raw_delete("default")  # noqa: SLF001 (no cascade to look for, and none wanted)
    rates = {}
    for name, rounds in seen.items():
        rates[name] = statistics.median(rate for rate, _ in rounds)
        took = sorted(itertools.chain.from_iterable(times for _, times in rounds))
        print(f"{name}: {rates[name]:.0f}/s, p50 {_at(took, 0.5):.1f} ms, p99 {_at(took, 0.99):.1f} ms")
    return rates


async def _full_load(port: int, secret: str, *, seconds: float) -> tuple[float, list[float]]:
    """Every connection sends as soon as it was answered. Requests a second, and how many milliseconds each took."""
    took: list[float] = []
    requests = [_request(secret) for _ in range(int(MOST_A_SECOND * seconds))]
    until = time.perf_counter() + seconds

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while requests and time.perf_counter() < until:
            began = time.perf_counter()
            await _ask(reader, writer, requests.pop())
            took.append((time.perf_counter() - began) * 1000)
        writer.close()

    began = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(CLIENTS)))
    return len(took) / (time.perf_counter() - began), took


async def _half_load(port: int, secret: str, *, rate: float) -> tuple[float, float]:
    """p50 and p99 in milliseconds, from when each request was due."""
    took: list[float] = []
    due: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while True:
            due_at, request = await due.get()
            await _ask(reader, writer, request)
            took.append((time.perf_counter() - due_at) * 1000)
            due.task_done()

    requests = [_request(secret) for _ in range(int(rate * HALF_LOAD_S))]
    clients = [asyncio.create_task(one()) for _ in range(CLIENTS)]
    began = time.perf_counter()
    for number, request in enumerate(requests):
        due_at = began + number / rate
        if (wait := due_at - time.perf_counter()) > 0:
            await asyncio.sleep(wait)
        due.put_nowait((due_at, request))
    await due.join()
    for client in clients:
        client.cancel()
    took.sort()
    return _at(took, 0.5), _at(took, 0.99)


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> None:
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    assert b" 200 " in head[:15], head
    length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    await reader.readexactly(length)


def _request(secret: str) -> bytes:
    number = next(_numbers)
    body = b'{"n":%d,' % number + _body()[1:]
    signed = configs.CONFIGS[Source.GITHUB].sign(
        body,
        secret=secret,
        event_type="push",
        delivery_id=f"bench-{number}",
        now=datetime.fromtimestamp(int(_START + time.monotonic()), UTC),
    )
    headers = {"Host": "127.0.0.1", "Content-Type": "application/json", "Content-Length": str(len(body)), **signed}
    head = "\r\n".join(["POST /api/webhooks/github HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items())])
    return head.encode() + b"\r\n\r\n" + body


def _body(kept: list[bytes] = []) -> bytes:  # noqa: B006 (read once)
    if not kept:
        kept.append(json.dumps(json.loads(PAYLOAD.read_bytes()), separators=(",", ":")).encode())
    return kept[0]


def _at(ordered: list[float], share: float) -> float:
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


if __name__ == "__main__":
    main()
