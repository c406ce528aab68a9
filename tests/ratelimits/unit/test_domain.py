"""What the vectors leave open: clocks that go back, starts ahead, no debt at all, and what cannot be a
limit."""

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ratelimits.domain import EPOCH, FixedWindow, State, TokenBucket
from ratelimits.errors import CountExceedsLimit, InvalidConfig, InvalidCount
from tests.looped import looped
from tests.ratelimits.unit.undivided import Decision, evaluate

SECOND = timedelta(seconds=1)
NOW = 1_735_000_000_123
TEN = TokenBucket(10, SECOND)
WINDOW = FixedWindow(10, SECOND)


class TestAClockThatGoesBack:
    @pytest.mark.parametrize("config", [TEN, WINDOW], ids=["token bucket", "fixed window"])
    def test_takes_nothing_away(self, config: TokenBucket | FixedWindow) -> None:
        """The public package answers 1 here, and moves its moment back."""
        decision = evaluate(config, State(6, NOW), now=NOW - 500, count=5)
        assert decision == Decision(ok=True, retry_after=None, state=State(1, NOW))

    @pytest.mark.parametrize("config", [TEN, WINDOW], ids=["token bucket", "fixed window"])
    def test_gives_nothing_twice_when_it_comes_back(self, config: TokenBucket | FixedWindow) -> None:
        empty = evaluate(config, State(10, NOW), now=NOW, count=10).state
        back = evaluate(config, empty, now=NOW - 900, count=0).state
        assert evaluate(config, back, now=NOW, count=0.5).ok is False

    def test_counts_into_how_long_to_wait(self) -> None:
        assert evaluate(TEN, State(0, NOW), now=NOW - 500, count=1).retry_after == 600


class TestAStart:
    def test_that_lies_ahead_only_says_where_the_windows_are(self) -> None:
        """The public package denies everything until then."""
        config = FixedWindow(10, SECOND, start=EPOCH + timedelta(milliseconds=NOW + 10_400))
        decision = evaluate(config, None, now=NOW, count=4)
        assert decision == Decision(ok=True, retry_after=None, state=State(6, NOW - 600))

    def test_may_be_said_in_any_time_zone(self) -> None:
        berlin = datetime.fromisoformat("2024-03-10T03:00:00+01:00")
        assert (
            FixedWindow(1, SECOND, start=berlin).start_ms
            == FixedWindow(1, SECOND, start=berlin.astimezone(UTC)).start_ms
        )


class TestDebt:
    def test_of_at_most_zero_is_no_debt(self) -> None:
        """The public package takes 0 for "no bound"."""
        config = TokenBucket(10, SECOND, max_reserved=0)
        state = State(3, NOW)
        assert evaluate(config, state, now=NOW, count=3, reserve=True).ok
        assert evaluate(config, state, now=NOW, count=4, reserve=True) == Decision(
            ok=False, retry_after=100, state=state
        )

    def test_that_just_fits_is_granted(self) -> None:
        config = TokenBucket(10, SECOND, max_reserved=5)
        assert evaluate(config, State(0, NOW), now=NOW, count=5, reserve=True) == Decision(
            ok=True, retry_after=500, state=State(-5, NOW)
        )


class TestACount:
    @looped("count", [-1, -0.001, math.nan, math.inf, -math.inf, 10**400, "many", None])
    def test_that_is_negative_or_no_finite_number_is_refused(self, count: Any) -> None:
        with pytest.raises(InvalidCount):
            evaluate(TEN, None, now=NOW, count=count)

    def test_that_no_state_could_grant_is_an_error_before_all_else(self) -> None:
        with pytest.raises(CountExceedsLimit) as refusal:
            evaluate(TEN, State(-100, NOW), now=NOW, count=10.5)
        assert (refusal.value.count, refusal.value.most) == (10.5, 10)
        assert str(refusal.value) == "This limit can never grant 10.5 at once: 10 is the most it ever holds."

    def test_may_be_larger_than_the_limit_where_debt_has_room_for_it(self) -> None:
        config = TokenBucket(10, SECOND, max_reserved=5)
        assert evaluate(config, None, now=NOW, count=15, reserve=True).ok
        with pytest.raises(CountExceedsLimit):
            evaluate(config, None, now=NOW, count=15.1, reserve=True)
        assert evaluate(TEN, None, now=NOW, count=1e15, reserve=True).ok
        with pytest.raises(CountExceedsLimit):
            evaluate(TEN, None, now=NOW, count=1e16, reserve=True)

    def test_of_zero_is_denied_in_debt(self) -> None:
        assert evaluate(TEN, State(-1, NOW), now=NOW, count=0).retry_after == 100


class TestACooldown:
    def test_is_a_bucket_of_one_and_holds_across_every_moment(self) -> None:
        """A fixed window would let two calls pass beside its edge."""
        once_a_minute = TokenBucket(1, timedelta(minutes=1), capacity=1)
        state = evaluate(once_a_minute, None, now=NOW).state
        assert [evaluate(once_a_minute, state, now=NOW + ms).ok for ms in (0, 1, 59_999, 60_000)] == [
            False, False, False, True,
        ]  # fmt: skip


class TestWhatCannotBeALimit:
    @looped("kind", [TokenBucket, FixedWindow])
    @looped(
        ("field", "fields"),
        [
            *(("rate", {"rate": rate}) for rate in (0, -1, math.nan, math.inf, "10", None, True, 10**400, 1e16, 1e-13)),
            *(("period", {"period": period}) for period in (timedelta(0), -SECOND, 60, None)),
            *(("capacity", {"capacity": capacity}) for capacity in (-1, math.nan, math.inf, "1", 1e16)),
            *(("max_reserved", {"max_reserved": most}) for most in (-1, math.nan, math.inf)),
            *(("shards", {"shards": shards}) for shards in (0, -1, 1.5, True, None, 1025)),
        ],
    )
    def test_is_refused_by_the_name_of_the_field(self, kind: Any, field: str, fields: dict[str, Any]) -> None:
        with pytest.raises(InvalidConfig) as refusal:
            kind(**({"rate": 10, "period": SECOND} | fields))
        assert refusal.value.numbers["field"] == field

    def test_a_window_of_parts_of_a_millisecond(self) -> None:
        with pytest.raises(InvalidConfig):
            FixedWindow(10, timedelta(microseconds=1500))

    def test_a_start_without_a_time_zone(self) -> None:
        with pytest.raises(InvalidConfig):
            FixedWindow(10, SECOND, start=datetime(2024, 3, 10))
