"""The moves of scheduled functions between their states, as docs/scheduling.md says them."""

from functools import cache
from pathlib import Path

from scheduling.domain.calls import Kind

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "scheduling.md"


@cache
def moves(kind: Kind) -> frozenset[tuple[str, str]]:
    """From which state to which functions of this kind move; from "-" when they are scheduled."""
    _, states_and_more = DOCUMENT.read_text().split("## States\n")
    rows = [line.strip("| ").split(" | ") for line in states_and_more.split("## ")[0].splitlines() if " | " in line]
    return frozenset((source, target) for source, target, kinds, _ in rows[2:] if f"{kind}s" in kinds.split(" and "))
