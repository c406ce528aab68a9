"""Charts as paths of SVG, in a square of 1000 by 1000 that the page ranges. No text: labels stand around them."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Final

SIDE: Final = 1000.0
_GAP: Final = 0.15  # of a step, between two bars
_NICE: Final = (1, 2, 3, 5, 10)
_DECADES: Final = (2, 4)  # a logarithmic scale has so many parts at least and at most, each with a label
_EDGES: Final = (0.03, 0.85)  # of the axis, between which a time has room; "now" stands at its end


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """Bars upon each other, one path for each layer from the bottom up, and the number that the upper edge means.

    `ticks` are numbers to label, from the upper edge down to zero, equally far apart; `grid` is a line at each.
    """

    top: int
    ticks: tuple[int, ...]
    grid: str
    layers: tuple[str, ...]
    line: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Two lines on a logarithmic scale, in seconds. `ticks` are powers of ten to label, from the upper edge down to the
    lower, equally far apart; `grid` is a line at each."""

    ticks: tuple[float, ...]
    grid: str
    lower: str
    upper: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A moment to label, and where it lies: "25" per cent of the axis."""

    at: datetime
    percent: str


def ticks(*, begin: datetime, length_s: int, every_s: int) -> list[Tick]:
    """The moments of a period at which whole multiples of `every_s` have passed since 1970, in UTC. With a divisor of
    15 minutes they are round in every zone. None that its label would stick out at, or run into the end's."""
    since_s = begin.timestamp()
    moments = range(-int(-since_s // every_s) * every_s, int(since_s) + length_s, every_s)
    return [
        Tick(at=datetime.fromtimestamp(moment, UTC), percent=_n(share * 100))
        for moment in moments
        if _EDGES[0] <= (share := (moment - since_s) / length_s) <= _EDGES[1]
    ]


def uprights(marks: Iterable[Tick]) -> str:
    """A line from top to bottom at each of these moments."""
    return "".join(f"M{_n(float(mark.percent) * SIDE / 100)} 0V{_n(SIDE)}" for mark in marks)


def blanks(are_known: Sequence[bool]) -> str:
    """An area over each run of steps of which nothing is known."""
    width = SIDE / max(len(are_known), 1)
    runs = [(known, len(list(steps))) for known, steps in groupby(are_known)]
    begins = [sum(length for _, length in runs[:at]) * width for at in range(len(runs))]
    return "".join(
        f"M{_n(begin)} 0h{_n(length * width)}v{_n(SIDE)}H{_n(begin)}z"
        for begin, (known, length) in zip(begins, runs, strict=True)
        if not known
    )


def stack(layers: Sequence[Sequence[int]], line: Sequence[int | None]) -> Stack:
    """Bars for `layers` (of each its number in every step) and a stair for `line`, on one scale from zero. The stair
    has a gap where its number is None."""
    sums = [sum(column) for column in zip(*layers, strict=True)]  # of each step
    top = nice(max([*sums, *(number for number in line if number is not None), 1]))
    below = [0] * len(sums)
    paths: list[str] = []
    for layer in layers:
        paths.append(_bars(layer, below, top=top))
        below = [low + number for low, number in zip(below, layer, strict=True)]
    numbers = _counted_down(top)
    return Stack(top=top, ticks=numbers, grid=_grid(len(numbers)), layers=tuple(paths), line=_stair(line, top=top))


def spans(lower: Sequence[float | None], upper: Sequence[float | None]) -> Range | None:
    """Lines through durations in seconds, with gaps where there is none; None when there is none at all."""
    known = [seconds for seconds in (*lower, *upper) if seconds is not None]
    if not known:
        return None
    first = math.floor(math.log10(max(min(known), 0.001)))
    decades = math.ceil(math.log10(max(*known, 10.0**first * 1.0001))) - first
    first -= max(_DECADES[0] - decades, 0)
    step = math.ceil(decades / _DECADES[1])
    count = max(math.ceil(decades / step), _DECADES[0])
    powers = tuple(10.0 ** (first + step * at) for at in range(count, -1, -1))
    below, above = (_curve(values, low=powers[-1], high=powers[0]) for values in (lower, upper))
    return Range(ticks=powers, grid=_grid(len(powers)), lower=below, upper=above)


def nice(number: float) -> int:
    """The least of 1, 2, 3, 5, 10, 20, 30 ... that is not below the number."""
    unit = 10 ** math.floor(math.log10(max(number, 1)))
    return next(int(step * unit) for step in _NICE if step * unit >= number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A piece of a row of time, as shares of its whole length."""

    kind: str
    begin: float
    length: float


def row(pieces: Iterable[tuple[str, float, float]], *, begin: float, end: float) -> list[Bar]:
    """Pieces (kind, from, to) of a period, drawn to its scale; none is too short to be seen."""
    whole = max(end - begin, 0.001)
    bars: list[Bar] = []
    for kind, since, until in pieces:
        start = min(max((since - begin) / whole, 0.0), 1.0)
        length = min(max((until - since) / whole, 0.004), 1.0)
        bars.append(Bar(kind=kind, begin=round(min(start, 1 - length) * SIDE, 1), length=round(length * SIDE, 1)))
    return bars


def _bars(layer: Sequence[int], below: Sequence[int], *, top: int) -> str:
    width = SIDE / max(len(layer), 1)
    return "".join(
        f"M{_n((i + _GAP / 2) * width)} {_n(SIDE - low / top * SIDE)}v{_n(-number / top * SIDE)}"
        f"h{_n((1 - _GAP) * width)}v{_n(number / top * SIDE)}z"
        for i, (number, low) in enumerate(zip(layer, below, strict=True))
        if number
    )


def _stair(line: Sequence[int | None], *, top: int) -> str:
    width = SIDE / max(len(line), 1)
    parts: list[str] = []
    for i, number in enumerate(line):
        if number is None:
            continue
        begins = "V" if i > 0 and line[i - 1] is not None else f"M{_n(i * width)} "
        parts.append(f"{begins}{_n(SIDE - number / top * SIDE)}H{_n((i + 1) * width)}")
    return "".join(parts)


def _counted_down(top: int) -> tuple[int, ...]:
    """From a number that `nice` makes down to zero in two to five equal steps; from one in a single one."""
    parts = {1: 2, 2: 2, 3: 3, 5: 5}[int(str(top)[0])] if top > 1 else 1
    return tuple(top * part // parts for part in range(parts, -1, -1))


def _grid(lines: int) -> str:
    return "".join(f"M0 {_n(SIDE * at / (lines - 1))}H{_n(SIDE)}" for at in range(lines))


def _curve(values: Sequence[float | None], *, low: float, high: float) -> str:
    """A line through the middles of the steps, begun anew after each gap; what stands alone is a dash."""
    width = SIDE / max(len(values), 1)
    parts: list[str] = []
    for i, seconds in enumerate(values):
        if seconds is None:
            continue
        share = math.log(max(seconds, low) / low) / math.log(high / low)
        x, y = (i + 0.5) * width, _n(SIDE - min(max(share, 0.0), 1.0) * SIDE)
        follows = i > 0 and values[i - 1] is not None
        is_alone = not follows and (i + 1 == len(values) or values[i + 1] is None)
        if is_alone:
            parts.append(f"M{_n(x - width / 2)} {y}h{_n(width)}")
        else:
            parts.append(f"{'L' if follows else 'M'}{_n(x)} {y}")
    return "".join(parts)


def _n(number: float) -> str:
    """As short as it can be said: a chart has hundreds of them."""
    return f"{number:.1f}".removesuffix(".0")
