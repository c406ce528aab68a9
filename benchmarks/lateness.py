"""How late scheduled functions start, and how fast many that are due at one instant are done.

    .venv/bin/python -m benchmarks.lateness            # on a database of its own, dropped afterwards

Starts one cluster for mutations and one for actions. On an idle farm it schedules functions one at a time,
each committed on its own, and reads from the rows how long after its due time each began. Then it schedules
many in one transaction for one instant, and reads how long the last one took. All times are the database's.
"""

import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection, transaction

from benchmarks.options import scaled, scaled_s
from benchmarks.own import database
from benchmarks.peers import ROOT
from scheduling import operations as scheduling
from scheduling.models import Due, ScheduledFunction
from scheduling.operations.functions import insert, new
from tests.scheduling.integration import sample

IDLE = scaled(300, least=10)
AT_ONCE = scaled(2_000, least=10)


def main() -> None:
    """Measure, and print one line for each number."""
    with database(), _cluster("--mutations"), _cluster("--actions"):
        _wait_until_up()
        _idle("mutation", sample.nothing)
        _idle("action", sample.say, word="x")
        _at_once("that do nothing", sample.nothing)
        _at_once("that write a row and read it", sample.count_group)


def _idle(kind: str, function: Callable[..., Any], **args: Any) -> None:
    for _ in range(IDLE):
        scheduling.run_after(0, function, **args)
        time.sleep(0.03)
    late = sorted(_seconds(row.run_at, row.started_at) * 1000 for row in _done())
    p99 = late[int(len(late) * 0.99)]
    print(f"idle, one {kind} at a time: p50 {statistics.median(late):.1f} ms, p99 {p99:.1f} ms ({IDLE})")


def _at_once(what: str, function: Callable[..., Any]) -> None:
    with transaction.atomic():
        insert([new(function, {}, delay_s=1.0) for _ in range(AT_ONCE)])
    took = max(_seconds(row.run_at, row.ended_at) for row in _done())
    print(f"{AT_ONCE} mutations {what}, due at one instant: {took:.2f} s, {AT_ONCE / took:.0f} a second")


def _done() -> list[ScheduledFunction]:
    """All functions, once all have ended; they are forgotten."""
    while Due.objects.exists() or ScheduledFunction.objects.filter(ended_at=None).exists():
        time.sleep(0.05)
    rows = list(ScheduledFunction.objects.all())
    assert {row.status for row in rows} == {"success"}
    ScheduledFunction.objects.all().delete()
    return rows


def _seconds(begin: Any, end: Any) -> float:
    return float((end - begin).total_seconds())


def _wait_until_up() -> None:
    while scheduling.health().missing_roles():
        time.sleep(0.1)
    time.sleep(scaled_s(1.0, least_s=0.2))


@contextmanager
def _cluster(kind: str) -> Iterator[None]:
    name = str(connection.settings_dict["NAME"])
    environment = os.environ | {"JOBFARM_TEST_DATABASE": name, "SCHEDULING_GUARDS": "0"}
    process = subprocess.Popen([sys.executable, "manage.py", "cluster", kind], cwd=ROOT, env=environment)
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


if __name__ == "__main__":
    main()
