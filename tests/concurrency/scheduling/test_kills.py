"""What a farm promises when its processes are killed all the time (DESIGN promises 7 and 8)."""

import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from django.db import transaction

from scheduling.models import Cluster, Due
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
    def test_have_each_effect_exactly_once_and_the_cluster_never_stays_frozen(self) -> None:
        """5,000 in bursts with pauses in between, so that workers are killed idle as well as busy."""
        per_burst, bursts = 1000, 5
        pause_s = SECONDS / bursts
        with keeper("--mutations") as one:
            began = time.monotonic()
            killed = 0
            for burst in range(bursts):
                with transaction.atomic():
                    insert([new(sample.add, {"counter": 1 + n % COUNTERS}) for n in range(per_burst)])
                until_at = began + (burst + 1) * pause_s
                killed += kill_until(lambda: time.monotonic() >= until_at, [one])  # noqa: B023
            until(all_ended, within_s=DRAINED_WITHIN_S, what=lambda: f"{states()}\n{logs([one])}")
            heard = Cluster.objects.filter(ended_at=None).count()
        assert states() == {"success": per_burst * bursts}
        assert counters() == dict.fromkeys(range(1, COUNTERS + 1), per_burst * bursts // COUNTERS)
        assert not Due.objects.exists()
        assert killed >= SECONDS * 0.7
        assert heard == 1


class TestActionsUnderKills:
    def test_are_never_started_twice_and_those_cut_off_are_unknown(self, tmp_path: Path) -> None:
        ledger = tmp_path / "ledger"
        count = 2000
        with keeper("--actions", "--workers", "6") as one:
            with transaction.atomic():
                insert(
                    [
                        new(sample.append, {"path": str(ledger), "line": str(n), "seconds": 0.05})
                        for n in range(count)
                    ]
                )

            def enough() -> bool:
                return all_ended() or states().get("unknown", 0) >= 8

            kill_until(enough, [one], every_s=0.5)
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
