"""The model of lease, claim number and cancel holds in every state it can reach; without one guard it does not."""

import subprocess
from pathlib import Path

import pytest

MODEL = Path(__file__).parents[2] / "docs" / "formal" / "lease.pml"
CLAIMS = ("an_end_is_final", "a_verdict_is_true", "silence_is_noticed")
MUTANTS = [
    pytest.param("LEASE_IS_CURRENT(lease) true", "a_verdict_is_true", id="that a lease is the current one"),
    pytest.param("IS_RUNNING true", "an_end_is_final", id="that a job runs whose end is handed in"),
    pytest.param("JANITOR_SEES ran_out", "an_end_is_final", id="that a job runs which is timed out"),
    pytest.param(
        "MAY_BE_CLAIMED (status != in_progress)", "an_end_is_final", id="that a job waits for its claim"
    ),
    pytest.param("MAY_BE_CLAIMED (!(ENDED))", "an_end_is_final", id="that nobody has it yet"),
    pytest.param("MAY_BE_CANCELED true", "an_end_is_final", id="that a job has not ended which is canceled"),
    pytest.param("JANITOR_SEES false", "silence_is_noticed", id="of a janitor"),
]


def _search(folder: Path, claim: str, *changes: str) -> str:
    """What the search over all states prints; weak fairness: a process that can always go on does at last."""
    lines = [*(f"#define {change}" for change in changes), MODEL.read_text()]
    (folder / "model.pml").write_text("\n".join(lines))
    compiler = ["gcc", "-O1", "-w", "-DCOLLAPSE", "-DNFAIR=3", "-o", "pan", "pan.c"]
    for command in (["spin", "-a", "model.pml"], compiler):
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    search = [str(folder / "pan"), "-a", "-f", "-m1000000", "-N", claim]
    return subprocess.run(search, cwd=folder, check=True, capture_output=True, text=True).stdout


class TestTheModel:
    @pytest.mark.parametrize("claim", CLAIMS)
    def test_keeps_the_promise_that(self, tmp_path: Path, claim: str) -> None:
        said = _search(tmp_path, claim)
        assert "errors: 0" in said
        assert "max search depth too small" not in said

    @pytest.mark.parametrize(("guard", "claim"), MUTANTS)
    def test_breaks_without_the_check(self, tmp_path: Path, guard: str, claim: str) -> None:
        assert "errors: 1" in _search(tmp_path, claim, guard)
