"""Every benchmark starts and gets to its end at its smallest size, with a number in each row of its tables.

Peers take part if their environments are there already (`python -m benchmarks` makes them, which needs the network
once); otherwise our own contenders run alone. How fast is not asked here: the marks are for an idle machine and for
the full size.
"""

import os
import re
import subprocess
import sys
from typing import Final

import pytest

from benchmarks.__main__ import ROWS
from tests import template
from tests.operations.wheels import ROOT

# Marked so, or else the template that databases are copied from would be made of nothing in a run of this file alone.
pytestmark = [pytest.mark.long, pytest.mark.django_db]
ENDS_WITHIN_S: Final = 300
# Processes of another benchmark, and what runs all of them.
PARTS: Final = {"__main__", "flooding", "ratelimits_work"}
ALONE: Final = {
    path.stem for path in (ROOT / "benchmarks").glob("*.py") if 'if __name__ == "__main__":' in path.read_text()
} - PARTS
MORE: Final = {
    "ratelimits": ["--connections", "1,4", "--without-peers"],
    "trees": ["--against", str(ROOT), "--rounds", "1", "--only", "submit,http finish"],
    "watching --in-flight": ["60"],
}
# Of those that print their rows themselves: what is a row, and how many there are at least.
PRINTED: Final = {
    "lateness": (r"^(idle, one .* p99 [\d.]+ ms|\d+ mutations .* [\d.]+ s, \d+ a second)", 4),
    "outbox": (r"^(the others: p50 [\d.]+ s, p99 [\d.]+ s|finish: [\d.]+ ms)", 2),
    "pages": (r"^.{3} (200 .* \d+ statements|\d+ .*\?p=\d+$)", 80),
    "ratelimits": (r"^(many keys|one hot key) .* [\d,]+ +[\d.]+ ms +[\d.]+ ms$", 10),
    "trees": (r"^(submit|http finish) +\w+ +[\d.]+ -> +[\d.]+ ms a job", 6),
    "watching": (r"^ *\d+ +[\d.]+ +[\d.]+ +\d+ .*\d$", 2),
    "watching --in-flight": (r"^(list|overview) +\d+ +[\d.]+ +[\d.]+ ", 2),
    "webhooks": (r"^(inbox|bare view): \d+/s|^ratio \d|^inbox at half load, \d+/s", 4),
}
TABLE: Final = re.compile(r"^### (.*)\n\n(?:Mark: .*\n\n)?```text\n((?:.+\n)*?)```$", re.MULTILINE)
ROW: Final = re.compile(r"\S.*?(?: {2,}-?[\d.,e+]+)(?: {2,}[\d.,e+-]+)?(?: {2,}[\d.]+)?")


@pytest.mark.parametrize("run", sorted({*ALONE, *ROWS, *PRINTED}))
def test_gets_to_its_end_at_a_thousandth(run: str) -> None:
    """Databases are copies of the tests' template, so that migrations are not most of it."""
    printed = _printed(run)
    if run in PRINTED:
        row, least = PRINTED[run]
        assert len(re.findall(row, printed, re.MULTILINE)) >= least, printed
        return
    tables = dict(TABLE.findall(printed))
    assert tables, printed
    assert len(tables) == printed.count("### "), printed
    assert [what for what, rows in tables.items() if not rows] == []
    assert [row for rows in tables.values() for row in rows.splitlines() if not ROW.fullmatch(row)] == []


def _printed(run: str) -> str:
    name, *option = run.split()
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", *option, *MORE.get(run, [])],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=ENDS_WITHIN_S,
        env={**os.environ, "BENCH_SHARE": "0.001", "BENCH_TEMPLATE": template.name()},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout
