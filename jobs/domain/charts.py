"""Charts as paths of SVG, in a square of 1000 by 1000 that the page ranges. No text: labels stand around them."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

SIDE: Final = 1000.0
_GAP: Final = 0.15  # of a step, between two bars
_NICE: Final = (1, 2, 3, 5, 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """Bars upon each other, one path for each layer from the bottom up, and the number that the upper edge means."""

    top: int
    layers: tuple[str, ...]
    line: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Two lines on a logarithmic scale, and what the lower and the upper edge mean, in seconds."""

    low_s: float
    high_s: float
    lower: str
    upper: str


def stack(layers: Sequence[Sequence[int]], line: Sequence[int]) -> Stack:
    """Bars for `layers` (of each its number in every step) and a stair for `line`, on one scale from zero."""
    sums = [sum(column) for column in zip(*layers, strict=True)]  # of each step
    top = nice(max([*sums, *line, 1]))
    below = [0] * len(sums)
    paths: list[str] = []
    for layer in layers:
        paths.append(_bars(layer, below, top=top))
        below = [low + number for low, number in zip(below, layer, strict=True)]
    return Stack(top=top, layers=tuple(paths), line=_stair(line, top=top))


def spans(lower: Sequence[float | None], upper: Sequence[float | None]) -> Range | None:
    """Lines through durations in seconds, with gaps where there is none; None when there is none at all."""
    known = [seconds for seconds in (*lower, *upper) if seconds is not None]
    if not known:
        return None
    low = 10.0 ** math.floor(math.log10(max(min(known), 0.001)))
    high = 10.0 ** math.ceil(math.log10(max(*known, low * 1.0001)))
    scale = _Log(low=low, high=high)
    return Range(low_s=low, high_s=high, lower=scale.path(lower), upper=scale.path(upper))


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
        bars.append(
            Bar(kind=kind, begin=round(min(start, 1 - length) * SIDE, 1), length=round(length * SIDE, 1))
        )
    return bars


def _bars(layer: Sequence[int], below: Sequence[int], *, top: int) -> str:
    width = SIDE / max(len(layer), 1)
    return "".join(
        f"M{_n((i + _GAP / 2) * width)} {_n(SIDE - low / top * SIDE)}v{_n(-number / top * SIDE)}"
        f"h{_n((1 - _GAP) * width)}v{_n(number / top * SIDE)}z"
        for i, (number, low) in enumerate(zip(layer, below, strict=True))
        if number
    )


def _stair(line: Sequence[int], *, top: int) -> str:
    width = SIDE / max(len(line), 1)
    points = [f"{_n(SIDE - number / top * SIDE)}H{_n((i + 1) * width)}" for i, number in enumerate(line)]
    return "M0 " + "V".join(points) if points else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Log:
    low: float
    high: float

    def path(self, values: Sequence[float | None]) -> str:
        """A line through the middles of the steps, begun anew after each gap; what stands alone is a dash."""
        width = SIDE / max(len(values), 1)
        parts: list[str] = []
        for i, seconds in enumerate(values):
            if seconds is None:
                continue
            x, y = (i + 0.5) * width, _n(SIDE - self._share(seconds) * SIDE)
            follows = i > 0 and values[i - 1] is not None
            is_alone = not follows and (i + 1 == len(values) or values[i + 1] is None)
            if is_alone:
                parts.append(f"M{_n(x - width / 2)} {y}h{_n(width)}")
            else:
                parts.append(f"{'L' if follows else 'M'}{_n(x)} {y}")
        return "".join(parts)

    def _share(self, seconds: float) -> float:
        share = math.log(max(seconds, self.low) / self.low) / math.log(self.high / self.low)
        return min(max(share, 0.0), 1.0)


def _n(number: float) -> str:
    """As short as it can be said: a chart has hundreds of them."""
    return f"{number:.1f}".removesuffix(".0")
