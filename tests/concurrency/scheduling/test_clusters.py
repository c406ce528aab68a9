"""Clusters as processes: what they run, how they stop, and that nothing is left of them."""

from pathlib import Path

import pytest

from scheduling import operations as scheduling
from scheduling.models import Cluster
from tests.concurrency.scheduling.conftest import marks
from tests.concurrency.scheduling.support import all_ended, is_alive, keeper, states, until
from tests.integration.scheduling import sample

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tables")]


class TestTwoClusters:
    def test_run_both_kinds_and_end_with_nothing_left(self, tmp_path: Path) -> None:
        ledger = tmp_path / "ledger"
        with keeper("--mutations") as mutations, keeper("--actions") as actions:
            for n in range(300):
                scheduling.run_after(0, sample.put, row=n)
                scheduling.run_after(0, sample.append, path=str(ledger), line=str(n))
            until(all_ended, what=lambda: f"{states()} {mutations.log} {actions.log}")
            processes = [*mutations.everything(), *actions.everything()]
            assert len(processes) == 2 * (1 + 1 + 2 + 2)
        assert states() == {"success": 600}
        assert marks() == list(range(300))
        assert sorted(map(int, ledger.read_text().split())) == list(range(300))
        assert [pid for pid in processes if is_alive(pid)] == []
        assert set(Cluster.objects.values_list("ending", flat=True)) == {"stopped"}
