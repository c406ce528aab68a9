"""Looking past the marks where that takes long: a slice with each claim. Times are given, so nothing here waits."""

from datetime import UTC, datetime, timedelta

from jobs.domain import watermarks
from jobs.domain.ranges import EVER
from jobs.domain.watermarks import Scan, Taken, Watermarks

MARK = datetime(2026, 3, 1, tzinfo=UTC)
OLDER = MARK - timedelta(hours=1)
SLOW_S, QUICK_S = watermarks.SLOW_S * 2, watermarks.SLICE_S / 100


def _marked() -> Watermarks:
    """Watermarks of two priorities of a queue."""
    known = Watermarks()
    known.took(known.scan(["q"], now_s=0), [Taken("q", 5, OLDER), Taken("q", 0, MARK)])
    return known


def _everywhere(known: Watermarks, took_s: float, *, now_s: float = 0.5, after: Scan | None = None) -> Scan:
    look = known.full_scan(["q"], now_s=now_s, after=after)
    assert look is not None
    known.lasted(look, took_s)
    return look


def _sliced() -> Watermarks:
    """Those of a process that found looking everywhere to be slow."""
    known = _marked()
    for _ in range(watermarks.SLOW_SCANS):
        _everywhere(known, SLOW_S)
    return known


def _pass(known: Watermarks, took_s: float) -> list[Scan]:
    """All the looks of one pass, each a little later."""
    looks = [_everywhere(known, took_s, now_s=100.0)]
    while not looks[-1].is_whole:
        looks.append(_everywhere(known, took_s, now_s=100.0 + 10 * len(looks), after=looks[-1]))
    return looks


def _slices(looks: list[Scan], priority: int) -> list[tuple[datetime, datetime]]:
    """Of one priority, as (since, until)."""
    return [
        (one.since, one.until) for look in looks for one in look.ranges if one.until is not None and one.low == priority
    ]


class TestSlices:
    def test_begin_when_looking_everywhere_was_slow_three_times_in_a_row(self) -> None:
        known = _marked()
        for took_s in (SLOW_S, SLOW_S, QUICK_S, SLOW_S, SLOW_S, SLOW_S):
            assert _everywhere(known, took_s).is_whole
        assert not _everywhere(known, QUICK_S).is_whole

    def test_leave_nothing_out_and_meet_nothing_twice(self) -> None:
        for took_s in (QUICK_S, watermarks.SLICE_S, SLOW_S):
            looks = _pass(_sliced(), took_s)
            for priority, mark in ((0, MARK), (5, OLDER)):
                found = _slices(looks, priority)
                assert found[0][1] == mark
                assert [since for since, _ in found[:-1]] == [until for _, until in found[1:]]
                assert found[-1][0] == EVER

    def test_look_behind_the_marks_too_each_time(self) -> None:
        for look in _pass(_sliced(), QUICK_S):
            assert {(one.low, one.since) for one in look.ranges if one.until is None} == {
                (6, EVER), (5, OLDER), (1, EVER), (0, MARK), (-32767, EVER),
            }  # fmt: skip

    def test_are_few_where_there_is_little_and_no_more_than_sixty_four_where_everything_is_slow(self) -> None:
        assert len(_pass(_sliced(), QUICK_S)) < 15
        assert len(_pass(_sliced(), SLOW_S)) == watermarks.MOST_SLICES

    def test_are_as_wide_as_they_are_quick(self) -> None:
        looks = _pass(_sliced(), watermarks.SLICE_S)
        first, second, *_ = _slices(looks, 0)
        assert first[1] - first[0] == second[1] - second[0] == timedelta(seconds=watermarks.NARROWEST_S)
        known = _sliced()
        look = _everywhere(known, QUICK_S, now_s=100)
        wider = _slices([_everywhere(known, SLOW_S, now_s=110, after=look)], 0)[0]
        assert wider[1] - wider[0] == 4 * timedelta(seconds=watermarks.NARROWEST_S)

    def test_end_when_a_whole_pass_was_quick(self) -> None:
        known = _sliced()
        _pass(known, watermarks.SLICE_S)
        assert not _everywhere(known, QUICK_S, now_s=2000).is_whole
        _pass(known, QUICK_S)
        assert _everywhere(known, QUICK_S, now_s=3000).is_whole

    def test_take_no_more_than_their_share_of_the_time(self) -> None:
        known = _sliced()
        spent, now_s, last = 0.0, 1.0, None
        while now_s < 100:
            last = known.full_scan(["q"], now_s=now_s, after=last)
            if last is not None:
                known.lasted(last, watermarks.SLICE_S)
                spent += watermarks.SLICE_S
            now_s += 0.02
        assert spent <= watermarks.SAVED_S + watermarks.SHARE * 100 + watermarks.SLICE_S

    def test_hold_up_no_job_that_was_found(self) -> None:
        assert _marked().full_scan(["q"], now_s=1, has_some=True) is not None
        assert _sliced().full_scan(["q"], now_s=1, has_some=True) is None


class TestASweepOfABusyWorker:
    """Its claims find something each time, so none of them looks everywhere of its own accord."""

    def test_goes_on_with_each_claim_and_begins_again_after_a_second(self) -> None:
        known, looks, now_s = _sliced(), [], 10.0
        while True:
            looks.append(known.scan(["q"], now_s=now_s))
            known.lasted(looks[-1], watermarks.SLICE_S)
            if _slices(looks, 0)[-1][0] == EVER:
                break
        found = _slices(looks, 0)
        assert len(found) == len(looks) > 5
        assert [since for since, _ in found[:-1]] == [until for _, until in found[1:]]
        assert not _slices([known.scan(["q"], now_s=now_s + watermarks.SWEEP_S - 0.01)], 0)
        assert _slices([known.scan(["q"], now_s=now_s + watermarks.SWEEP_S)], 0)

    def test_is_never_said_to_be_whole_since_it_began_a_while_ago(self) -> None:
        known = _sliced()
        for _ in range(200):
            look = known.scan(["q"], now_s=10)
            known.lasted(look, 0.0001)
            assert not look.is_whole

    def test_of_a_head_without_marks_looks_at_all_of_it(self) -> None:
        known = _sliced()
        look = known.scan(["q", "new"], now_s=10)
        assert [(one.since, one.until) for one in look.ranges if one.queue == "new"] == [(EVER, None)]

    def test_goes_on_after_its_marks_were_moved_back_to_what_it_found(self) -> None:
        known = _sliced()
        first = known.scan(["q"], now_s=10)
        found = MARK - timedelta(seconds=3)
        known.took(first, [Taken("q", 0, found)])
        [(since, until)] = _slices([known.scan(["q"], now_s=10)], 0)
        assert until == _slices([first], 0)[0][0]
        assert since < until <= found

    def test_begins_anew_when_the_marks_were_forgotten(self) -> None:
        known = _sliced()
        known.scan(["q"], now_s=10)
        known.forget(["q"])
        look = known.scan(["q"], now_s=10)
        assert (look.is_whole, [one.since for one in look.ranges]) == (True, [EVER])
