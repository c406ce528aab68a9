"""How many workers a queue wants, for autoscalers. docs/operations.md has the formula with its reasons."""

import math
from dataclasses import dataclass, replace
from typing import Final

DRAIN_S: Final = 60.0  # within which what waits is to have begun, unless the caller says otherwise


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a queue has to do. `waiting`: due jobs, of those that wait; `draining`: of the running ones those on drained
    workers, which take no more; `arrivals_per_s` and `mean_run_s` as of the last minutes, `mean_run_s` None where no
    run ended in them; `ceiling`: how many may run, None for any number."""

    waiting: int
    running: int
    draining: int = 0
    arrivals_per_s: float = 0.0
    mean_run_s: float | None = None
    ceiling: int | None = None
    is_paused: bool = False


def wanted_workers(load: Load, *, drain_s: float = DRAIN_S, jobs_per_worker: int = 1) -> int:
    """How many workers, each running `jobs_per_worker` at a time, keep up with what arrives and clear what waits in
    `drain_s` seconds.

    0 when nothing waits or runs, or the queue is paused and nothing runs; at least 1 while anything waits; no more than
    the ceiling needs; never fewer than what runs now needs, for a worker that is sent home gives back what it holds.
    """
    return math.ceil(_wanted_runs(load, drain_s=drain_s) / jobs_per_worker)


def _wanted_runs(load: Load, *, drain_s: float) -> int:
    """How many jobs are to run at a time. With a ceiling of 0 none is to; in a paused queue, those that do.

    What drained workers run is no work for the others, and they are no workers for what waits."""
    if load.draining:
        ceiling = None if load.ceiling is None else max(load.ceiling - load.draining, 0)
        others = replace(load, running=load.running - load.draining, draining=0, ceiling=ceiling)
        return load.draining + _wanted_runs(others, drain_s=drain_s)
    if load.is_paused or load.waiting + load.running == 0:
        return load.running
    # Little's law: as many run on average as arrive within the length of a run.
    steady = load.arrivals_per_s * (load.mean_run_s or 0.0)
    wanted = math.ceil(steady + _backlog(load, drain_s=drain_s) - 1e-9)  # 1e-9: of adding, no run
    allowed = max(wanted, 1) if load.ceiling is None else min(max(wanted, 1), load.ceiling)
    return max(load.running, allowed)


def _backlog(load: Load, *, drain_s: float) -> float:
    """What clears the jobs that wait in `drain_s`. Never more than one run each: of no use for any. While no run has
    ended the length of one is unknown, and it may be long: one each."""
    if load.mean_run_s is None:
        return load.waiting
    return load.waiting * min(1.0, load.mean_run_s / drain_s)
