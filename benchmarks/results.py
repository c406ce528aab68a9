"""Tables of what was measured, and the page that shows them."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median


@dataclass(kw_only=True)
class Table:
    """Values of the rounds by contender. With a `floor`, our ratio to it is the median of the rounds' ratios.

    `mark` is what that ratio should reach: at least, or at most where `is_less_better`.
    """

    what: str
    floor: str | None = None
    ours: str = "jobfarm"
    mark: float | None = None
    is_less_better: bool = False
    notes: list[str] = field(default_factory=list)
    values: dict[str, list[float]] = field(default_factory=dict)

    def add(self, who: str, value: float) -> None:
        """One more round of this contender."""
        self.values.setdefault(who, []).append(value)

    def ratio(self, who: str) -> float | None:
        """This contender's ratio to the floor."""
        if self.floor is None or self.floor not in self.values:
            return None
        pairs = zip(self.values[who], self.values[self.floor], strict=False)
        return median(value / below for value, below in pairs)

    def markdown(self) -> str:
        """The table as a block of text, best first: who, median, least and most of the rounds, ratio to the floor."""
        order = sorted(self.values, key=lambda who: median(self.values[who]), reverse=not self.is_less_better)
        rows = [self._cells(who) for who in order]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [_aligned(row, widths) for row in rows]
        head = [f"### {self.what}", "", *self._verdict()]
        return "\n".join([*head, "```text", *lines, "```", "", *(f"{note}\n" for note in self.notes)])

    def _verdict(self) -> list[str]:
        ratio = self.ratio(self.ours) if self.ours in self.values else None
        if ratio is None or self.mark is None:
            return []
        is_reached = ratio <= self.mark if self.is_less_better else ratio >= self.mark
        word, limit = ("reached" if is_reached else "**missed**", "at most" if self.is_less_better else "at least")
        return [f"Mark: {limit} {self.mark:g}; {ratio:.2f}: {word}.", ""]

    def _cells(self, who: str) -> tuple[str, str, str, str]:
        values = self.values[who]
        ratio = self.ratio(who)
        least, most = _number(min(values)), _number(max(values))
        rounds = "" if least == most else f"{least}-{most}"
        return who, _number(median(values)), rounds, "" if ratio is None else f"{ratio:.2f}"


def show(tables: Iterable[Table]) -> None:
    """Print them."""
    for table in tables:
        print(f"\n{table.markdown()}")


def _aligned(cells: tuple[str, ...], widths: list[int]) -> str:
    """A line of the table: the first column to the left, numbers to the right."""
    name, *numbers = cells
    shown = [number.rjust(width) for number, width in zip(numbers, widths[1:], strict=True) if width]
    return "  ".join([name.ljust(widths[0]), *shown]).rstrip()


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
