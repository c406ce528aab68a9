"""How late events arrive at receivers that are well, beside receivers that hang.

    .venv/bin/python -m benchmarks.outbox            # on a database of its own, dropped afterwards

10,000 events go to 50 endpoints, 200 to each, at an even rate; five of the endpoints take a request and say nothing.
Two janitors send. The time of a message is from its record to its arrival, by one machine's clock; of the hanging
endpoints none counts. Before and after that: what one `finish` costs without an endpoint, and with 50 that ask.
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection

from benchmarks.options import SHARE, scaled, scaled_s
from benchmarks.own import database
from benchmarks.peers import ROOT
from jobs import operations as jobs
from jobs.models import Process
from outbox import operations
from outbox.models import Endpoint, Message
from outbox.operations import endpoints

EVENTS = scaled(10_000, least=100)
RATE = float(os.environ.get("BENCH_RATE", "200"))  # events a second
ENDPOINTS, HANGING = 50, 5
JANITORS = int(os.environ.get("BENCH_JANITORS", "2"))
FINISHED = scaled(300, least=10)
GOAL_P99_S = 2.0
_ALLOWED = {"OUTBOX_ALLOWED_NETWORKS": "127.0.0.0/8", "OUTBOX_TIMEOUT_S": "15"}


class Receivers:
    """One server for all endpoints: `/hang/n` says nothing, of others the lateness is kept."""

    def __init__(self) -> None:
        self.late_s: list[float] = []
        self._never = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer 204 to every request of a connection."""
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
                size = int(head.partition("content-length:")[2].partition("\r\n")[0])
                body = json.loads(await reader.readexactly(size))
                if head.startswith("post /hang"):
                    await self._never.wait()
                self.late_s.append(time.monotonic() - body["data"]["at"])
                writer.write(b"HTTP/1.1 204 X\r\n\r\n")
        except (asyncio.IncompleteReadError, OSError):
            writer.close()


def main() -> None:
    """Measure, and print one line for each number."""
    with database():
        without = _finish_ms()
        p50, p99 = asyncio.run(_lateness())
        with_one = _finish_ms()
    print(f"{EVENTS} events at {RATE:.0f}/s to {ENDPOINTS} endpoints, {HANGING} of which hang, {JANITORS} janitors:")
    print(f"the others: p50 {p50:.3f} s, p99 {p99:.3f} s (goal {GOAL_P99_S:.0f} s)")
    print(f"finish: {without:.2f} ms without an endpoint, {with_one:.2f} ms with {ENDPOINTS} that ask (medians)")
    sys.exit(SHARE == 1 and p99 > GOAL_P99_S)


async def _lateness() -> tuple[float, float]:
    receivers = Receivers()
    server = await asyncio.start_server(receivers.serve, "127.0.0.1", 0, backlog=1000)
    port = server.sockets[0].getsockname()[1]
    ids = await asyncio.to_thread(_endpoints, port)
    with _janitors():
        await asyncio.to_thread(_await_janitors)  # starting is not measured
        await asyncio.to_thread(_record, ids)
        expected = EVENTS * (ENDPOINTS - HANGING) // ENDPOINTS
        async with asyncio.timeout(300):
            while len(receivers.late_s) < expected:  # noqa: ASYNC110 (an end of a run, not of a step)
                await asyncio.sleep(0.2)
    cuts = statistics.quantiles(receivers.late_s, n=100)
    return cuts[49], cuts[98]


def _await_janitors() -> None:
    deadline = time.monotonic() + 120
    while Process.objects.count() < JANITORS and time.monotonic() < deadline:
        time.sleep(0.5)
    time.sleep(scaled_s(3.0))  # they report before they listen
    connection.close()


def _endpoints(port: int) -> list[int]:
    ids = []
    for number in range(ENDPOINTS):
        path = "hang" if number < HANGING else "well"
        row = Endpoint.objects.create(name=str(number), url=f"http://127.0.0.1:{port}/{path}/{number}", events=["*"])
        endpoints.add_secret(row)
        ids.append(row.pk)
    connection.close()
    return ids


def _record(ids: list[int]) -> None:
    """One event for one endpoint after the other, each when it is due."""
    began_at = time.monotonic()
    for number in range(EVENTS):
        time.sleep(max(0.0, began_at + number / RATE - time.monotonic()))
        event = operations.NewEvent(
            type="queue.paused", subject=f"queue/{number % 1000}", data={"at": time.monotonic()}
        )
        operations.record_all([event], only=ids[number % ENDPOINTS])
    connection.close()


@contextmanager
def _janitors() -> Iterator[None]:
    environment = {**os.environ, **_ALLOWED, "JOBFARM_TEST_DATABASE": str(connection.settings_dict["NAME"])}
    command = [sys.executable, "manage.py", "janitor", "--skip-checks"]
    processes = [subprocess.Popen(command, cwd=ROOT, env=environment) for _ in range(JANITORS)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _finish_ms() -> float:
    """The median of one `finish` of one job, in milliseconds."""
    kind = f"bench{Message.objects.exists():d}"
    jobs.create_kind(jobs.Kind(name=kind))
    worker, _ = jobs.create_worker(kind, queues=[kind])
    jobs.submit_many([jobs.NewJob(kind=kind, payload=n) for n in range(FINISHED)])
    taken = []
    for claimed in jobs.claim(worker, limit=FINISHED):
        done = jobs.Finished(job_id=claimed.id, lease=claimed.lease, outcome="success")
        began_at = time.monotonic()
        jobs.finish(worker, [done])
        taken.append((time.monotonic() - began_at) * 1000)
    return statistics.median(taken)


if __name__ == "__main__":
    main()
