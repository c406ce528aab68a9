"""The verbs that every contender knows: prepare, bulk N, enqueue N (a commit each), paced N, steady N, work."""

import json
import os
import sys
import time
from collections.abc import Callable

PACE_S = 0.02


def main(
    *,
    prepare: Callable[[], None],
    bulk: Callable[[int], None],
    one: Callable[[float | None], None],
    work: Callable[[], None],
) -> None:
    """Do what the command line says. `one` gets the moment at which it was asked, to be carried in the job.

    What BENCH_WARM_UP says is done first and not timed: connections and plans are made by then.
    """
    verb, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0
    warm_up = int(os.environ.get("BENCH_WARM_UP", "0"))
    if verb == "prepare":
        prepare()
    elif verb == "work":
        work()
    elif verb == "bulk":
        _timed(bulk, count, warm_up)
    elif verb == "enqueue":
        _timed(lambda number: _many(one, number), count, warm_up)
    elif verb == "paced":
        for _ in range(count):
            one(time.monotonic())
            time.sleep(PACE_S)
    elif verb == "steady":
        _steadily(count, one)


def _many(one: Callable[[float | None], None], count: int) -> None:
    for _ in range(count):
        one(None)


def _steadily(count: int, one: Callable[[float | None], None]) -> None:
    """One each BENCH_PACE_S, by the clock: who falls behind catches up."""
    pace_s, began = float(os.environ["BENCH_PACE_S"]), time.monotonic()
    for n in range(count):
        time.sleep(max(0.0, began + n * pace_s - time.monotonic()))
        one(time.monotonic())


def _timed(work: Callable[[int], None], jobs: int, warm_up: int) -> None:
    if warm_up:
        work(warm_up)
    began = time.monotonic()
    work(jobs)
    print(json.dumps({"jobs": jobs, "seconds": time.monotonic() - began}), flush=True)
