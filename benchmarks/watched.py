"""Live pages: a thousand sockets watch a hundred jobs of one process, which change fifty times a second.

.venv/bin/python -m benchmarks.watched [--quick]

From the commit of a change to the last of the ten sockets that watch its job; whether every socket saw how each job
ended; and the memory of the web process. A change that a later one of the same job overtakes is not counted: the newest
wins.
"""

import asyncio
import contextlib
import json
import time
from collections import defaultdict
from statistics import median, quantiles

from django.contrib.auth import get_user_model

from benchmarks import own, results
from benchmarks.options import Options, parse, scaled, scaled_s
from benchmarks.results import Table
from benchmarks.web import memory_mb, server
from jobs import kinds, operations
from jobs.models import Worker
from postgres import connections

SOCKETS, RATE, SECONDS = scaled(1_000, least=100), scaled(50, least=5), 30.0
JOBS = SOCKETS // 10
# A thousand that came within two seconds are still being read to, and that is another benchmark.
SETTLING_S = scaled_s(2.0)
OURS = "jobfarm"


class Watchers:
    """The sockets, and when each detail of a job reached them."""

    def __init__(self) -> None:
        self.reached: defaultdict[str, list[float]] = defaultdict(list)
        self.ended: set[int] = set()
        self._up: set[int] = set()
        self.all_up, self.all_ended = asyncio.Event(), asyncio.Event()

    async def watch(self, number: int, port: int, cookie: str, job_id: int) -> None:
        """Open one, watch one job, and note what comes until it has ended."""
        import websockets  # noqa: PLC0415  # not wanted where only --help is asked

        site = f"127.0.0.1:{port}"
        headers, origin = {"Cookie": f"sessionid={cookie}"}, websockets.Origin(f"http://{site}")
        async with websockets.connect(
            f"ws://{site}/ws/live/", origin=origin, additional_headers=headers, open_timeout=60, compression=None
        ) as socket:
            watch_request = {"id": "1", "name": "job-json", "args": {"job_id": job_id}}
            await socket.send(json.dumps({"watch": [watch_request]}))
            async for text in socket:
                now, message = time.monotonic(), json.loads(text)
                if "state" not in message:
                    continue
                job = message["data"]["job"]
                self._note(number, has_ended=job["status"] == "success")
                self.reached[f"{job_id} {job['detail']}"].append(now)
                if number in self.ended:
                    return

    def _note(self, number: int, *, has_ended: bool) -> None:
        self._up.add(number)
        if len(self._up) == SOCKETS:
            self.all_up.set()
        if has_ended:
            self.ended.add(number)
        if len(self.ended) == SOCKETS:
            self.all_ended.set()


def main(options: Options) -> list[Table]:
    """Measure; a table of times, and one of the rest."""
    late = Table(
        what=f"Live: commit to the last of ten sockets, {SOCKETS:,} sockets, {RATE} changes/s (ms)", is_less_better=True
    )
    rest = Table(what="Live: stale sockets at the end, and memory of the web process (MB)", is_less_better=True)
    late.notes.append("The mark for p99 is 60 ms.")
    rest.notes.append("The marks: none stale, and less than 300 MB.")
    kinds.declare(operations.Kind(name="noop", queue="noop"))
    many = {
        f"JOBFARM_PAGE_{limit}": "10000" for limit in ("SOCKETS", "SOCKETS_PER_ADDRESS", "SOCKETS_PER_PERSON", "BURST")
    }
    with own.database() as name, server("jobfarm.asgi:application", {"JOBFARM_TEST_DATABASE": name, **many}) as port:
        for _ in range(min(options.rounds, 2)):
            last, stale, memory_mb = asyncio.run(_round(port, options.seconds(SECONDS, least_s=2)))
            late.add("p50", median(last) * 1000)
            late.add("p99", quantiles(last, n=100)[98] * 1000)
            rest.add("stale sockets", stale)
            rest.add("memory", memory_mb)
    return [late, rest]


async def _round(port: int, seconds: float) -> tuple[list[float], int, float]:
    worker, cookie, held = await connections.run(_prepared)
    watchers = Watchers()
    async with asyncio.TaskGroup() as group:
        tasks = []
        for number in range(SOCKETS):
            tasks.append(group.create_task(watchers.watch(number, port, cookie, held[number % JOBS].id)))
            if number % 20 == 0:
                await asyncio.sleep(0.02)  # a thousand at one instant is another benchmark
        await watchers.all_up.wait()
        await asyncio.sleep(SETTLING_S)
        committed = await _change(worker, held, seconds)
        await asyncio.sleep(0.5)
        used_mb = memory_mb(port)
        done = [operations.Finished(job_id=job.id, lease=job.lease, outcome="success") for job in held]
        await connections.run(operations.finish, worker, done)
        await _until(watchers.all_ended, within_s=30)
        for task in tasks:  # who has not seen the end by now is stale
            task.cancel()
    seen_by_all = [(at, watchers.reached[what]) for what, at in committed.items()]
    last = [max(reached) - at for at, reached in seen_by_all if len(reached) >= SOCKETS // JOBS]
    return last, SOCKETS - len(watchers.ended), used_mb


async def _until(event: asyncio.Event, *, within_s: float) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), within_s)


def _prepared() -> tuple[Worker, str, list[operations.ClaimedJob]]:
    operations.sync()
    person, _ = get_user_model().objects.get_or_create(username="bench")
    worker, _ = operations.create_worker("bench", queues=["noop"])
    operations.submit_many([operations.NewJob(kind="noop", payload={}, owner=person) for _ in range(JOBS)])
    return worker, own.logged_in(person), operations.claim(worker, limit=JOBS)


async def _change(worker: Worker, held: list[operations.ClaimedJob], seconds: float) -> dict[str, float]:
    """Change one job after the other; when each change was committed, by job and detail."""
    committed: dict[str, float] = {}
    began = time.monotonic()
    for number in range(int(seconds * RATE)):
        await asyncio.sleep(max(0.0, began + number / RATE - time.monotonic()))
        job = held[number % JOBS]
        await connections.run(operations.heartbeat, worker, job.id, job.lease, detail=f"step {number}")
        committed[f"{job.id} step {number}"] = time.monotonic()
    return committed


if __name__ == "__main__":
    results.show(main(parse(__doc__)))
