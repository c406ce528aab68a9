"""docs/webhooks.md says what the code does: addresses, limits of bodies, states, crons."""

import re
from pathlib import Path

from tests.looped import looped
from webhooks import crons
from webhooks.domain.deliveries import Source, Status
from webhooks.operations import deliveries
from webhooks.sources import configs

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "docs" / "webhooks.md").read_text()
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in TEXT.splitlines() if line[:1] == "|"]


def row(first: str) -> list[str]:
    """The one row of a table that begins so."""
    [found] = [cells for cells in ROWS if cells[0] == first]
    return found


@looped("source", Source)
def test_names_each_address_with_its_largest_body(source: Source) -> None:
    sender = configs.CONFIGS[source]
    _, address, _, largest = row(f"`{source}`")
    assert address == f"`{sender.path}`"
    assert largest.startswith(f"{sender.body_limit >> 20} MiB")


def test_names_each_state_and_each_cron() -> None:
    assert {cells[0].strip("`") for cells in ROWS} >= set(Status)
    declared = re.findall(r'declare\(\s*"([^"]+)"', Path(crons.__file__).read_text())
    assert len(declared) == 3  # and the one that has a constant, since a delivery hastens it
    declared.append(deliveries.DRAIN)
    assert {cells[0] for cells in ROWS} >= set(declared)
