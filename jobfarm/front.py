"""The numbers of the front page: the farm as a whole, for everybody, if the settings allow it."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from jobs.domain.rollups import PERIODS
from jobs.queries import gauges, pages, rollups
from postgres import clock

CHART_HEIGHT: Final = 40  # of the drawing, whose bars are ten units apart
STEP: Final = 10


class Bar(NamedTuple):
    """A minute of the chart, in units of the drawing: where it begins, its upper edge and its height."""

    x: int
    y: float
    height: float


class Numbers(NamedTuple):
    """What everybody may know: sums over all queues, of this moment and of the last hour."""

    running: str
    workers: int
    ended: int
    success_share: float | None
    bars: Sequence[Bar]

    @property
    def success(self) -> str:
        """Of those that ended and were not canceled, how many succeeded: "97 %", or a dash if there were none."""
        return "–" if self.success_share is None else f"{round(self.success_share * 100)} %"

    @property
    def width(self) -> int:
        return STEP * len(self.bars)


def numbers() -> Numbers:
    summary = gauges.summary(viewer=pages.EVERYBODY)
    history = rollups.history(PERIODS["hour"], now=clock.now())
    total = history.total
    share = total.success / total.judged if total.judged else None
    drawn = bars([point.ended for point in history.points])
    return Numbers(summary.running.text, summary.workers.alive, total.ended, share, drawn)


def bars(counts: Sequence[int]) -> list[Bar]:
    unit = CHART_HEIGHT / max([*counts, 1])
    heights = [round(count * unit, 1) for count in counts]
    return [Bar(STEP * at, round(CHART_HEIGHT - height, 1), height) for at, height in enumerate(heights)]
