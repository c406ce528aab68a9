"""The numbers of the front page: the farm as a whole, for everybody, if the settings allow it."""

from typing import Any

from jobs.domain import charts
from jobs.domain.rollups import PERIODS
from jobs.queries import gauges, pages, rollups
from postgres import clock


def numbers() -> dict[str, Any]:
    """What everybody may know: sums over all queues, of this moment and of the last hour. `success`: of those that
    ended and were not canceled, how many succeeded: "97 %", or a dash if there were none; `bars`: of each minute what
    ended, as a path of SVG (jobs.domain.charts)."""
    summary = gauges.summary(viewer=pages.EVERYBODY)
    history = rollups.history(PERIODS["hour"], now=clock.now())
    total = history.total
    success = f"{round(total.success / total.judged * 100)} %" if total.judged else "–"
    [bars] = charts.stack([[point.ended for point in history.points]], []).layers
    now = {"running": summary.running.text, "workers": summary.workers.alive}
    return now | {"ended": total.ended, "success": success, "bars": bars}
