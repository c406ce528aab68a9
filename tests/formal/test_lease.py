"""The model of lease, claim number and cancel holds in every state it can reach; without one guard it does not."""

import re
import subprocess
from pathlib import Path

import pytest

MODEL = Path(__file__).parents[2] / "docs" / "formal" / "lease.pml"
CLAIMS = ("an_end_is_final", "silence_is_noticed", "what_always_holds")
# What has to come about at last, or stays so: the others are wrong in one state.
OF_CYCLES = {"an_end_is_final": ["-a"], "silence_is_noticed": ["-a", "-f"]}
MUTANTS = [
    pytest.param("LEASE_IS_CURRENT(lease) true", "a_verdict_is_true", id="that a lease is the current one"),
    pytest.param("IS_RUNNING true", "an_end_is_final", id="that a job runs whose end is handed in"),
    pytest.param("JANITOR_SEES ran_out", "an_end_is_final", id="that a job runs which is timed out"),
    pytest.param("MAY_BE_CLAIMED (status != in_progress)", "an_end_is_final", id="that a job waits for its claim"),
    pytest.param("MAY_BE_CLAIMED (!(ENDED))", "an_end_is_final", id="that nobody has it yet"),
    pytest.param("MAY_BE_CANCELED true", "an_end_is_final", id="that a job has not ended which is canceled"),
    pytest.param("JANITOR_SEES (status == in_progress)", "nothing_is_lost_for_nothing", id="that its lease ran out"),
    pytest.param("JANITOR_SEES false", "silence_is_noticed", id="of a janitor"),
    pytest.param("FARM_HEARS true", "nothing_is_lost_for_nothing", id="that the farm could hear"),
    pytest.param("FARM_HEARS (!grace)", "nothing_is_lost_for_nothing", id="that the farm hears"),
    pytest.param("FARM_HEARS (!deaf)", "nothing_is_lost_for_nothing", id="of a grace after it could not"),
    pytest.param("WAS_CONFIRMED true", "nothing_is_lost_for_nothing", id="that somebody spoke for an attempt"),
    pytest.param("WAS_CONFIRMED false", "nothing_is_lost_for_nothing", id="that nobody did, for what is not counted"),
    pytest.param("MAY_BE_AN_ANSWER false", "nothing_is_lost_for_nothing", id="that one answer may have been lost"),
    pytest.param("MAY_BE_AN_ANSWER true", "a_silent_job_is_counted", id="of how often that was so in a row"),
    pytest.param(
        "STILL_STANDS(lease) true", "nothing_is_lost_for_nothing", id="that what is answered again still stands"
    ),
    pytest.param(
        "STILL_STANDS(lease) (lease == fence && confirmed_fence < lease)", "an_end_is_final",
        id="that what is answered again runs",
    ),
    pytest.param(
        "STILL_STANDS(lease) (status == in_progress && confirmed_fence < lease)", "an_end_is_final",
        id="that what is answered again is the last claim",
    ),
    pytest.param(
        "STILL_STANDS(lease) (status == in_progress && lease == fence)", "a_repeat_is_answered_alike",
        id="that what is answered again was not begun",
    ),
    pytest.param("MAY_BE_CLAIMED (status == pending)", "a_wait_lasts_until_its_signal", id="that it waits for nothing"),
    pytest.param("CAME_BEFORE false", "a_wait_lasts_until_its_signal", id="of what came before the wait"),
    pytest.param("CAME_BEFORE true", "a_wait_lasts_until_its_signal", id="that it came before the wait"),
    pytest.param("IS_WAITED_FOR false", "a_wait_lasts_until_its_signal", id="of who waits for a signal"),
    pytest.param("IS_WAITED_FOR true", "a_wait_lasts_until_its_signal", id="that somebody waits for a signal"),
    pytest.param("NOT_NAMED true", "nothing_is_lost_for_nothing", id="that what is withdrawn was not begun"),
    pytest.param("MAY_EXPIRE (status == pending)", "nothing_is_lost_for_nothing", id="that what expires never began"),
    pytest.param("MAY_EXPIRE (confirmed_fence == 0)", "an_end_is_final", id="that what expires waits"),
    pytest.param("LAST_FAILURE true", "nothing_is_lost_for_nothing", id="that a failure is the last"),
    pytest.param("FAILED_BEFORE_THE_LAST true", "nothing_is_lost_for_nothing", id="that a failure is not the last"),
    pytest.param("LOST_FOR_GOOD true", "nothing_is_lost_for_nothing", id="that a loss is the last"),
    pytest.param("LOST_FOR_NOW again", "nothing_is_lost_for_nothing", id="that a loss is not the last"),
    pytest.param(
        "LOST_FOR_NOW (failures < MAX_FAILURES)", "nothing_is_lost_for_nothing", id="that its kind is tried again"
    ),
    pytest.param("IS_THE_SAME_CALL(lease) false", "a_repeat_is_answered_alike", id="that an end is the same once more"),
]  # fmt: skip


def _search(folder: Path, *claims: str, change: str | None = None) -> list[str]:
    """What the searches over all states print, one for each claim; weak fairness: a process that can always go on
    does at last. A search that stops at its first error is short: optimizing it would take longer than it runs."""
    (folder / "model.pml").write_text(("" if change is None else f"#define {change}\n") + MODEL.read_text())
    compiler = ["gcc", "-O0" if change else "-O2", "-w", "-DNFAIR=4", "-o", "pan", "pan.c"]
    for command in (["spin", "-a", "model.pml"], compiler):
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    search = [str(folder / "pan"), "-m1000000"]
    return [
        subprocess.check_output([*search, *OF_CYCLES.get(claim, ()), "-N", claim], cwd=folder, text=True)
        for claim in claims
    ]


class TestTheModel:
    def test_has_no_guard_that_is_left_out_below_by_nobody(self) -> None:
        guards = MODEL.read_text().partition("/* The guards,")[2]
        tried = {str(mutant.values[0]).partition(" ")[0].partition("(")[0] for mutant in MUTANTS}
        assert set(re.findall(r"^#ifndef (\w+)", guards, re.MULTILINE)) == tried

    @pytest.mark.landing
    def test_keeps_its_promises_in_every_state_it_can_reach(self, tmp_path: Path) -> None:
        for claim, verdict in zip(CLAIMS, _search(tmp_path, *CLAIMS), strict=True):
            assert "errors: 0" in verdict, claim
            assert "max search depth too small" not in verdict, claim

    @pytest.mark.landing
    @pytest.mark.parametrize(("guard", "claim"), MUTANTS)
    def test_breaks_without_the_check(self, tmp_path: Path, guard: str, claim: str) -> None:
        [verdict] = _search(tmp_path, claim, change=guard)
        assert "errors: 1" in verdict
