"""Windows, and the first moment at which several budgets have room."""

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given, strategies as st

from metering.domain import MOST_WINDOWS, Ledger, Period, Unit, first_room, lacking, never_fits, written
from tests.looped import looped

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
MOMENTS = st.datetimes(datetime(2000, 1, 1), datetime(2199, 1, 1), timezones=st.just(UTC))


def ledger(period: Period = Period.DAY, *, amount: int = 100, used: dict[datetime, int] | None = None) -> Ledger:
    """A budget with so much committed in these windows."""
    committed = {at: Decimal(value) for at, value in (used or {}).items()}
    return Ledger(budget_id=1, title="it", unit=Unit.TOKENS, period=period, amount=Decimal(amount), committed=committed)


class TestWindows:
    def test_are_of_the_calendar_in_utc(self) -> None:
        late = datetime(2026, 2, 1, 0, 30, tzinfo=timezone(timedelta(hours=1)))  # still January in UTC
        assert Period.DAY.begin(late) == datetime(2026, 1, 31, tzinfo=UTC)
        assert Period.MONTH.begin(late) == datetime(2026, 1, 1, tzinfo=UTC)
        assert Period.MONTH.end(late) == datetime(2026, 2, 1, tzinfo=UTC)

    @given(moment=MOMENTS, period=st.sampled_from(Period))
    def test_follow_one_another_without_a_gap(self, moment: datetime, period: Period) -> None:
        begin, end = period.begin(moment), period.end(moment)
        assert begin <= moment < end
        assert period.begin(begin) == begin
        assert period.begin(end) == end
        assert period.begin(end - timedelta(microseconds=1)) == begin


class TestRoom:
    def test_is_now_where_nothing_is_used(self) -> None:
        assert first_room([(ledger(), Decimal(100))], at=NOON) == NOON

    def test_is_in_the_next_window_where_this_one_is_full(self) -> None:
        full = ledger(used={Period.DAY.begin(NOON): 1})
        assert first_room([(full, Decimal(100))], at=NOON) == datetime(2026, 2, 1, tzinfo=UTC)

    def test_is_where_all_budgets_have_it(self) -> None:
        day = ledger(used={Period.DAY.begin(NOON): 50, datetime(2026, 2, 1, tzinfo=UTC): 50})
        month = ledger(Period.MONTH, used={Period.MONTH.begin(NOON): 50})
        needs = [(day, Decimal(60)), (month, Decimal(60))]
        assert first_room(needs, at=NOON) == datetime(2026, 2, 2, tzinfo=UTC)
        assert lacking(needs, NOON) == needs

    def test_is_nowhere_for_what_is_larger_than_a_budget(self) -> None:
        need = (ledger(), Decimal(101))
        assert never_fits([need]) == need
        assert first_room([need], at=NOON) is None

    def test_is_looked_for_in_so_many_windows_and_no_more(self) -> None:
        days = {Period.DAY.begin(NOON) + timedelta(days=n): 100 for n in range(MOST_WINDOWS)}
        assert first_room([(ledger(used=days), Decimal(1))], at=NOON) is None

    def test_is_less_where_jobs_used_more_than_was_expected(self) -> None:
        over = ledger(used={Period.DAY.begin(NOON): 130})
        assert over.left(NOON) == -30
        assert first_room([(over, Decimal(0))], at=NOON) == datetime(2026, 2, 1, tzinfo=UTC)

    @given(amounts=st.lists(st.integers(0, 100), max_size=30))
    def test_never_commits_more_than_the_budget_in_any_window(self, amounts: list[int]) -> None:
        budget = ledger()
        for amount in map(Decimal, amounts):
            moment = first_room([(budget, amount)], at=NOON)
            assert moment is not None
            budget.commit(moment, amount)
        assert all(value <= 100 for value in budget.committed.values())
        assert sum(budget.committed.values()) == sum(amounts)


@looped(
    ("amount", "unit", "text"),
    [
        pytest.param("1200", Unit.TOKENS, "1,200 tokens", id="tokens"),
        pytest.param("90.4", Unit.SECONDS, "90 s", id="seconds"),
        pytest.param("1234.5", Unit.MONEY, "1,234.50 USD", id="money"),
        pytest.param("0.000600", Unit.MONEY, "0.0006 USD", id="the price of a call"),
        pytest.param("0", Unit.MONEY, "0.00 USD", id="nothing"),
    ],
)
def test_amounts_are_written_for_people(amount: str, unit: Unit, text: str) -> None:
    assert written(Decimal(amount), unit, currency="USD") == text
