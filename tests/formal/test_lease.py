"""The model of lease, claim number and cancel holds in every state it can reach; without one guard it does not."""

import subprocess
from pathlib import Path

import pytest

MODEL = Path(__file__).parents[2] / "docs" / "formal" / "lease.pml"
CLAIMS = (
    "an_end_is_final",
    "a_verdict_is_true",
    "silence_is_noticed",
    "a_silent_job_is_counted",
    "nothing_is_lost_for_nothing",
)
MUTANTS = [
    pytest.param("LEASE_IS_CURRENT(lease) true", "a_verdict_is_true", id="that a lease is the current one"),
    pytest.param("IS_RUNNING true", "an_end_is_final", id="that a job runs whose end is handed in"),
    pytest.param("JANITOR_SEES ran_out", "an_end_is_final", id="that a job runs which is timed out"),
    pytest.param("MAY_BE_CLAIMED (status != in_progress)", "an_end_is_final", id="that a job waits for its claim"),
    pytest.param("MAY_BE_CLAIMED (!(ENDED))", "an_end_is_final", id="that nobody has it yet"),
    pytest.param("MAY_BE_CANCELED true", "an_end_is_final", id="that a job has not ended which is canceled"),
    pytest.param("JANITOR_SEES false", "silence_is_noticed", id="of a janitor"),
    pytest.param("FARM_HEARS true", "nothing_is_lost_for_nothing", id="that the farm could hear"),
    pytest.param("FARM_HEARS (!deaf)", "nothing_is_lost_for_nothing", id="of a grace after it could not"),
    pytest.param("WAS_CONFIRMED true", "nothing_is_lost_for_nothing", id="that somebody spoke for an attempt"),
    pytest.param("MAY_BE_AN_ANSWER false", "nothing_is_lost_for_nothing", id="that one answer may have been lost"),
    pytest.param("MAY_BE_AN_ANSWER true", "a_silent_job_is_counted", id="of how often that was so in a row"),
    pytest.param(
        "STILL_STANDS(lease) true", "nothing_is_lost_for_nothing", id="that what is answered again still stands"
    ),
]


def _search(folder: Path, *claims: str, change: str | None = None) -> list[str]:
    """What the searches over all states print, one for each claim; weak fairness: a process that can always go on
    does at last. A search that stops at its first error is short: optimizing it would take longer than it runs."""
    (folder / "model.pml").write_text(("" if change is None else f"#define {change}\n") + MODEL.read_text())
    compiler = ["gcc", "-O0" if change else "-O1", "-w", "-DCOLLAPSE", "-DNFAIR=4", "-o", "pan", "pan.c"]
    for command in (["spin", "-a", "model.pml"], compiler):
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    search = [str(folder / "pan"), "-a", "-f", "-m1000000", "-N"]
    return [subprocess.check_output([*search, claim], cwd=folder, text=True) for claim in claims]


class TestTheModel:
    def test_keeps_its_promises_in_every_state_it_can_reach(self, tmp_path: Path) -> None:
        for claim, verdict in zip(CLAIMS, _search(tmp_path, *CLAIMS), strict=True):
            assert "errors: 0" in verdict, claim
            assert "max search depth too small" not in verdict, claim

    @pytest.mark.landing
    @pytest.mark.parametrize(("guard", "claim"), MUTANTS)
    def test_breaks_without_the_check(self, tmp_path: Path, guard: str, claim: str) -> None:
        [verdict] = _search(tmp_path, claim, change=guard)
        assert "errors: 1" in verdict
