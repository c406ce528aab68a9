"""Benchmarks start, and get to their end: what they name is still there."""

import importlib
import os
import subprocess
import sys

import pytest

from tests.operations.wheels import ROOT

pytestmark = pytest.mark.long
ENDS_WITHIN_S = 300
# Modules for the environments of peers, and those that set Django up for a process of their own.
NOT_IMPORTED = {"__main__", "watching"}


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py")))
def test_imports_what_there_is(name: str) -> None:
    if name not in NOT_IMPORTED:
        importlib.import_module(f"benchmarks.{name}")


def test_pages_answer_on_a_farm_of_a_thousandth() -> None:
    """How fast is not asked here: the goal is one of an idle machine."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.pages"], cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "BENCH_SHARE": "1000", "BENCH_ROUNDS": "1"}, timeout=ENDS_WITHIN_S,
    )  # fmt: skip
    rows = [line.removeprefix(">>>").split() for line in done.stdout.splitlines() if " statements " in line]
    assert len(rows) > 80, done.stderr
    # Pages far behind, which so few rows do not have, lead elsewhere.
    assert [row[-1] for row in rows if row[0] != "200" and "?p=" not in row[-1]] == []
