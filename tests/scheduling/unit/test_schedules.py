"""When schedules fire: all forms, both kinds of daylight-saving days, clocks that step back."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, strategies as st

from scheduling.domain import schedules
from scheduling.domain.schedules import Calendar, Firing, Interval, Missed, Policy
from scheduling.errors import BadSchedule
from tests.looped import looped

NEW_YORK = ZoneInfo("America/New_York")
SPRING = datetime(2024, 3, 10, 0, 0, tzinfo=NEW_YORK)  # 02:00 becomes 03:00
AUTUMN = datetime(2024, 11, 3, 0, 0, tzinfo=NEW_YORK)  # 02:00 becomes 01:00


def times(schedule: Calendar, start: datetime, count: int) -> list[str]:
    """What follows `start`, as the wall clock shows it, with the offset."""
    found = schedules.upcoming(schedule, first=schedule.after(start.astimezone(UTC)), count=count)
    return [moment.astimezone(schedule.zone).strftime("%d %H:%M %z") for moment in found]


class TestTheDayWhenClocksGoForward:
    def test_a_time_that_is_skipped_fires_at_the_first_moment_after_it(self) -> None:
        daily = schedules.daily(hour=2, minute=30, tz="America/New_York")
        assert times(daily, SPRING, 3) == ["10 03:00 -0400", "11 02:30 -0400", "12 02:30 -0400"]

    def test_several_skipped_times_are_one_moment(self) -> None:
        twice = schedules.cron("0,30 2 * * *", tz="America/New_York")
        assert times(twice, SPRING, 3) == ["10 03:00 -0400", "11 02:00 -0400", "11 02:30 -0400"]

    def test_every_half_hour_goes_on_by_elapsed_time(self) -> None:
        half = schedules.cron("*/30 * * * *", tz="America/New_York")
        assert times(half, SPRING + timedelta(hours=1), 4) == [
            "10 01:30 -0500",
            "10 03:00 -0400",
            "10 03:30 -0400",
            "10 04:00 -0400",
        ]


class TestTheDayWhenClocksGoBack:
    def test_a_time_that_comes_twice_fires_at_the_first(self) -> None:
        daily = schedules.daily(hour=1, minute=30, tz="America/New_York")
        assert times(daily, AUTUMN, 2) == ["03 01:30 -0400", "04 01:30 -0500"]

    @looped("minute", range(0, 60, 5))
    def test_it_does_not_fire_again_however_late_it_is_asked(self, minute: int) -> None:
        daily = schedules.daily(hour=1, minute=30, tz="America/New_York")
        second_pass = datetime(2024, 11, 3, 1, minute, tzinfo=NEW_YORK, fold=1)
        assert times(daily, second_pass, 1) == ["04 01:30 -0500"]

    def test_every_half_hour_goes_on_by_elapsed_time(self) -> None:
        half = schedules.cron("*/30 * * * *", tz="America/New_York")
        assert times(half, AUTUMN + timedelta(minutes=30), 5) == [
            "03 01:00 -0400", "03 01:30 -0400", "03 01:00 -0500", "03 01:30 -0500", "03 02:00 -0500",
        ]  # fmt: skip


class TestChangesOfAnotherSort:
    """By half an hour, and at midnight: as Debian's cron does. In Lord Howe 02:00 becomes 01:30 on 5 April 2026, and
    02:30 on 4 October; in Santiago 00:00 becomes 01:00 on 6 September."""

    @looped(
        ("expression", "zone", "since", "expected"),
        [
            ("0 */2 * * *", "Australia/Lord_Howe", "2026-04-04 23", ["05 00:00", "05 02:00", "05 04:00", "05 06:00"]),
            ("45 1 * * *", "Australia/Lord_Howe", "2026-04-04 23", ["05 01:45", "06 01:45"]),
            ("*/30 1-2 * * *", "Australia/Lord_Howe", "2026-04-04 23",
             ["05 01:00", "05 01:30", "05 01:30", "05 02:00", "05 02:30", "06 01:00"]),
            ("0 */2 * * *", "Australia/Lord_Howe", "2026-10-03 23", ["04 00:00", "04 04:00", "04 06:00"]),
            ("0,10,40 2 * * *", "Australia/Lord_Howe", "2026-10-03 23", ["04 02:30", "04 02:40", "05 02:00"]),
            ("0 */6 * * 0", "America/Santiago", "2026-09-05 12", ["06 06:00", "06 12:00", "06 18:00"]),
            ("*/10 0 * * 0", "America/Santiago", "2026-09-05 12", ["13 00:00"]),
            ("0 0 * * 0", "America/Santiago", "2026-09-05 12", ["06 01:00", "13 00:00"]),
        ],
    )  # fmt: skip
    def test_lose_no_firing_and_add_none(self, expression: str, zone: str, since: str, expected: list[str]) -> None:
        start = datetime.fromisoformat(f"{since}:00").replace(tzinfo=ZoneInfo(zone))
        found = times(schedules.cron(expression, tz=zone), start, len(expected))
        assert [moment.rpartition(" ")[0] for moment in found] == expected


class TestAForm:
    def test_interval_begins_at_once(self) -> None:
        every = schedules.interval(seconds=30)
        assert every.first(now=SPRING) == SPRING
        assert every.after(SPRING) == SPRING + timedelta(seconds=30)

    @looped(
        ("schedule", "expression"),
        [
            (schedules.hourly(minute=5), "5 * * * *"),
            (schedules.daily(hour=6), "0 6 * * *"),
            (schedules.weekly(day="Sunday", hour=3, minute=1), "1 3 * * 0"),
            (schedules.monthly(day=31), "0 0 31 * *"),
            (schedules.cron(" 0  6 * * mon-fri "), "0 6 * * mon-fri"),
        ],
    )
    def test_is_a_cron_expression(self, schedule: Calendar, expression: str) -> None:
        assert schedule == Calendar(expression=expression)
        assert schedules.parse(schedule.text()) == schedule

    def test_monthly_leaves_out_months_without_the_day(self) -> None:
        found = schedules.upcoming(schedules.monthly(day=31), first=datetime(2024, 1, 31, tzinfo=UTC), count=4)
        assert [moment.month for moment in found] == [1, 3, 5, 7]

    @given(length=st.timedeltas(schedules.SHORTEST, schedules.LONGEST))
    @example(length=timedelta(hours=336))
    @example(length=timedelta(seconds=1_234_567))
    def test_interval_survives_being_stored_and_being_saved_by_its_own_form(self, length: timedelta) -> None:
        every = Interval(every=length)
        assert schedules.parse(every.text()) == schedules.typed(every.typed(), tz="UTC") == every

    @looped(
        "text",
        ["every 336 h", "every 5 min", "every 90 s", "every 1.25 s", "every 1234567 s", "every 3600 s",
         "every 1000000 s", "every 120 min", "every 1.5 h", "every 90s"],
    )  # fmt: skip
    def test_interval_is_kept_as_it_was_typed(self, text: str) -> None:
        typed = schedules.typed(text, tz="UTC")
        kept = schedules.parse(typed.text())
        assert (kept, kept.typed(), schedules.typed(kept.typed(), tz="UTC").text()) == (typed, text, typed.text())

    def test_interval_typed_in_the_largest_unit_is_stored_as_a_declared_one_is(self) -> None:
        """Which the code of before reads, too."""
        assert (
            schedules.typed("every 336 h", tz="UTC").text() == schedules.interval(hours=336).text() == "every 1209600 s"
        )

    @looped(
        "make",
        [
            lambda: schedules.interval(seconds=0),
            lambda: schedules.interval(seconds=-5),
            lambda: schedules.interval(seconds=0.5),
            lambda: schedules.interval(seconds=float("nan")),
            lambda: schedules.interval(seconds=float("inf")),
            lambda: schedules.interval(hours=10**400),
            lambda: schedules.interval(every=timedelta.max),
            lambda: schedules.interval(seconds=1, every=timedelta(hours=1)),
            lambda: schedules.hourly(minute=60),
            lambda: schedules.daily(hour=24),
            lambda: schedules.daily(hour=True),
            lambda: schedules.weekly(day="someday"),
            lambda: schedules.monthly(day=0),
            lambda: schedules.cron("* * * *"),
            lambda: schedules.cron("* * * * * *"),
            lambda: schedules.cron("61 * * * *"),
            lambda: schedules.cron("0 0 31 2 *"),
            lambda: schedules.cron("0 0 */15 2 5#5"),
            lambda: schedules.cron("1" * 5000 + " * * * *"),
            lambda: schedules.daily(tz="Mars/Olympus"),
            lambda: schedules.daily(tz="../etc/passwd"),
            lambda: schedules.daily(tz=""),
        ],
    )
    def test_is_refused_when_it_makes_no_sense(self, make: object) -> None:
        with pytest.raises(BadSchedule):
            make()  # type: ignore[operator]


@looped(
    ("expression", "sentence"),
    [
        ("@daily", "is written '0 0 \\* \\* \\*' here"),
        ("@reboot", 'five fields: .* such as "0 6 \\* \\* 1-5"'),
        ("0 0 30 2 *", "Bad day-of-month"),
        ("0 0 */15 2 5#5", "never fires"),
        ("1" * 5000 + " * * * *", "no cron expression: Exceeds the limit"),
    ],
)
def test_what_is_no_expression_is_refused_with_what_to_write(expression: str, sentence: str) -> None:
    with pytest.raises(BadSchedule, match=sentence) as refused:
        schedules.cron(expression)
    assert len(refused.value.message) < 300


class TestCounting:
    def test_a_year_of_seconds_is_not_walked(self) -> None:
        every = schedules.interval(seconds=1)
        count, last = every.latest(start=SPRING, end=SPRING + timedelta(days=365), most=2)
        assert count == 365 * 86400 + 1
        assert last == [SPRING + timedelta(days=365, seconds=-1), SPRING + timedelta(days=365)]

    def test_ten_years_of_minutes_end_with_the_last_one(self) -> None:
        start = datetime(2014, 1, 1, tzinfo=UTC)
        end = datetime(2024, 1, 1, 0, 0, 30, tzinfo=UTC)
        count, last = schedules.cron("* * * * *").latest(start=start, end=end, most=3)
        assert count > 10_000
        assert [moment.minute for moment in last] == [58, 59, 0]

    @given(seconds=st.integers(1, 10_000), elapsed=st.integers(0, 100_000), most=st.integers(1, 5))
    def test_agrees_with_walking(self, seconds: int, elapsed: int, most: int) -> None:
        start = datetime(2024, 1, 1, tzinfo=UTC)
        every = Interval(every=timedelta(seconds=seconds))
        walked = [start + timedelta(seconds=n) for n in range(0, elapsed + 1, seconds)]
        assert every.latest(start=start, end=start + timedelta(seconds=elapsed), most=most) == (
            len(walked),
            walked[-most:],
        )


class TestDeciding:
    START = datetime(2024, 11, 3, 5, 0, tzinfo=UTC)

    @pytest.mark.parametrize("policy", [Policy(missed=missed, at_most=7) for missed in Missed])
    def test_nothing_fires_before_its_time_however_far_the_clock_goes_back(self, policy: Policy) -> None:
        plan = schedules.decide(
            schedules.interval(minutes=10), run_at=self.START, now=self.START - timedelta(hours=3), policy=policy
        )
        assert plan == Firing(fire=(), missed=0, next_at=self.START)

    @given(
        steps=st.lists(st.integers(-5000, 5000), max_size=30),
        missed=st.sampled_from(list(Missed)),
        seconds=st.integers(1, 900),
    )
    def test_no_fire_time_comes_twice_whatever_the_clock_does(
        self, steps: list[int], missed: Missed, seconds: int
    ) -> None:
        now, run_at, lost = self.START, self.START, 0
        seen: list[datetime] = []
        for step in steps:
            now += timedelta(seconds=step)
            plan = schedules.decide(
                schedules.interval(seconds=seconds), run_at=run_at, now=now, policy=Policy(missed=missed, at_most=3)
            )
            assert plan.next_at is not None
            assert plan.next_at >= run_at
            assert plan.next_at > now or plan.next_at == run_at
            seen += plan.fire
            lost += plan.missed
            run_at = plan.next_at
        assert sorted(set(seen)) == seen
        assert len(seen) + lost == (run_at - self.START) // timedelta(seconds=seconds)

    def test_a_night_without_the_farm_across_the_change_of_clocks(self) -> None:
        """From Saturday noon to Monday noon, a daily cron in the hour that comes twice: two fire times, not three."""
        daily = schedules.daily(hour=1, minute=30, tz="America/New_York")
        run_at = datetime(2024, 11, 3, 1, 30, tzinfo=NEW_YORK).astimezone(UTC)
        plan = schedules.decide(
            daily,
            run_at=run_at,
            now=datetime(2024, 11, 4, 17, tzinfo=UTC),
            policy=Policy(missed=Missed.CATCH_UP, at_most=9),
        )
        assert [moment.astimezone(NEW_YORK).strftime("%d %H:%M %z") for moment in plan.fire] == [
            "03 01:30 -0400",
            "04 01:30 -0500",
        ]
