"""The numbers of the front page: the farm as a whole, for everybody, if the settings allow it."""

from typing import NamedTuple

from jobs.domain import charts
from jobs.domain.rollups import PERIODS
from jobs.queries import gauges, pages, rollups
from postgres import clock


class Numbers(NamedTuple):
    """What everybody may know: sums over all queues, of this moment and of the last hour."""

    running: str
    workers: int
    ended: int
    success_share: float | None
    bars: str  # of each minute what ended, as a path of SVG (jobs.domain.charts)

    @property
    def success(self) -> str:
        """Of those that ended and were not canceled, how many succeeded: "97 %", or a dash if there were none."""
        return "–" if self.success_share is None else f"{round(self.success_share * 100)} %"


def numbers() -> Numbers:
    summary = gauges.summary(viewer=pages.EVERYBODY)
    history = rollups.history(PERIODS["hour"], now=clock.now())
    total = history.total
    share = total.success / total.judged if total.judged else None
    [bars] = charts.stack([[point.ended for point in history.points]], []).layers
    return Numbers(summary.running.text, summary.workers.alive, total.ended, share, bars)
