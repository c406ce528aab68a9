"""How many jobs stand how, at this moment."""

from dataclasses import dataclass

from jobs.domain.states import Status
from postgres import statements

COUNTED = 10_000  # the pages say "10,000+" beyond it


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """How many jobs stand so: exactly, at least that many, or about as many."""

    status: Status
    title: str
    number: int
    has_more: bool = False
    is_estimate: bool = False

    @property
    def text(self) -> str:
        """ "7", "10,000+", "about 1.2 million"."""
        if self.has_more:
            return f"{self.number:,}+"
        return f"about {_rounded(self.number)}" if self.is_estimate else f"{self.number:,}"


def figures() -> list[Figure]:
    """Jobs by where they stand, all of the farm; waiting ones apart from those that are not due yet."""
    [row] = statements.load("jobs", "states").run({"limit": COUNTED + 1})
    counted = (
        (Status.PENDING, "Due now", row.due),
        (Status.PENDING, "Due later", row.later),
        (Status.IN_PROGRESS, "Running", row.running),
        (Status.FAILED, "Failed", row.failed),
        (Status.TIMED_OUT, "Timed out", row.timed_out),
        (Status.CANCELED, "Canceled", row.canceled),
    )
    success = Figure(
        status=Status.SUCCESS, title="Succeeded", number=row.success, is_estimate=not row.is_small
    )
    return [_counted(status, title, number, row) for status, title, number in counted] + [success]


def _counted(status: Status, title: str, number: int, row: statements.Row) -> Figure:
    # Due now and due later are counted together: where that stopped, each of them is at least what was met.
    stopped = row.due + row.later > COUNTED if status is Status.PENDING else number > COUNTED
    return Figure(status=status, title=title, number=min(number, COUNTED), has_more=stopped and number > 0)


def _rounded(number: int) -> str:
    if number < 1_000_000:
        return f"{round(number, -3):,}"
    return f"{number / 1_000_000:.1f} million"
