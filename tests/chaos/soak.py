"""What a farm needs over hours: memory and descriptors of each process, sessions and tables of the database, sampled
while things break; a page with charts at the end, and what has grown."""

import contextlib
import html
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import psycopg

from tests.chaos.farm import Farm

EVERY_S: Final = 10.0
LEAST: Final = 20  # samples in a quarter: below a quarter of an hour what is killed and started again is all there is
WIDTH, HEIGHT = 720, 160
COLOURS: Final = ("#3b4fc4", "#b3261e", "#2e7d4f", "#8a5a00", "#6a3fa0", "#00708a", "#555555", "#a0006a", "#5d7a00")
# By which factor, and by how much, a need has to be more in the last quarter of the time than in the second to be
# named. Not of tables: a farm keeps what it did.
GROWS: Final = {"memory, MB": (1.5, 50.0), "descriptors": (1.5, 50.0), "sessions of the database": (1.5, 20.0)}
_SIZES: Final = """
SELECT relname, pg_total_relation_size(oid) / 1e6 FROM pg_class
WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace ORDER BY 2 DESC LIMIT 8"""
_SESSIONS: Final = "SELECT count(*) FROM pg_stat_activity WHERE datname IS NOT NULL"

Series = dict[str, list[tuple[float, float]]]  # by name (seconds, value)


class Soak:
    """Samples until it is stopped."""

    def __init__(self, farm: Farm) -> None:
        self.charts: dict[str, Series] = defaultdict(lambda: defaultdict(list))
        self._farm, self._began_s = farm, time.monotonic()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin to sample."""
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._is_over.set()
        self._thread.join()

    def write(self, place: Path) -> list[str]:
        """Write the page; what has grown, a sentence each."""
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(page(self.charts))
        return grown(self.charts)

    def _run(self) -> None:
        while not self._is_over.wait(EVERY_S):
            for name, pids in self._farm.crew.pids().items():
                self._note("memory, MB", name, sum(map(_memory_mb, pids)))
                self._note("descriptors", name, sum(map(_descriptors, pids)))
            with contextlib.suppress(psycopg.Error):  # it is what is broken at this moment
                self._ask_database()

    def _ask_database(self) -> None:
        with psycopg.connect(self._farm.postgres.direct_url, connect_timeout=2) as connection:
            [(sessions,)] = connection.execute(_SESSIONS).fetchall()
            self._note("sessions of the database", "all", sessions)
            for name, megabytes in connection.execute(_SIZES):
                self._note("tables, MB", name, float(megabytes))
            for table in ("jobs_live", "outbox_message", "jobs_mark"):
                [(count,)] = connection.execute(f"SELECT count(*) FROM {table}").fetchall()
                self._note("rows", table, count)

    def _note(self, chart: str, name: str, value: float) -> None:
        self.charts[chart][name].append((time.monotonic() - self._began_s, value))


def grown(charts: dict[str, Series]) -> list[str]:
    """What needs more in the last quarter of the time than in the second, by half and by what is no noise."""
    return [
        f"{chart} of {name}: {before:.0f} in the second quarter, {after:.0f} in the last"
        for chart, (factor, least) in GROWS.items() for name, points in charts.get(chart, {}).items()
        for before, after in _quarters([value for _, value in points])
        if after > before * factor and after - before > least
    ]  # fmt: skip


def page(charts: dict[str, Series]) -> str:
    """A page with a chart of each, which needs nothing else."""
    parts = ["<!doctype html><meta charset=utf-8><title>Soak</title><body style='font:14px sans-serif'><h1>Soak</h1>"]
    for chart, series in charts.items():
        parts += [f"<h2>{html.escape(chart)}</h2>", _drawn(series)]
    return "\n".join([*parts, "</body>"])


def _drawn(series: Series) -> str:
    end_s = max((second for points in series.values() for second, _ in points), default=1.0) or 1.0
    most = max((value for points in series.values() for _, value in points), default=1.0) or 1.0
    lines = [
        f'<polyline fill="none" stroke="{colour}" points="'
        + " ".join(f"{x / end_s * WIDTH:.1f},{HEIGHT - y / most * HEIGHT:.1f}" for x, y in points)
        + f'"/><text x="{WIDTH + 8}" y="{14 + 16 * place}" fill="{colour}">{html.escape(name)}: '
        + f"{points[0][1]:.0f} to {points[-1][1]:.0f}, {max(y for _, y in points):.0f} at most</text>"
        for place, (colour, (name, points)) in enumerate(_coloured(series))
    ]
    height = max(HEIGHT, 16 * len(series)) + 20
    scale = f'<text x="0" y="{height - 4}">{end_s / 3600:.2f} h; the top is {most:.0f}</text>'
    return f'<svg width="{WIDTH + 360}" height="{height}" role="img">{"".join(lines)}{scale}</svg>'


def _coloured(series: Series) -> Iterator[tuple[str, tuple[str, list[tuple[float, float]]]]]:
    for place, item in enumerate(series.items()):
        yield COLOURS[place % len(COLOURS)], item


def _quarters(values: Sequence[float]) -> list[tuple[float, float]]:
    """The medians of the second and the last quarter; none of too few values."""
    size = len(values) // 4
    return [(statistics.median(values[size : 2 * size]), statistics.median(values[-size:]))] if size >= LEAST else []


def _memory_mb(pid: int) -> float:
    with contextlib.suppress(OSError, IndexError, StopIteration):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("Pss:")).split()[1]) / 1000
    return 0.0


def _descriptors(pid: int) -> int:
    with contextlib.suppress(OSError):
        return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
    return 0
