"""Steps of time, buckets of durations, and the percentiles of what was added up."""

import math
from datetime import UTC, datetime

from hypothesis import given, strategies as st

from jobs.domain import rollups
from tests.looped import looped

DURATIONS = st.floats(0.001, 1_000_000)


class TestABucket:
    @given(DURATIONS)
    def test_holds_what_it_counts(self, seconds: float) -> None:
        low, high = rollups.bounds_s(rollups.bucket(seconds))
        assert low <= seconds * (1 + 1e-9)
        assert seconds < high * (1 + 1e-9)

    @looped(
        ("seconds", "number"),
        [(-5, -40), (0, -40), (0.001, -40), (0.5, -4), (1, 0), (1.18, 0), (1.2, 1), (2, 4), (3600, 47)],
    )
    def test_has_a_number_that_grows_by_four_with_each_doubling(self, seconds: float, number: int) -> None:
        assert rollups.bucket(seconds) == number

    def test_takes_whatever_lasts_longer_than_anything_may(self) -> None:
        assert rollups.bucket(math.inf) == rollups.bucket(rollups.LONGEST_S)


class TestAQuantile:
    @given(st.lists(DURATIONS, min_size=1, max_size=200), st.sampled_from([0.5, 0.95]))
    def test_is_within_a_bucket_of_the_true_one(self, durations: list[float], share: float) -> None:
        counts = rollups.merged({str(rollups.bucket(seconds)): 1} for seconds in durations)
        true = sorted(durations)[math.ceil(share * len(durations)) - 1]
        found = rollups.quantile_s(counts, share)
        assert found is not None
        assert true / 2**0.26 <= found <= true * 2**0.26

    @given(st.lists(st.lists(DURATIONS, max_size=20), max_size=5))
    def test_of_what_was_counted_apart_is_that_of_all(self, groups: list[list[float]]) -> None:
        def counted(durations: list[float]) -> dict[str, int]:
            return rollups.merged({str(rollups.bucket(seconds)): 1} for seconds in durations)

        together = counted([seconds for group in groups for seconds in group])
        assert rollups.merged(map(counted, groups)) == together

    def test_of_nothing_is_none(self) -> None:
        assert rollups.quantile_s({}, 0.5) is None
        assert rollups.quantile_s({"3": 0}, 0.5) is None

    def test_falls_between_what_is_fast_and_what_is_slow(self) -> None:
        counts = {str(rollups.bucket(1)): 90, str(rollups.bucket(100)): 10}
        median, tail = rollups.quantile_s(counts, 0.5), rollups.quantile_s(counts, 0.95)
        assert median is not None
        assert tail is not None
        assert (round(median, 1), 95 < tail < 115) == (1.1, True)


class TestAStep:
    def test_begins_at_whole_multiples_of_its_length_in_utc(self) -> None:
        moment = datetime(2026, 3, 29, 1, 59, 59, 999_999, tzinfo=UTC)
        floors = [rollups.floored(moment, step_s=step_s) for step_s in sorted(rollups.STEPS_S)]
        assert floors == [
            datetime(2026, 3, 29, 1, 59, tzinfo=UTC),
            datetime(2026, 3, 29, 1, 50, tzinfo=UTC),
            datetime(2026, 3, 29, 1, 0, tzinfo=UTC),
        ]

    def test_of_every_period_is_kept_for_longer_than_the_period(self) -> None:
        for period in rollups.PERIODS.values():
            assert rollups.RETENTION[period.step_s].total_seconds() >= period.length_s + period.step_s
            assert period.length_s % period.step_s == 0
