"""The mutation that `benchmarks.scheduled` has the cluster run; its processes import it by its name."""

from benchmarks.contenders import updates
from scheduling.operations import mutation


@mutation
def update(*, n: int) -> None:
    """Change row `n`."""
    updates.update(n)
