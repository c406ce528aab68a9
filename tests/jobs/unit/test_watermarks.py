"""Where the claims of a process begin to look. Times are given, so nothing here waits."""

from datetime import UTC, datetime, timedelta

import pytest

from jobs.domain import watermarks
from jobs.domain.ranges import EVER, HIGHEST, LOWEST
from jobs.domain.watermarks import Taken, Watermarks

NOW = datetime(2026, 3, 1, tzinfo=UTC)
Seen = list[tuple[str, int, int, datetime]]


def _seen(known: Watermarks, *queues: str, now_s: float) -> Seen:
    look = known.scan(queues, now_s=now_s)
    return [(one.queue, one.low, one.high, one.since) for one in look.ranges]


def _take(known: Watermarks, queue: str, *taken: tuple[int, int], now_s: float) -> None:
    """A claim that takes (priority, seconds after NOW)."""
    look = known.scan([queue], now_s=now_s)
    rows = [Taken(queue, priority, NOW + timedelta(seconds=at_s)) for priority, at_s in taken]
    known.took(look, rows)


WHOLE = ("q", LOWEST, HIGHEST, EVER)


class TestMarks:
    def test_at_first_hide_nothing(self) -> None:
        assert _seen(Watermarks(), "q", "r", now_s=0) == [WHOLE, ("r", LOWEST, HIGHEST, EVER)]

    def test_hide_nothing_while_full_scans_are_quick_and_may_be_made(self) -> None:
        known = Watermarks()
        _take(known, "q", (0, 1), now_s=0)
        assert known.hide_nothing
        for took_s, hide_nothing in ((watermarks.QUICK_S * 2, False), (watermarks.QUICK_S / 2, True)):
            scan = known.full_scan(["q"], now_s=0)
            assert scan is not None
            known.lasted(scan, took_s)
            assert known.hide_nothing is hide_nothing
        known.spent(watermarks.SAVED_S)
        assert not known.hide_nothing

    def test_begin_each_priority_at_the_last_that_was_taken_and_leave_no_gap(self) -> None:
        known = Watermarks()
        _take(known, "q", (50, 1), (50, 2), (0, 1), now_s=0)
        assert _seen(known, "q", now_s=0.5) == [
            ("q", 51, HIGHEST, EVER),
            ("q", 50, 50, NOW + timedelta(seconds=2)),
            ("q", 1, 49, EVER),
            ("q", 0, 0, NOW + timedelta(seconds=1)),
            ("q", LOWEST, -1, EVER),
        ]

    def test_at_the_ends_of_the_scale_and_side_by_side_make_no_empty_range(self) -> None:
        known = Watermarks()
        _take(known, "q", (HIGHEST, 1), (HIGHEST - 1, 1), (LOWEST, 1), now_s=0)
        assert [(low, high) for _, low, high, _ in _seen(known, "q", now_s=0.5)] == [
            (HIGHEST, HIGHEST),
            (HIGHEST - 1, HIGHEST - 1),
            (LOWEST + 1, HIGHEST - 2),
            (LOWEST, LOWEST),
        ]

    def test_are_looked_behind_every_second(self) -> None:
        known = Watermarks()
        _take(known, "q", (0, 1), now_s=0)
        assert _seen(known, "q", now_s=watermarks.SWEEP_S - 0.01) != [WHOLE]
        assert _seen(known, "q", now_s=watermarks.SWEEP_S) == [WHOLE]
        assert _seen(known, "q", now_s=watermarks.SWEEP_S) != [WHOLE]

    def test_move_back_to_what_a_sweep_found(self) -> None:
        known = Watermarks()
        _take(known, "q", (0, 100), now_s=0)
        _take(known, "q", (0, 3), now_s=2)
        assert ("q", 0, 0, NOW + timedelta(seconds=3)) in _seen(known, "q", now_s=2.1)

    def test_are_not_moved_by_a_claim_from_before_a_sweep(self) -> None:
        """It did not see what the sweep saw."""
        known = Watermarks()
        _take(known, "q", (0, 1), now_s=0)
        early = known.scan(["q"], now_s=0.5)
        _take(known, "q", (0, 2), now_s=1.5)
        known.took(early, [Taken("q", 0, NOW + timedelta(seconds=99))])
        assert ("q", 0, 0, NOW + timedelta(seconds=2)) in _seen(known, "q", now_s=1.6)

    def test_of_a_queue_are_forgotten_and_what_is_under_way_brings_none_back(self) -> None:
        known = Watermarks()
        for queue in ("q", "r"):
            _take(known, queue, (0, 1), now_s=0)
        early = known.scan(["q"], now_s=0.1)
        known.forget(["q", "never seen"])
        known.took(early, [Taken("q", 0, NOW)])
        assert _seen(known, "q", now_s=0.2) == [WHOLE]
        assert len(_seen(known, "r", now_s=0.2)) == 3
        known.forget()
        assert len(_seen(known, "r", now_s=0.2)) == 1

    def test_of_more_priorities_than_are_kept_go_the_oldest_first(self) -> None:
        known = Watermarks()
        _take(known, "q", *((priority, 1) for priority in range(watermarks.PRIORITIES)), now_s=0)
        _take(known, "q", (0, 2), (100, 1), now_s=0.1)
        kept = {low for _, low, high, since in _seen(known, "q", now_s=0.2) if since != EVER}
        assert kept == {0, 100, *range(2, watermarks.PRIORITIES)}

    def test_of_too_many_heads_are_forgotten(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(watermarks, "HEADS", 3)
        known = Watermarks()
        _take(known, "q", (0, 1), now_s=0)
        early = known.scan(["q"], now_s=0.1)
        known.scan(["r", "s", "t"], now_s=0.2)
        known.took(early, [Taken("q", 0, NOW)])
        assert _seen(known, "q", now_s=0.3) == [WHOLE]


class TestLookingEverywhere:
    def test_is_offered_at_once_when_the_marks_left_nothing(self) -> None:
        known = Watermarks()
        _take(known, "q", (0, 1), now_s=0)
        found = known.full_scan(["q"], now_s=0.1)
        assert found is not None
        assert (found.is_whole, [one.since for one in found.ranges]) == (True, [EVER])

    def test_takes_no_more_than_its_share_of_the_time(self) -> None:
        """A hundred thousand dead entries make it slow: then it is rationed, and never given up."""
        known = Watermarks()
        _take(known, "q", (0, 1), now_s=0)
        spent, now_s, looks = 0.0, 0.0, 0
        while now_s < 100:
            if (look := known.full_scan(["q"], now_s=now_s)) is not None:
                known.lasted(look, 0.2)
                spent, looks = spent + 0.2, looks + 1
            now_s += 0.25
        assert spent <= watermarks.SAVED_S + watermarks.SHARE * 100 + 0.2
        assert looks >= 40

    def test_comes_ten_seconds_later_at_most_however_long_one_took(self) -> None:
        known = Watermarks()
        _take(known, "q", (0, 1), now_s=0)
        known.lasted(known.scan(["q"], now_s=1), 1000)
        assert known.full_scan(["q"], now_s=2) is None
        assert known.full_scan(["q"], now_s=1 + watermarks.SAVED_S / watermarks.SHARE + 0.1) is not None

    def test_is_the_only_way_where_nothing_is_known_whatever_it_costs(self) -> None:
        known = Watermarks()
        look = known.scan(["q"], now_s=0)
        known.lasted(look, 1000)
        assert _seen(known, "q", now_s=1) == [WHOLE]

    def test_of_one_queue_is_no_look_at_all_of_the_others(self) -> None:
        known = Watermarks()
        _take(known, "q", (0, 1), now_s=0)
        look = known.scan(["q", "new"], now_s=0.1)
        assert (look.is_whole, [one.since for one in look.ranges if one.queue == "new"]) == (False, [EVER])

    def test_of_a_queue_that_never_has_anything_takes_no_time_from_the_others(self) -> None:
        """Each claim looks at it as a whole, there is no other way: that is not what the ration is for."""
        known = Watermarks()
        _take(known, "q", (0, 1), now_s=0)
        sweeps = 0
        for turn in range(2_000):
            look = known.scan(["empty", "q"], now_s=turn / 100)
            sweeps += any(one.queue == "q" and one.low == LOWEST and one.high == HIGHEST for one in look.ranges)
            known.lasted(look, 0.008)
            known.took(look, [Taken("q", 0, NOW)])
        assert sweeps >= 19


class TestOfAMember:
    """Whose worker takes their own jobs and those of their groups: each has a head of its own."""

    OWN, CLUB = (7, None), (None, 3)

    def _seen(self, known: Watermarks, *, now_s: float) -> set[tuple[int | None, int | None, datetime]]:
        look = known.scan(["q"], now_s=now_s, owner_id=7)
        return {(one.owner_id, one.group_id, one.since) for one in look.ranges if one.low <= 0 <= one.high}

    def _take(self, known: Watermarks, *taken: Taken, now_s: float = 0) -> None:
        known.took(known.scan(["q"], now_s=now_s, owner_id=7), taken)

    def test_know_no_group_until_a_job_of_it_was_taken(self) -> None:
        known = Watermarks()
        self._take(known, Taken("q", 0, NOW, 7, None))
        assert self._seen(known, now_s=0.1) == {(*self.OWN, NOW)}
        self._take(known, Taken("q", 0, NOW, 8, 3), now_s=0.2)
        assert self._seen(known, now_s=0.3) == {(*self.OWN, NOW), (*self.CLUB, NOW)}

    def test_move_both_heads_for_a_job_that_lies_behind_both(self) -> None:
        known, later = Watermarks(), NOW + timedelta(seconds=5)
        self._take(known, Taken("q", 0, NOW, 8, 3), Taken("q", 0, later, 7, 3))
        assert self._seen(known, now_s=0.1) == {(*self.OWN, later), (*self.CLUB, later)}

    def test_are_not_those_of_workers_for_everybody_nor_of_another_member(self) -> None:
        known = Watermarks()
        self._take(known, Taken("q", 0, NOW, 7, 3))
        assert _seen(known, "q", now_s=0.1) == [WHOLE]
        assert known.scan(["q"], now_s=0.1, owner_id=8).is_whole
        _take(known, "q", (0, 9), now_s=0.2)
        assert self._seen(known, now_s=0.3) == {(*self.OWN, NOW), (*self.CLUB, NOW)}

    def test_are_forgotten_with_their_queue(self) -> None:
        known = Watermarks()
        self._take(known, Taken("q", 0, NOW, 7, 3))
        known.forget(["q"])
        assert self._seen(known, now_s=0.1) == {(*self.OWN, EVER), (*self.CLUB, EVER)}

    def test_are_looked_behind_every_second(self) -> None:
        known = Watermarks()
        self._take(known, Taken("q", 0, NOW, 7, 3))
        assert self._seen(known, now_s=watermarks.SWEEP_S) == {(*self.OWN, EVER), (*self.CLUB, EVER)}
        assert self._seen(known, now_s=watermarks.SWEEP_S) == {(*self.OWN, NOW), (*self.CLUB, NOW)}


class TestAGlance:
    def test_is_everywhere_while_that_is_cheap_and_behind_the_marks_when_it_is_not(self) -> None:
        known = Watermarks()
        _take(known, "q", (0, 1), now_s=0)
        assert known.preview(now_s=0) == ()
        known.spent(watermarks.SAVED_S + 0.05)
        assert [one.queue for one in known.preview(now_s=0)] == ["q", "q", "q"]
        assert known.preview(now_s=1) == ()

    def test_speaks_of_those_alone_who_are_asked_for(self) -> None:
        known = Watermarks()
        _take(known, "q", (0, 1), now_s=0)
        for owner_id, group_id in ((7, 3), (8, None)):
            known.took(known.scan(["q"], now_s=0, owner_id=owner_id), [Taken("q", 0, NOW, owner_id, group_id)])
        known.spent(100)
        for owners, whose in (
            ({None}, {(None, None)}), ({7}, {(7, None), (None, 3)}), ({8, None}, {(8, None), (None, None)}),
        ):  # fmt: skip
            found = known.preview(owners, now_s=0)
            assert {(one.owner_id, one.group_id) for one in found} == whose

    def test_moves_nothing(self) -> None:
        known = Watermarks()
        _take(known, "q", (0, 1), now_s=0)
        before = known.scan(["q"], now_s=0.1)
        known.preview(now_s=watermarks.SWEEP_S)
        assert known.scan(["q"], now_s=0.1) == before
