"""What a farm promises when its processes are killed all the time (promises 7 and 8 of docs/promises.md)."""

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
from scheduling.operations.functions import insert, new
from tests.effort import share
from tests.scheduling.concurrency.conftest import COUNTERS, counters, marks
from tests.scheduling.concurrency.support import SECONDS, Supervisor, all_ended, keepers, kill_one, states, until
from tests.scheduling.integration import sample

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tables")]

RNG = random.Random(7)
DRAINED_WITHIN_S = 120.0


def logs(keepers: list[Supervisor]) -> str:
    return "\n".join(k.log[-4000:] for k in keepers)


class TestAFarmUnderKills:
    @pytest.mark.landing  # of many kills; one of all processes is tried below
    def test_has_each_mutation_once_no_action_twice_each_cron_once_and_stays_nowhere_frozen(
        self, tmp_path: Path
    ) -> None:
        """Half a minute, or a quarter of one where the run need not be whole, in which a process of the clusters is
        killed every second.

        5,000 mutations, or half of them, in bursts with pauses in between, so that workers are killed idle as well as
        busy; a cron of two seconds beside them on the same two clusters; and 2,000 actions of 50 ms on a third.
        """
        per_burst, bursts, seconds, ledger = share(1000, of=2), 5, 2 * SECONDS, tmp_path / "ledger"
        with keepers("--mutations", "--mutations", "--actions --workers 8") as started:
            first = make_cron("every two seconds", sample.nothing, every_s=2)
            schedule_actions(2000, ledger)
            began, killed = time.monotonic(), 0
            for burst in range(bursts):
                with transaction.atomic():
                    insert([new(sample.add, {"counter": 1 + n % COUNTERS}) for n in range(per_burst)])
                killed += kill_until(began + (burst + 1) * seconds / bursts, started[:2], actions=started[2])
            until(all_ended, within_s=DRAINED_WITHIN_S, what=lambda: f"{states()}\n{logs(started)}")
            until(lambda: len(firings()) >= seconds / 2, what=lambda: f"{firings()}\n{logs(started)}")
            scheduling.pause("every two seconds")
            until(all_ended, what=lambda: f"{states()}\n{logs(started)}")
            # The one that was killed last may be starting again.
            until(
                lambda: Cluster.objects.filter(ended_at=None).count() == 3, what=lambda: f"{states()}\n{logs(started)}"
            )
        assert set(states(kind="mutation")) == {"success"}
        assert counters() == dict.fromkeys(range(1, COUNTERS + 1), per_burst * bursts // COUNTERS)
        assert not Due.objects.exists()
        assert killed >= seconds / 3  # a busy machine is slower at killing, too
        assert_fired_once_each(first)
        assert_none_twice(ledger, count=2000)


def schedule_actions(count: int, ledger: Path) -> None:
    given = [{"path": str(ledger), "line": str(n), "seconds": 0.05} for n in range(count)]
    with transaction.atomic():
        insert([new(sample.append, args) for args in given])


def kill_until(moment: float, keepers: list[Supervisor], *, actions: Supervisor) -> int:
    """Kill a process of `keepers` a second until this moment of the monotonic clock; how many were killed.

    And two of `actions`, until eight actions were cut off, which leaves most of them to end."""
    killed = 0
    while time.monotonic() < moment:
        killed += kill_one(keepers, RNG) is not None
        if states(kind="action").get("unknown", 0) < 8:
            kill_one([actions], RNG)
            kill_one([actions], RNG)
        time.sleep(1.0)  # the pace of the killing, not a wait for something
    return killed


def make_cron(name: str, function: Callable[..., Any], *, every_s: float) -> datetime:
    """A cron that catches up and may overlap, as a row alone; its first fire time."""
    first = clock.now() + timedelta(seconds=1)
    Cron.objects.create(
        name=name,
        source="person",
        function=f"{function.__module__}.{function.__qualname__}",
        schedule=scheduling.interval(seconds=every_s).text(),
        missed="catch_up",
        at_most=1000,
        overlap="allow",
        next_at=first,
    )
    return first


def firings() -> list[datetime | None]:
    """When the cron has fired so far."""
    of_it = ScheduledFunction.objects.filter(cron_id="every two seconds").order_by("fire_at")
    return list(of_it.values_list("fire_at", flat=True))


def assert_fired_once_each(first: datetime) -> None:
    fired = firings()
    assert fired == [first + timedelta(seconds=2 * n) for n in range(len(fired))]
    assert Cron.objects.get().missed_count == Cron.objects.get().skipped_count == 0


def assert_none_twice(ledger: Path, *, count: int) -> None:
    found, lines = states(kind="action"), Counter(ledger.read_text().split())
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
        with keepers("--mutations", "--actions") as [mutations, actions]:
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
