"""Workers over HTTP: eight that finish one job and get the next with the answer, and batches of fifty.

.venv/bin/python -m benchmarks.network [--quick] [--rounds 3]

The floor is a bare view of the same server that does one UPDATE; the same view in Django's own handler stands beside
it. The four take turns, a slice each in every round.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from functools import partial

from benchmarks import own, results
from benchmarks.options import Options, parse
from benchmarks.results import Table
from benchmarks.web import Client, server
from jobs import kinds, operations
from jobs.models import Job

CLIENTS, BATCH = 8, 50
SLICE_S = 4.0
FLOOR, OURS, BATCHES = "a bare view with one UPDATE", "finish with claim_next", f"batches of {BATCH}"
DJANGOS = f"{FLOOR}, in Django's own handler"
Slice = Callable[[Client, float], Awaitable[int]]


def main(options: Options) -> list[Table]:
    """Measure; one table. Jobs a second, and for the floor requests."""
    table = Table(what="Eight workers over HTTP (jobs/s)", floor=FLOOR, ours=OURS, mark=0.5)
    table.notes.append(f"Batches of {BATCH} are to reach 2,000 jobs/s.")
    kinds.declare(operations.Kind(name="noop", queue="noop"))
    with own.database() as name:
        operations.sync()
        _, key = operations.create_worker("bench", queues=["noop"])
        environment = {"JOBFARM_TEST_DATABASE": name}
        with (
            server("jobfarm.asgi:application", environment) as ours,
            server("benchmarks.bare_update:application", environment) as bare,
            server("benchmarks.bare_update:in_djangos_own", environment) as djangos,
        ):
            update = partial(_update, ids=_ids(100))
            for number in range(-1, options.rounds):  # the first warms all of them up
                _refill(options)
                found = {
                    FLOOR: _rate(update, bare, key, options),
                    DJANGOS: _rate(update, djangos, key, options),
                    OURS: _rate(_one_by_one, ours, key, options),
                    BATCHES: _rate(_by_batches, ours, key, options),
                }
                if number >= 0:
                    for who, rate in found.items():
                        table.add(who, rate)
                    options.say(", ".join(f"{who} {rate:,.0f}" for who, rate in found.items()))
    return [table]


def _ids(count: int) -> list[int]:
    own.fill("aside", count)
    return list(Job.objects.filter(queue="aside").values_list("pk", flat=True))


def _refill(options: Options) -> None:
    """More than can be done in a round; what is left over waits for the next."""
    missing = options.many(40_000, least=5_000) - Job.objects.waiting().filter(queue="noop").count()
    for begin in range(0, max(0, missing), 1000):
        operations.submit_many([operations.NewJob(kind="noop", payload={"n": begin + n}) for n in range(1000)])


def _rate(work: Slice, port: int, key: str, options: Options) -> float:
    seconds = options.seconds(SLICE_S)
    return asyncio.run(_all(work, port, key, seconds)) / seconds


async def _all(work: Slice, port: int, key: str, seconds: float) -> int:
    until = time.monotonic() + seconds

    async def one() -> int:
        async with Client(port, key=key) as client:
            return await work(client, until)

    return sum(await asyncio.gather(*(one() for _ in range(CLIENTS))))


async def _update(client: Client, until: float, *, ids: list[int]) -> int:
    done = 0
    while time.monotonic() < until:
        await client.post(f"/bare/{ids[(done * 7 + id(client)) % len(ids)]}", {"n": done})
        done += 1
    return done


async def _one_by_one(client: Client, until: float) -> int:
    held = (await client.post("/api/v1/worker/claim", {"limit": 1}))["jobs"]
    done = 0
    while held and time.monotonic() < until:
        body = {"lease": held[0]["lease"], "outcome": "success", "claim_next": 1}
        held = (await client.post(f"/api/v1/worker/jobs/{held[0]['id']}/finish", body))["jobs"]
        done += 1
    return done


async def _by_batches(client: Client, until: float) -> int:
    held = (await client.post("/api/v1/worker/claim", {"limit": BATCH}))["jobs"]
    done = 0
    while held and time.monotonic() < until:
        finished = [{"id": job["id"], "lease": job["lease"], "outcome": "success"} for job in held]
        done += len(held)
        held = (await client.post("/api/v1/worker/finish", {"finished": finished, "claim_next": BATCH}))["jobs"]
    return done


if __name__ == "__main__":
    os.environ.setdefault("LOG_LEVEL", "ERROR")
    results.show(main(parse(__doc__)))
