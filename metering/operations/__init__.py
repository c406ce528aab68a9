"""What can be done with usage and budgets: budgets by staff, each with a line in Django's admin log, and how they
stand; the meter of jobs (`meter`), and the count of days (`rollup`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from core import audit
from core.refusal import existing
from jobs.domain.hooks import Used
from live import operations as live
from metering import queries
from metering.domain import Period, Tokens, Unit, Written, expected, used
from metering.errors import BadBudget, NotFound, OverBudget
from metering.models import Budget, amount
from metering.operations.meter import METER, declare, forget_known
from metering.operations.rollup import COUNT_USAGE, TOPIC, forget, roll_up
from postgres import transactions


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """A budget in its window of this moment: what is used, what is reserved for jobs that have not ended."""

    budget: Budget
    title: str
    begins_at: datetime
    ends_at: datetime
    used: Decimal
    reserved: Decimal

    @property
    def left(self) -> Decimal:
        """What new jobs may take; never below 0."""
        left: Decimal = self.budget.amount - self.used - self.reserved
        return max(Decimal(0), left)

    @property
    def used_percent(self) -> float:
        """What is used, of the whole; above 100 where jobs used more than was expected of them."""
        return float(100 * self.used / self.budget.amount) if self.budget.amount else 100.0

    @property
    def written(self) -> Mapping[str, str]:
        amounts = {"amount": self.budget.amount, "used": self.used, "reserved": self.reserved, "left": self.left}
        return {name: amount(value, Unit(self.budget.unit)) for name, value in amounts.items()}


def balances(budgets: Sequence[Budget], *, now: datetime) -> list[Balance]:
    """How these budgets stand at this moment, in their order."""
    rows = queries.balances([budget.pk for budget in budgets], since=Period.MONTH.begin(now))
    known = {(row.budget_id, row.starts_at): row for row in rows}
    return [_balance(budget, known, now=now) for budget in budgets]


def make(subject: Mapping[str, Any], *, unit: str, period: str, amount: Decimal, by: User) -> Budget:
    """Make a budget of one `subject` ({"person": user}, {"group": group} or {"token": its row}). It bounds what is
    submitted from then on, in other processes within five seconds. Raises BadBudget."""
    with transaction.atomic():
        row = _saved(Budget(**subject, unit=unit, period=period, amount=amount), force_insert=True)
        audit.record(by, row, f"Made the budget: {row}.")
        announce()
    return row


def change(budget_id: int, *, amount: Decimal, by: User) -> Budget:
    """Change how much a budget is; what is used and reserved of it stays. Raises NotFound, BadBudget."""
    with transaction.atomic():
        row = _locked(budget_id)
        row.amount = amount
        _saved(row, update_fields=["amount"])
        audit.record(by, row, f"Changed the budget: {row}.")
        announce()
    return row


@transactions.retried
def remove(budget_id: int, *, by: User) -> None:
    """Delete a budget; jobs that wait for its next window stay due then. Raises NotFound."""
    row = _locked(budget_id)
    audit.record(by, row, f"Deleted the budget: {row}.")
    row.delete()
    announce()


def announce() -> None:
    """Budgets changed: after the commit this process reads who has any, and pages show them."""
    transaction.on_commit(forget_known)
    live.touch(TOPIC)


def of_job(job_id: int) -> Used | None:
    """What this job used; None while none of its attempts has ended."""
    return queries.of_jobs([job_id])


def _balance(budget: Budget, known: Mapping[tuple[int, datetime], Any], *, now: datetime) -> Balance:
    period = Period(budget.period)
    row = known.get((budget.pk, period.begin(now)))
    return Balance(
        budget=budget, title=budget.title, begins_at=period.begin(now), ends_at=period.end(now),
        used=row.used if row else Decimal(0), reserved=row.reserved if row else Decimal(0),
    )  # fmt: skip


def _locked(budget_id: int) -> Budget:
    return existing(queries.budgets().select_for_update(of=("self",)).filter(pk=budget_id).first(), NotFound())


def _saved(row: Budget, **options: Any) -> Budget:
    try:
        row.full_clean()
        with transaction.atomic():
            row.save(**options)
    except IntegrityError:
        raise BadBudget(field="budget", reason="There is one of this unit and period already.") from None
    except ValidationError as error:
        [(field, [reason, *_]), *_] = error.message_dict.items()
        raise BadBudget(field="budget" if field == "__all__" else field, reason=reason) from error
    return row
