"""Steps of time, buckets of durations, and the percentiles of what was added up."""

import math
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.domain import tallies

DURATIONS = st.floats(0.001, 1_000_000)


class TestABucket:
    @given(DURATIONS)
    def test_holds_what_it_counts(self, seconds: float) -> None:
        low, high = tallies.edges_s(tallies.bucket(seconds))
        assert low <= seconds * (1 + 1e-9)
        assert seconds < high * (1 + 1e-9)

    @pytest.mark.parametrize(
        ("seconds", "number"),
        [(-5, -40), (0, -40), (0.001, -40), (0.5, -4), (1, 0), (1.18, 0), (1.2, 1), (2, 4), (3600, 47)],
    )
    def test_has_a_number_that_grows_by_four_with_each_doubling(self, seconds: float, number: int) -> None:
        assert tallies.bucket(seconds) == number

    def test_takes_whatever_lasts_longer_than_anything_may(self) -> None:
        assert tallies.bucket(math.inf) == tallies.bucket(tallies.LONGEST_S)


class TestAQuantile:
    @given(st.lists(DURATIONS, min_size=1, max_size=200), st.sampled_from([0.5, 0.95]))
    def test_is_within_a_bucket_of_the_true_one(self, durations: list[float], share: float) -> None:
        counts = tallies.merged({str(tallies.bucket(seconds)): 1} for seconds in durations)
        true = sorted(durations)[math.ceil(share * len(durations)) - 1]
        found = tallies.quantile_s(counts, share)
        assert found is not None
        assert true / 2**0.26 <= found <= true * 2**0.26

    @given(st.lists(st.lists(DURATIONS, max_size=20), max_size=5))
    def test_of_what_was_counted_apart_is_that_of_all(self, groups: list[list[float]]) -> None:
        def counted(durations: list[float]) -> dict[str, int]:
            return tallies.merged({str(tallies.bucket(seconds)): 1} for seconds in durations)

        together = counted([seconds for group in groups for seconds in group])
        assert tallies.merged(map(counted, groups)) == together

    def test_of_nothing_is_none(self) -> None:
        assert tallies.quantile_s({}, 0.5) is None
        assert tallies.quantile_s({"3": 0}, 0.5) is None

    def test_falls_between_what_is_fast_and_what_is_slow(self) -> None:
        counts = {str(tallies.bucket(1)): 90, str(tallies.bucket(100)): 10}
        median, tail = tallies.quantile_s(counts, 0.5), tallies.quantile_s(counts, 0.95)
        assert median is not None
        assert tail is not None
        assert (round(median, 1), 95 < tail < 115) == (1.1, True)


class TestAStep:
    def test_begins_at_whole_multiples_of_its_length_in_utc(self) -> None:
        moment = datetime(2026, 3, 29, 1, 59, 59, 999_999, tzinfo=UTC)
        floors = [tallies.floored(moment, step_s=step_s) for step_s in sorted(tallies.STEPS_S)]
        assert floors == [
            datetime(2026, 3, 29, 1, 59, tzinfo=UTC),
            datetime(2026, 3, 29, 1, 50, tzinfo=UTC),
            datetime(2026, 3, 29, 1, 0, tzinfo=UTC),
        ]

    def test_of_every_period_is_kept_for_longer_than_the_period(self) -> None:
        for period in tallies.PERIODS.values():
            assert tallies.KEPT[period.step_s].total_seconds() >= period.length_s + period.step_s
            assert period.length_s % period.step_s == 0
