"""A batch of OpenAI's API beside the same calls submitted in bulk: from the first request to the last answer.

.venv/bin/python -m benchmarks.batch [--quick] [--rounds 3] [--lines 10000] [--without-bulk]

One web server, one cluster for actions, one worker in this process whose handler answers at once. Both take turns. In
bulk: ten calls of `POST /api/v1/jobs/bulk`, until the last job has ended; nobody fetches the results. The batch: its
file is uploaded, it is made, and it is over once its output file is there. Meanwhile somebody submits a job each
0.1 s, and the longest transaction is looked for each 5 ms.
"""

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import httpx
import psycopg
from django.contrib.auth import get_user_model
from django.db import connection

from benchmarks import own, results
from benchmarks.options import Options, read
from benchmarks.peers import ROOT
from benchmarks.results import Table
from benchmarks.web import server
from jobfarm_worker import Job, Worker
from jobs import operations as jobs
from jobs.models import Job as Row

LINES: Final = 10_000
MARK: Final = 0.9
BULK, BATCH = "bulk", "batch"
MODEL: Final = "noop"
_LIMITS: Final = {"JOBFARM_SUBMIT_PER_MINUTE": "1e9", "JOBFARM_SUBMIT_BURST": "1e9"}
_WITHIN_S: Final = 600.0
Run = Callable[[httpx.AsyncClient, int], Awaitable[None]]


@dataclass
class Seen:
    """What somebody notices meanwhile: how long submits of one job took, and the longest transaction."""

    submits_s: list[float] = field(default_factory=list)
    longest_s: float = 0.0
    longest: str = ""

    def sentence(self) -> str:
        """It in words."""
        times = sorted(self.submits_s)
        p50, p99 = (times[int(len(times) * share)] * 1000 if times else 0 for share in (0.5, 0.99))
        return (
            f"submits of one job meanwhile: p50 {p50:.0f} ms, p99 {p99:.0f} ms of {len(times)}; "
            f"the longest transaction {self.longest_s * 1000:.0f} ms ({self.longest})"
        )


class Answering:
    """The handler: an answer of the usual form, at once."""

    async def __call__(self, _job: Job) -> dict[str, Any]:
        """The same answer to each call."""
        message = {"role": "assistant", "content": "A lighthouse turns so that it is seen from everywhere."}
        return {"object": "chat.completion", "choices": [{"index": 0, "message": message}]}

    async def models(self) -> list[str]:
        """The one model."""
        return [MODEL]


def main(options: Options, *, lines: int = LINES, with_bulk: bool = True) -> list[Table]:
    """Measure; a table in jobs a second."""
    lines = options.many(lines, least=10)
    table = Table(what=f"{lines:,} calls answered at once (calls/s)", floor=BULK, ours=BATCH, mark=MARK)
    with own.database() as name:
        jobs.sync()
        key, worker_key = _person(), jobs.create_worker("bench", queues=["openai"])[1]
        environment = {"JOBFARM_TEST_DATABASE": name, **_LIMITS}
        with server("jobfarm.asgi:application", environment) as port, _cluster(environment):
            url = f"http://127.0.0.1:{port}"
            arms = {BULK: _bulk, BATCH: _batch} if with_bulk else {BATCH: _batch}
            seen = asyncio.run(_rounds(url, key, worker_key, table, options, lines=lines, arms=arms))
    table.notes += [f"{who}, {each.sentence()}." for who, each in seen.items()]
    return [table]


def _person() -> str:
    from accounts import operations as accounts  # noqa: PLC0415 (Django has to be set up first)

    ada = get_user_model().objects.create_superuser("ada")
    return str(accounts.create_token(ada, name="bench", scopes=["submit", "read"])[1])


@contextlib.contextmanager
def _cluster(environment: dict[str, str]) -> Iterator[None]:
    command = [sys.executable, "manage.py", "cluster", "--actions", "--skip-checks"]
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, **environment})
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


async def _rounds(
    url: str, key: str, key_of_worker: str, table: Table, options: Options, *, lines: int, arms: Mapping[str, Run]
) -> dict[str, Seen]:
    worker = Worker(url, key_of_worker, concurrency=8)
    worker.handler("openai")(Answering())
    working = asyncio.create_task(worker.run())
    seen = {who: Seen() for who in arms}
    head = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=url, headers=head, timeout=_WITHIN_S) as client:
        await _until_offered(client)
        for number in range(-1, options.rounds):  # the first warms up
            for who, run in arms.items():
                count = lines if number >= 0 else min(lines, LINES) // 10
                async with _watched(client, seen[who] if number >= 0 else Seen()):
                    began_s = time.monotonic()
                    await run(client, count)
                    rate = count / (time.monotonic() - began_s)
                if number >= 0:
                    table.add(who, rate)
                    options.say(f"{who}: {rate:,.0f}/s, {count / rate:.1f} s; {seen[who].sentence()}")
    worker.stop()
    await working
    return seen


async def _until_offered(client: httpx.AsyncClient) -> None:
    while not (await client.get("/v1/models")).json()["data"]:  # noqa: ASYNC110 (the server sets no event)
        await asyncio.sleep(0.05)


def _call(number: int) -> dict[str, Any]:
    return {"model": MODEL, "messages": [{"role": "user", "content": f"Why do lighthouses turn? ({number})"}]}


async def _bulk(client: httpx.AsyncClient, count: int) -> None:
    queue = jobs.queue_of_model(MODEL)
    for first in range(0, count, 1000):
        calls = [_call(number) for number in range(first, min(first + 1000, count))]
        new = [
            {"kind": "openai", "queue": queue, "payload": {"path": "chat/completions", "body": call}} for call in calls
        ]
        (await client.post("/api/v1/jobs/bulk", json={"jobs": new})).raise_for_status()
    await asyncio.to_thread(_until_none_waits, queue)


def _until_none_waits(queue: str) -> None:
    try:
        while Row.objects.filter(queue=queue, status__in=["pending", "in_progress"]).exists():
            time.sleep(0.02)
    finally:
        connection.close()


async def _batch(client: httpx.AsyncClient, count: int) -> None:
    line = {"method": "POST", "url": "/v1/chat/completions"}
    content = "".join(
        json.dumps({"custom_id": f"line-{number}", **line, "body": _call(number)}) + "\n" for number in range(count)
    )
    files = {"file": ("input.jsonl", content.encode())}
    sent = await client.post("/v1/files", data={"purpose": "batch"}, files=files)
    uploaded = sent.raise_for_status().json()
    body = {"input_file_id": uploaded["id"], "endpoint": line["url"], "completion_window": "24h"}
    batch = (await client.post("/v1/batches", json=body)).raise_for_status().json()
    while batch["status"] in {"validating", "in_progress", "finalizing"}:
        await asyncio.sleep(0.05)
        batch = (await client.get(f"/v1/batches/{batch['id']}")).json()
    counts = batch["request_counts"]
    if (batch["status"], counts["completed"]) != ("completed", count):
        raise RuntimeError(f"the batch is {batch['status']}: {counts}, {batch['errors']}")


@contextlib.asynccontextmanager
async def _watched(client: httpx.AsyncClient, seen: Seen) -> AsyncIterator[None]:
    """Submit a job each 0.1 s meanwhile, and look for long transactions."""
    over = threading.Event()
    looking = asyncio.create_task(asyncio.to_thread(_look, seen, over, _address()))
    submitting = asyncio.create_task(_submit(client, seen))
    try:
        yield
    finally:
        over.set()
        submitting.cancel()
        await asyncio.gather(looking, submitting, return_exceptions=True)


async def _submit(client: httpx.AsyncClient, seen: Seen) -> None:
    while True:
        began_s = time.monotonic()
        (await client.post("/api/v1/jobs", json={"kind": "image", "payload": {"prompt": "a sea"}})).raise_for_status()
        seen.submits_s.append(time.monotonic() - began_s)
        await asyncio.sleep(0.1)


def _address() -> dict[str, Any]:
    settings = connection.get_connection_params()
    return {name: settings[name] for name in ("host", "port", "user", "dbname", "password") if settings.get(name)}


def _look(seen: Seen, over: threading.Event, address: dict[str, Any]) -> None:
    ask = """
        SELECT extract(epoch FROM clock_timestamp() - xact_start)::float8, left(split_part(query, '*/', 1), 60)
        FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
          AND state <> 'idle' AND xact_start IS NOT NULL ORDER BY xact_start LIMIT 1
    """
    with psycopg.connect(**address, autocommit=True) as watching:
        while not over.wait(0.005):
            row = watching.execute(ask).fetchone()
            if row is not None and row[0] > seen.longest_s:
                seen.longest_s, seen.longest = row


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--lines", type=int, default=LINES)
    parser.add_argument("--without-bulk", action="store_true", help="the batch alone")
    chosen = read(parser)
    given, _ = parser.parse_known_args()
    results.show(main(chosen, lines=given.lines, with_bulk=not given.without_bulk))
