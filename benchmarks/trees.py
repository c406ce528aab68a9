"""What a job costs in this tree and in another one, in turn: clock and processor time of each step of its way.

.venv/bin/python -m benchmarks.trees --against <other checkout> [--rounds 9] [--only submit,bulk]

Each tree has a process, a database and a web server of its own on one PostgreSQL, and the same things are done by both,
one after the other, in many short rounds: what else the machine does strikes both alike. Processor time is that of the
Python process (of the web server, over HTTP) and of the sessions of its database; it tells more than the clock of a
machine that others use too. The ratio is the median of the ratios of the rounds.
"""

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

Cost = dict[str, float]
COSTS = ("clock", "python", "postgres")
READY = "ready"


class Tree:
    """The process that works in one checkout; `python` starts it there."""

    def __init__(self, root: Path) -> None:
        command = [sys.executable, str(Path(__file__).resolve()), "serve"]
        environment = {**os.environ, "PYTHONPATH": str(root), "LOG_LEVEL": "ERROR"}
        self._process = subprocess.Popen(
            command, cwd=root, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._answer() == READY

    def cost(self, step: str) -> Cost:
        """What one round of this step costs for each job."""
        assert self._process.stdin
        print(step, file=self._process.stdin, flush=True)
        return dict(self._answer())

    def close(self) -> None:
        """Let it end by itself: it drops its database."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(60)

    def _answer(self) -> Any:
        assert self._process.stdout
        while line := self._process.stdout.readline():
            if line.startswith("= "):
                return json.loads(line[2:])
        raise RuntimeError("the process of a tree has ended")


def main() -> None:
    """Measure and print; the other tree is the one to compare with."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--against", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", default=",".join(STEPS))
    options = parser.parse_args()
    before, after = Tree(options.against.resolve()), Tree(Path.cwd())
    try:
        for step in options.only.split(","):
            for tree in (before, after):
                tree.cost(step)  # plans and connections are made by then
            pairs = [(before.cost(step), after.cost(step)) for _ in range(options.rounds)]
            _print(step, pairs)
    finally:
        before.close()
        after.close()


def _print(step: str, pairs: list[tuple[Cost, Cost]]) -> None:
    for what in COSTS:
        was, now = (median(pair[side][what] for pair in pairs) for side in (0, 1))
        ratio = median(after[what] / before[what] for before, after in pairs if before[what])
        print(f"{step:16} {what:10} {was:9.3f} -> {now:9.3f} ms a job, {ratio:5.2f}", flush=True)


def serve() -> None:
    """Do what is asked for on the standard input, until it ends."""
    sys.path[0] = os.getcwd()
    from benchmarks import own  # noqa: PLC0415  # the tree's own, and it sets Django up
    from benchmarks.web import server  # noqa: PLC0415
    from jobs import kinds, operations  # noqa: PLC0415

    kinds.declare(operations.Kind(name="noop", queue="noop"))
    with own.database() as name:
        operations.sync()
        operations.create_kind(operations.Kind(name="http", queue="http"))  # for the web server, which declares none
        with server("jobfarm.asgi:application", {"JOBFARM_TEST_DATABASE": name}) as port:
            place = _Place(name, port)
            print(f"= {json.dumps(READY)}", flush=True)
            for line in sys.stdin:
                print(f"= {json.dumps(place.cost(line.strip()))}", flush=True)


class _Place:
    def __init__(self, database: str, port: int) -> None:
        from django.contrib.auth.models import User  # noqa: PLC0415

        from accounts import operations as accounts  # noqa: PLC0415
        from jobs import operations  # noqa: PLC0415

        self.operations = operations
        self.database, self.port = database, port
        self.worker, self.key = operations.create_worker("bench", queues=["noop"])
        person = User.objects.create_user("bench", email="bench@example.com", is_superuser=True, is_staff=True)
        self.token = _key_of(accounts.create_token(person, name="bench"))
        self.server = _children(os.getpid())

    def cost(self, step: str) -> Cost:
        """One round of a step."""
        work, is_remote, setup = STEPS[step]
        if setup:
            self.fill(setup)
        process = self.server if is_remote else [os.getpid()]
        before = self._used(process)
        jobs = work(self)
        after = self._used(process)
        return {what: (after[what] - before[what]) / jobs * 1000 for what in COSTS}

    def fill(self, count: int) -> None:
        """So many jobs wait."""
        from jobs.models import Job  # noqa: PLC0415

        missing = count - Job.objects.waiting().filter(queue="noop").count()
        for begin in range(0, max(0, missing), 1000):
            self.operations.submit_many(self.new(min(1000, missing - begin)))

    def new(self, count: int) -> list[Any]:
        """So many new jobs."""
        return [self.operations.NewJob(kind="noop", payload={"n": n}) for n in range(count)]

    def _used(self, processes: list[int]) -> Cost:
        from django.db import connection  # noqa: PLC0415

        with connection.cursor() as cursor:
            cursor.execute("SELECT pid FROM pg_stat_activity WHERE datname = %s", [self.database])
            sessions = [row[0] for row in cursor.fetchall()]
        return {
            "clock": time.monotonic(), "python": _processor_s(processes), "postgres": _processor_s(sessions)
        }  # fmt: skip


def _submit(place: _Place) -> int:
    for n in range(300):
        place.operations.submit("noop", {"n": n})
    return 300


def _bulk(place: _Place) -> int:
    for _ in range(3):
        place.operations.submit_many(place.new(1000))
    return 3000


def _drain(place: _Place) -> int:
    """Claim and finish by hundreds, as two calls."""
    for _ in range(20):
        claimed = place.operations.claim(place.worker, limit=100)
        place.operations.finish(place.worker, _finished(place, claimed))
    return 2000


def _drain_in_one(place: _Place) -> int:
    """Hand in a hundred and get the next by one call."""
    held = place.operations.claim(place.worker, limit=100)
    for _ in range(20):
        _, held = place.operations.finish_and_claim(place.worker, _finished(place, held), limit=100)
    place.operations.finish(place.worker, _finished(place, held))
    return 2100


def _one_by_one(place: _Place) -> int:
    held = place.operations.claim(place.worker, limit=1)
    for _ in range(300):
        _, held = place.operations.finish_and_claim(place.worker, _finished(place, held), limit=1)
    place.operations.finish(place.worker, _finished(place, held))
    return 301


def _finished(place: _Place, claimed: list[Any]) -> list[Any]:
    kept = place.operations.Finished
    return [kept(job_id=job.id, lease=job.lease, outcome="success", result={"n": 1}) for job in claimed]


def _http_finish(place: _Place) -> int:
    return asyncio.run(_finish_over_http(place))


def _http_batches(place: _Place) -> int:
    return asyncio.run(_batches_over_http(place))


def _http_submit(place: _Place) -> int:
    return asyncio.run(_submit_over_http(place))


async def _finish_over_http(place: _Place, jobs: int = 200) -> int:
    from benchmarks.web import Client  # noqa: PLC0415

    async with Client(place.port, key=place.key) as client:
        [held] = (await client.post("/api/v1/worker/claim", {"limit": 1}))["jobs"]
        for number in range(jobs):
            body = {"lease": held["lease"], "outcome": "success", "result": {"n": 1}}
            body["claim_next"] = int(number + 1 < jobs)
            answer = await client.post(f"/api/v1/worker/jobs/{held['id']}/finish", body)
            held = answer["jobs"][0] if answer["jobs"] else None
    return jobs


async def _batches_over_http(place: _Place, batches: int = 20, size: int = 50) -> int:
    from benchmarks.web import Client  # noqa: PLC0415

    async with Client(place.port, key=place.key) as client:
        held = (await client.post("/api/v1/worker/claim", {"limit": size}))["jobs"]
        for number in range(batches):
            done = [{"id": job["id"], "lease": job["lease"], "outcome": "success"} for job in held]
            body = {"finished": done, "claim_next": size if number + 1 < batches else 0}
            held = (await client.post("/api/v1/worker/finish", body))["jobs"]
    return batches * size


async def _submit_over_http(place: _Place, jobs: int = 100) -> int:
    from benchmarks.web import Client  # noqa: PLC0415

    async with Client(place.port, key=place.token) as client:
        for n in range(jobs):
            await client.post("/api/v1/jobs", {"kind": "http", "payload": {"n": n}})
    return jobs


# Each step: what it does, whether the web server does it, and how many jobs have to wait before.
STEPS: dict[str, tuple[Callable[[_Place], int], bool, int]] = {
    "submit": (_submit, False, 0),
    "bulk": (_bulk, False, 0),
    "drain": (_drain, False, 2000),
    "drain in one": (_drain_in_one, False, 2100),
    "one by one": (_one_by_one, False, 301),
    "http submit": (_http_submit, True, 0),
    "http finish": (_http_finish, True, 200),
    "http batches": (_http_batches, True, 1050),
}


def _key_of(made: Any) -> str:
    return str(made[1] if isinstance(made, tuple) else made)


def _children(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children if b"uvicorn" in Path(f"/proc/{child}/cmdline").read_bytes()]


def _processor_s(processes: list[int]) -> float:
    """Of all threads, in nanoseconds where /proc/<pid>/stat counts hundredths of a second."""
    used = 0
    for thread in (each for pid in processes for each in Path(f"/proc/{pid}/task").glob("*/schedstat")):
        with contextlib.suppress(OSError):
            used += int(thread.read_text().split()[0])
    return used / 1e9


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serve()
    else:
        main()
