"""Where the claims of a process begin to look. Times are given, so nothing here waits."""

from datetime import UTC, datetime, timedelta

from jobs.domain import marks
from jobs.domain.marks import EVER, HIGHEST, LOWEST, Marks

NOW = datetime(2026, 3, 1, tzinfo=UTC)
Seen = list[tuple[str, int, int, datetime]]


def _seen(known: Marks, *queues: str, now_s: float) -> Seen:
    look = known.look(queues, now_s=now_s)
    return [(one.queue, one.low, one.high, one.since) for one in look.stretches]


def _take(known: Marks, queue: str, *taken: tuple[int, int], now_s: float, took_s: float = 0.0) -> None:
    """A claim that takes (priority, seconds after NOW)."""
    look = known.look([queue], now_s=now_s)
    rows = [(queue, priority, NOW + timedelta(seconds=at_s)) for priority, at_s in taken]
    known.took(look, rows, took_s=took_s)


WHOLE = ("q", LOWEST, HIGHEST, EVER)


class TestMarks:
    def test_at_first_hide_nothing(self) -> None:
        assert _seen(Marks(), "q", "r", now_s=0) == [WHOLE, ("r", LOWEST, HIGHEST, EVER)]

    def test_begin_each_priority_at_the_last_that_was_taken_and_leave_no_gap(self) -> None:
        known = Marks()
        _take(known, "q", (50, 1), (50, 2), (0, 1), now_s=0)
        assert _seen(known, "q", now_s=0.5) == [
            ("q", 51, HIGHEST, EVER),
            ("q", 50, 50, NOW + timedelta(seconds=2)),
            ("q", 1, 49, EVER),
            ("q", 0, 0, NOW + timedelta(seconds=1)),
            ("q", LOWEST, -1, EVER),
        ]

    def test_at_the_ends_of_the_scale_and_side_by_side_make_no_empty_stretch(self) -> None:
        known = Marks()
        _take(known, "q", (HIGHEST, 1), (HIGHEST - 1, 1), (LOWEST, 1), now_s=0)
        assert [(low, high) for _, low, high, _ in _seen(known, "q", now_s=0.5)] == [
            (HIGHEST, HIGHEST),
            (HIGHEST - 1, HIGHEST - 1),
            (LOWEST + 1, HIGHEST - 2),
            (LOWEST, LOWEST),
        ]

    def test_are_looked_behind_every_second(self) -> None:
        known = Marks()
        _take(known, "q", (0, 1), now_s=0)
        assert _seen(known, "q", now_s=marks.SWEEP_S - 0.01) != [WHOLE]
        assert _seen(known, "q", now_s=marks.SWEEP_S) == [WHOLE]
        assert _seen(known, "q", now_s=marks.SWEEP_S) != [WHOLE]

    def test_move_back_to_what_a_sweep_found(self) -> None:
        known = Marks()
        _take(known, "q", (0, 100), now_s=0)
        _take(known, "q", (0, 3), now_s=2)
        assert ("q", 0, 0, NOW + timedelta(seconds=3)) in _seen(known, "q", now_s=2.1)

    def test_are_not_moved_by_a_claim_from_before_a_sweep(self) -> None:
        """It did not see what the sweep saw."""
        known = Marks()
        _take(known, "q", (0, 1), now_s=0)
        early = known.look(["q"], now_s=0.5)
        _take(known, "q", (0, 2), now_s=1.5)
        known.took(early, [("q", 0, NOW + timedelta(seconds=99))], took_s=0)
        assert ("q", 0, 0, NOW + timedelta(seconds=2)) in _seen(known, "q", now_s=1.6)

    def test_of_a_queue_are_forgotten_and_what_is_under_way_brings_none_back(self) -> None:
        known = Marks()
        for queue in ("q", "r"):
            _take(known, queue, (0, 1), now_s=0)
        early = known.look(["q"], now_s=0.1)
        known.forget(["q", "never seen"])
        known.took(early, [("q", 0, NOW)], took_s=0)
        assert _seen(known, "q", now_s=0.2) == [WHOLE]
        assert len(_seen(known, "r", now_s=0.2)) == 3
        known.forget()
        assert len(_seen(known, "r", now_s=0.2)) == 1

    def test_of_more_priorities_than_are_kept_go_the_oldest_first(self) -> None:
        known = Marks()
        _take(known, "q", *((priority, 1) for priority in range(marks.PRIORITIES)), now_s=0)
        _take(known, "q", (0, 2), (100, 1), now_s=0.1)
        kept = {low for _, low, high, since in _seen(known, "q", now_s=0.2) if since != EVER}
        assert kept == {0, 100, *range(2, marks.PRIORITIES)}


class TestLookingEverywhere:
    def test_is_offered_at_once_when_the_marks_left_nothing(self) -> None:
        known = Marks()
        _take(known, "q", (0, 1), now_s=0)
        found = known.everywhere(["q"], now_s=0.1)
        assert found is not None
        assert (found.is_whole, [one.since for one in found.stretches]) == (True, [EVER])

    def test_takes_no_more_than_its_share_of_the_time(self) -> None:
        """A hundred thousand dead entries make it slow: then it is rationed, and never given up."""
        known = Marks()
        _take(known, "q", (0, 1), now_s=0)
        spent, now_s, looks = 0.0, 0.0, 0
        while now_s < 100:
            if (look := known.everywhere(["q"], now_s=now_s)) is not None:
                known.took(look, [], took_s=0.2)
                spent, looks = spent + 0.2, looks + 1
            now_s += 0.25
        assert spent <= marks.SAVED_S + marks.SHARE * 100 + 0.2
        assert looks >= 40

    def test_comes_ten_seconds_later_at_most_however_long_one_took(self) -> None:
        known = Marks()
        look = known.look(["q"], now_s=0)
        known.took(look, [("q", 0, NOW)], took_s=1000)
        assert known.everywhere(["q"], now_s=1) is None
        assert known.everywhere(["q"], now_s=marks.SAVED_S / marks.SHARE + 0.1) is not None

    def test_is_the_only_way_where_nothing_is_known_whatever_it_costs(self) -> None:
        known = Marks()
        look = known.look(["q"], now_s=0)
        known.took(look, [], took_s=1000)
        assert _seen(known, "q", now_s=1) == [WHOLE]

    def test_of_one_queue_is_no_look_at_all_of_the_others(self) -> None:
        known = Marks()
        _take(known, "q", (0, 1), now_s=0)
        look = known.look(["q", "new"], now_s=0.1)
        assert (look.is_whole, look.is_sweep) == (False, True)


class TestAGlance:
    def test_is_everywhere_while_that_is_cheap_and_behind_the_marks_when_it_is_not(self) -> None:
        known = Marks()
        _take(known, "q", (0, 1), now_s=0)
        assert known.glance(now_s=0) == ()
        known.spent(marks.SAVED_S + 0.05)
        assert [one.queue for one in known.glance(now_s=0)] == ["q", "q", "q"]
        assert known.glance(now_s=1) == ()

    def test_moves_nothing(self) -> None:
        known = Marks()
        _take(known, "q", (0, 1), now_s=0)
        before = known.look(["q"], now_s=0.1)
        known.glance(now_s=marks.SWEEP_S)
        assert known.look(["q"], now_s=0.1) == before
