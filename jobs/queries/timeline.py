"""What all workers ran of late, as lanes."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from jobs.domain.timelines import Lane, Run, lane
from postgres import clock, statements

MOST: Final = 700  # attempts that run, as many that succeeded, as many that ended otherwise: a page draws 2,100 bars
MOST_ENDED: Final = 20_000  # jobs among which those that succeeded are: a bulk may have canceled the rest
MOST_LANES: Final = 40
MOST_WORKERS: Final = 200  # that were seen lately, and may have failed alone
MOST_FAILED: Final = 100  # of each worker


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The lanes from `since` until `until`. `left_out`: workers beyond MOST_LANES; `is_all`: no attempt is left out."""

    since: datetime
    until: datetime
    lanes: tuple[Lane, ...]
    left_out: int
    is_all: bool


def bounds(*, minutes: int) -> dict[str, float]:
    return {
        "seconds": minutes * 60.0, "most": MOST, "most_ended": MOST_ENDED, "most_workers": MOST_WORKERS,
        "most_failed": MOST_FAILED,
    }  # fmt: skip


def of_last(minutes: int) -> Timeline:
    """The attempts of so many minutes; of the workers those that ran most."""
    until = clock.now()
    since = until - timedelta(minutes=minutes)
    rows = statements.load("jobs", "timeline").run(bounds(minutes=minutes))
    runs: dict[int, list[Run]] = {}
    for row in rows:
        runs.setdefault(row.worker_id, []).append(_run(row))
    names = {row.worker_id: row.worker_name or "" for row in sorted(rows, key=lambda row: row.claimed_at)}
    drawn = [
        lane(worker, name, runs[worker], begin_s=since.timestamp(), end_s=until.timestamp())
        for worker, name in sorted(names.items(), key=lambda one: (one[1], one[0]))
    ]
    busiest = sorted(drawn, key=lambda one: -len(one.bars))[:MOST_LANES]
    shown = tuple(one for one in drawn if one in busiest)
    is_all = all(row.complete for row in rows)
    return Timeline(since=since, until=until, lanes=shown, left_out=len(drawn) - len(shown), is_all=is_all)


def _run(row: Any) -> Run:
    return Run(
        job_id=row.job_id, kind=row.kind, outcome=row.outcome, began_s=row.claimed_at.timestamp(),
        ended_s=None if row.ended_at is None else row.ended_at.timestamp(),
    )  # fmt: skip
