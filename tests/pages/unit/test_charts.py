"""Paths of charts: on one scale, within their square, with gaps where nothing is known."""

import math
import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, strategies as st

from jobs.domain import charts
from tests.looped import looped

NUMBERS = st.lists(st.tuples(*[st.integers(0, 10_000)] * 4), min_size=1, max_size=50)
SECONDS = st.none() | st.floats(0.0, 1e7)


def _ends(path: str) -> list[tuple[float, float]]:
    """Where each bar's lower left corner is, and how high it goes."""
    return [(float(y), float(height)) for y, height in re.findall(r"M[\d.]+ ([\d.]+)v(-[\d.]+)", path)]


class TestAStack:
    def test_stands_on_zero_each_layer_upon_the_one_below(self) -> None:
        stack = charts.stack([[5, 0], [3, 2]], [10, 1])
        assert stack.top == 10
        assert [_ends(path) for path in stack.layers] == [[(1000, -500)], [(500, -300), (1000, -200)]]
        assert stack.line == "M0 0H500V900H1000"

    @given(NUMBERS)
    def test_never_leaves_its_square(self, columns: list[tuple[int, ...]]) -> None:
        *layers, line = [list(row) for row in zip(*columns, strict=True)]
        stack = charts.stack(layers, line)
        for path in stack.layers:
            assert all(-0.11 <= y + height <= y <= 1000 for y, height in _ends(path))
        assert "nan" not in str(stack)

    def test_of_nothing_is_empty_and_has_a_scale_all_the_same(self) -> None:
        stack = charts.stack([[0, 0]], [0, 0])
        assert (stack.top, stack.layers, stack.line) == (1, ("",), "M0 1000H500V1000H1000")

    @looped(
        ("most", "ticks"),
        [(1, (1, 0)), (2, (2, 1, 0)), (3, (3, 2, 1, 0)), (9, (10, 5, 0)), (50, (50, 40, 30, 20, 10, 0))],
    )
    def test_has_whole_numbers_to_read_its_height_by(self, most: int, ticks: tuple[int, ...]) -> None:
        stack = charts.stack([[most]], [0])
        assert stack.ticks == ticks
        assert stack.grid.count("M") == len(ticks)

    def test_has_a_gap_in_its_line_where_nobody_counted(self) -> None:
        assert charts.stack([[0, 0, 0]], [2, None, 1]).line == "M0 0H333.3M666.7 500H1000"


class TestTimes:
    @pytest.mark.parametrize("offset_s", [0, 61, 899, 3599])
    def test_are_at_whole_quarters_of_an_hour_with_room_for_their_labels(self, offset_s: int) -> None:
        begin = datetime(2026, 3, 29, 0, 0, tzinfo=UTC) + timedelta(seconds=offset_s)
        ticks = charts.ticks(begin=begin, length_s=3600, every_s=900)
        assert all(tick.at.minute % 15 == tick.at.second == 0 for tick in ticks)
        assert len(ticks) in (3, 4)
        for tick in ticks:
            share = (tick.at - begin).total_seconds() / 3600
            assert float(tick.percent) == pytest.approx(share * 100, abs=0.06)
            assert 0.03 <= share <= 0.85
        assert charts.uprights(ticks).count("M") == len(ticks)


class TestBlanks:
    def test_cover_each_run_of_steps_that_nobody_counted(self) -> None:
        assert charts.blanks([False, False, True, False]) == "M0 0h500v1000H0zM750 0h250v1000H750z"
        assert charts.blanks([True, True]) == ""


class TestSpans:
    def test_lie_between_powers_of_ten(self) -> None:
        spans = charts.spans([0.5, 2.0], [3.0, 40.0])
        assert spans is not None
        assert (spans.ticks[-1], spans.ticks[0]) == (0.1, 100.0)
        assert spans.ticks == pytest.approx((100, 10, 1, 0.1))
        assert spans.lower == "M250 767L750 566.3"

    def test_break_where_nothing_is_known_and_show_what_stands_alone(self) -> None:
        spans = charts.spans([1.0, None, 1.0, 1.0], [None] * 4)
        assert spans is not None
        assert (spans.lower, spans.upper) == ("M0 500h250M625 500L875 500", "")

    @given(st.floats(0.0, 1e7), st.floats(0.0, 1e7))
    def test_have_three_to_five_powers_of_ten_to_read_them_by(self, one: float, other: float) -> None:
        spans = charts.spans([one], [other])
        assert spans is not None
        assert 3 <= len(spans.ticks) <= 5
        assert spans.ticks[-1] <= max(min(one, other), 0.001)
        assert max(one, other) <= spans.ticks[0] * 1.0001
        assert all(math.log10(tick) == pytest.approx(round(math.log10(tick))) for tick in spans.ticks)

    def test_of_nothing_are_none(self) -> None:
        assert charts.spans([None, None], [None, None]) is None

    @given(st.lists(SECONDS, min_size=1, max_size=30))
    def test_never_leave_their_square(self, seconds: list[float | None]) -> None:
        spans = charts.spans(seconds, seconds)
        if spans is not None:
            heights = [float(y) for y in re.findall(r"[ML][\d.]+ ([-\d.]+)", spans.lower)]
            assert all(0 <= y <= 1000 for y in heights)


@looped(("number", "top"), [(0, 1), (1, 1), (2, 2), (4, 5), (11, 20), (21, 30), (31, 50), (999, 1000)])
def test_a_scale_ends_at_a_number_that_people_count_with(number: int, top: int) -> None:
    assert charts.nice(number) == top


class TestARow:
    def test_draws_pieces_of_time_to_scale(self) -> None:
        row = charts.row([("wait", 0, 25), ("run", 25, 100)], begin=0, end=100)
        assert [(bar.kind, bar.begin, bar.length) for bar in row] == [("wait", 0, 250), ("run", 250, 750)]

    def test_lets_nothing_vanish_or_stick_out(self) -> None:
        row = charts.row([("run", 100, 100), ("run", -5, 300)], begin=0, end=100)
        assert [(bar.begin, bar.length) for bar in row] == [(996, 4), (0, 1000)]
