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
        """The table as Markdown, best first; without rounds where all are alike, or a floor where there is none."""
        order = sorted(self.values, key=lambda who: median(self.values[who]), reverse=not self.is_less_better)
        rows = [("", "median", "rounds", "to the floor"), ("---", "---:", "---", "---:"), *map(self._cells, order)]
        shown = [place for place in range(4) if place < 2 or any(row[place] for row in rows[2:])]
        lines = ["| " + " | ".join(row[place] for place in shown) + " |" for row in rows]
        lines[0] = lines[0].replace("|  |", "| |", 1)
        return "\n".join([f"### {self.what}", "", *self._verdict(), *lines, "", *(f"{note}\n" for note in self.notes)])

    def _verdict(self) -> list[str]:
        ratio = self.ratio(self.ours) if self.ours in self.values else None
        if ratio is None or self.mark is None:
            return []
        is_reached = ratio <= self.mark if self.is_less_better else ratio >= self.mark
        word, limit = ("reached" if is_reached else "**missed**", "at most" if self.is_less_better else "at least")
        return [f"Mark: {limit} {self.mark:g} of the floor; {ratio:.2f}: {word}.", ""]

    def _cells(self, who: str) -> tuple[str, str, str, str]:
        values = self.values[who]
        name = f"**{who}**" if who == self.ours else who
        ratio = self.ratio(who)
        least, most = _number(min(values)), _number(max(values))
        rounds = "" if least == most else f"{least}-{most}"
        return name, _number(median(values)), rounds, "" if ratio is None else f"{ratio:.2f}"


def show(tables: Iterable[Table]) -> None:
    """Print them."""
    for table in tables:
        print(f"\n{table.markdown()}")


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
