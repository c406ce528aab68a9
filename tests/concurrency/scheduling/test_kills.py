"""What a farm promises when its processes are killed all the time (DESIGN promises 7 and 8)."""

import random
import time
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction

from postgres import clock
from scheduling import operations as scheduling
from scheduling.models import Cluster, Cron, Due, ScheduledFunction
from scheduling.operations.scheduling import insert, new
from tests.concurrency.scheduling.conftest import COUNTERS, counters, marks
from tests.concurrency.scheduling.support import (
    SECONDS,
    Keeper,
    all_ended,
    keeper,
    kill_one,
    states,
    until,
)
from tests.integration.scheduling import sample

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tables")]

RNG = random.Random(7)
BACK_WITHIN_S = 15.0  # after the death of a process
DRAINED_WITHIN_S = 120.0


def kill_until(is_over: Callable[[], bool], keepers: list[Keeper], *, every_s: float = 1.0) -> int:
    """Kill a process a second until `is_over`; how many were killed."""
    killed = 0
    while not is_over():
        killed += kill_one(keepers, RNG) is not None
        time.sleep(every_s)  # the pace of the killing, not a wait for something
    return killed


def logs(keepers: list[Keeper]) -> str:
    return "\n".join(k.log[-4000:] for k in keepers)


class TestMutationsUnderKills:
    def test_have_each_effect_once_crons_fire_once_and_no_cluster_stays_frozen(self) -> None:
        """5,000 in bursts with pauses in between, so that workers are killed idle as well as busy, for a minute.

        Beside them, on the same two clusters, a cron of two seconds: every fire time of that minute once.
        """
        per_burst, bursts, seconds = 1000, 5, 2 * SECONDS
        with keeper("--mutations") as one, keeper("--mutations") as two:
            first = make_cron("every two seconds", sample.nothing, every_s=2)
            began, killed = time.monotonic(), 0
            for burst in range(bursts):
                with transaction.atomic():
                    insert([new(sample.add, {"counter": 1 + n % COUNTERS}) for n in range(per_burst)])
                until_at = began + (burst + 1) * seconds / bursts
                killed += kill_until(lambda: time.monotonic() >= until_at, [one, two])  # noqa: B023
            until(all_ended, within_s=DRAINED_WITHIN_S, what=lambda: f"{states()}\n{logs([one, two])}")
            scheduling.pause("every two seconds")
            until(all_ended, what=lambda: f"{states()}\n{logs([one, two])}")
            living = Cluster.objects.filter(ended_at=None).count()
        assert set(states()) == {"success"}
        assert counters() == dict.fromkeys(range(1, COUNTERS + 1), per_burst * bursts // COUNTERS)
        assert not Due.objects.exists()
        assert killed >= seconds * 0.7
        assert living == 2
        fired = fire_times("every two seconds")
        assert fired == [first + timedelta(seconds=2 * n) for n in range(len(fired))]
        assert len(fired) >= seconds / 2
        assert Cron.objects.get().missed_count == Cron.objects.get().skipped_count == 0


def make_cron(name: str, function: Callable[..., Any], *, every_s: float) -> datetime:
    """A cron that catches up and may overlap, as a row alone; its first fire time."""
    first = clock.now() + timedelta(seconds=1)
    Cron.objects.create(
        name=name,
        function=f"{function.__module__}.{function.__qualname__}",
        schedule=scheduling.interval(seconds=every_s).text(),
        missed="catch_up",
        at_most=1000,
        overlap="allow",
        next_at=first,
    )
    return first


def fire_times(cron: str) -> list[datetime | None]:
    fired = ScheduledFunction.objects.filter(cron_id=cron).order_by("fire_at")
    return list(fired.values_list("fire_at", flat=True))


class TestActionsUnderKills:
    def test_are_never_started_twice_and_those_cut_off_are_unknown(self, tmp_path: Path) -> None:
        ledger = tmp_path / "ledger"
        count = 2000
        with keeper("--actions", "--workers", "8") as one:
            with transaction.atomic():
                insert(
                    [
                        new(sample.append, {"path": str(ledger), "line": str(n), "seconds": 0.05})
                        for n in range(count)
                    ]
                )

            def enough() -> bool:
                return all_ended() or states().get("unknown", 0) >= 8

            kill_until(enough, [one], every_s=0.4)
            until(all_ended, within_s=DRAINED_WITHIN_S, what=lambda: f"{states()}\n{logs([one])}")
        found = states()
        lines = Counter(ledger.read_text().split())
        assert set(lines.values()) == {1}, "an action was started twice"
        assert found["unknown"] >= 5
        assert found["success"] + found["unknown"] == count
        assert found["success"] <= len(lines) <= count


class TestAClusterThatIsKilledAsAWhole:
    def test_goes_on_where_it_was_when_it_is_started_again(self, tmp_path: Path) -> None:
        """SIGKILL of all its processes in the middle of a thousand due rows: all end, none twice."""
        ledger = tmp_path / "ledger"
        count = 1000
        with transaction.atomic():
            insert([new(sample.put, {"row": n}) for n in range(count)])
            insert([new(sample.append, {"path": str(ledger), "line": str(n)}) for n in range(count)])
        with keeper("--mutations") as mutations, keeper("--actions") as actions:
            until(lambda: states().get("success", 0) > count / 5, pause_s=0.005)
            mutations.kill_all()
            actions.kill_all()
            before = states()
            mutations.start()
            actions.start()
            until(all_ended, within_s=60, what=lambda: f"{states()}\n{logs([mutations, actions])}")
        found = states()
        assert before["pending"] > 0
        assert marks() == list(range(count))
        assert set(Counter(ledger.read_text().split()).values()) == {1}
        assert found["success"] + found.get("unknown", 0) == 2 * count
        assert found.get("unknown", 0) <= 2
