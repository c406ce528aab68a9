"""Budgets: what they count, their windows, and the first moment at which several have room for a job."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Final

MOST_WINDOWS: Final = 400  # so many windows ahead a job may wait: a year of days
MOST_AMOUNT: Final = Decimal(10) ** 15


class Unit(StrEnum):
    TOKENS = "tokens"
    SECONDS = "seconds"
    MONEY = "money"


class Period(StrEnum):
    """How long a window is: a day or a month of the calendar, in UTC."""

    DAY = "day"
    MONTH = "month"

    def begin(self, moment: datetime) -> datetime:
        midnight = moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        return midnight if self is Period.DAY else midnight.replace(day=1)

    def end(self, moment: datetime) -> datetime:
        """When the window after it begins."""
        begin = self.begin(moment)
        return begin + timedelta(days=1) if self is Period.DAY else (begin + timedelta(days=32)).replace(day=1)


@dataclass(slots=True, kw_only=True)
class Ledger:
    """One budget while jobs are admitted: what is used and reserved, by the beginning of each window."""

    budget_id: int
    title: str
    unit: Unit
    period: Period
    amount: Decimal
    committed: dict[datetime, Decimal] = field(default_factory=dict)

    def left(self, moment: datetime) -> Decimal:
        """What is left in the window of this moment; below 0 where jobs used more than was expected of them."""
        return self.amount - self.committed.get(self.period.begin(moment), Decimal(0))

    def commit(self, moment: datetime, amount: Decimal) -> datetime:
        """Reserve so much in the window of this moment; when that begins."""
        begin = self.period.begin(moment)
        self.committed[begin] = self.committed.get(begin, Decimal(0)) + amount
        return begin


Need = tuple[Ledger, Decimal]


def never_fits(needs: Sequence[Need]) -> Need | None:
    """The first budget that has no room for this even when nothing of it is used."""
    return next(((ledger, amount) for ledger, amount in needs if amount > ledger.amount), None)


def lacking(needs: Sequence[Need], moment: datetime) -> list[Need]:
    """The budgets without room for this in the windows of a moment."""
    return [(ledger, amount) for ledger, amount in needs if amount > ledger.left(moment)]


def first_room(needs: Sequence[Need], *, at: datetime) -> datetime | None:
    """The first moment, from `at` on, at which all of these budgets have room; None: in none of MOST_WINDOWS windows.
    Later than `at` it is the beginning of a window."""
    moment = at
    for _ in range(MOST_WINDOWS):
        full = lacking(needs, moment)
        if not full:
            return moment
        moment = max(ledger.period.end(moment) for ledger, _ in full)
    return None


def written(amount: Decimal, unit: Unit, *, currency: str) -> str:
    """An amount as people read it: "1,200 tokens", "90 s", "12.50 USD"."""
    if unit is Unit.MONEY:
        # Prices of single calls are fractions of a cent.
        exact = amount.quantize(Decimal("0.01")) if abs(amount) >= 1 or not amount else amount.normalize()
        return f"{exact:,f} {currency}"
    return f"{amount:,.0f} {'s' if unit is Unit.SECONDS else 'tokens'}"
