"""Usage, and budgets: everybody their own, staff all; staff change budgets."""

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, Final, Literal

from django.contrib.auth.models import Group, User
from django.http import HttpRequest
from ninja import Query, Status
from pydantic import BaseModel, ConfigDict, Field, model_validator

from accounts import http as people
from core.api import Calls, Deleted, Sample, allowed, caller, refuse_unknown_parameters
from core.values import BIGINT, Body, Name, without_empty
from jobs import (
    http,  # noqa: F401  # the converter of ids
    operations,
)
from metering import operations as metering, queries
from metering.domain import MOST_AMOUNT, Period, Unit
from metering.errors import BadBudget
from metering.operations import Balance
from postgres import clock

router = Calls(tags=["Usage"])
READ, OPERATE = map(people.callers, ("read", "operate"))
MOST_DAYS: Final = 1000
Amount = Annotated[Decimal, Field(ge=0, le=MOST_AMOUNT, decimal_places=6)]


class UsageQuery(BaseModel):
    """Which days, by what, and of what."""

    model_config = ConfigDict(populate_by_name=True)
    _without_empty = model_validator(mode="before")(without_empty)

    since: date | None = Field(None, alias="from")
    to: date | None = None
    by: Literal["day", "kind", "model", "worker", "token", "person", "group"] = "day"


class UsageRow(BaseModel):
    """What one day, kind, model, worker, token, person or group used. `id` is that of the last four."""

    name: str | None = Field(description="Null for what has none: jobs of nobody, or of no token.")
    id: int | None = None
    attempts: int
    seconds: float
    tokens_in: int
    tokens_out: int
    cost: float


class Usage(BaseModel):
    """Usage from a day to another."""

    since: date = Field(serialization_alias="from")
    to: date
    by: str
    counted_until: datetime | None
    rows: list[UsageRow]


class NewBudget(Body):
    """A budget to make: of one person, group or token."""

    person: Name | None = None
    group: Name | None = None
    token: Annotated[int, Field(ge=1, le=BIGINT)] | None = None
    unit: Unit
    period: Period
    amount: Amount

    @model_validator(mode="after")
    def _has_one_subject(self) -> "NewBudget":
        if sum(each is not None for each in (self.person, self.group, self.token)) != 1:
            raise ValueError("name one of person, group and token")
        return self


class NewAmount(Body):
    """How much a budget is to be."""

    amount: Amount


class BudgetOut(BaseModel):
    """A budget in its window of this moment."""

    id: int
    person: str | None
    group: str | None
    token: int | None
    unit: Unit
    period: Period
    amount: float
    used: float
    reserved: float = Field(description="For jobs that have not ended.")
    left: float
    begins_at: datetime
    ends_at: datetime


class Budgets(BaseModel):
    """Budgets."""

    budgets: list[BudgetOut]


@router.call("get", "/usage", auth=READ, by_alias=True, sample=Sample(query="by=model"))
def usage(request: HttpRequest, wanted: Query[UsageQuery]) -> Usage:
    """Usage by day, kind, model, worker, token, person or group.

    What ended attempts used from one day to another (UTC, both included; the last 30 days if absent), by `day`, `kind`,
    `model`, `worker`, `token`, `person` or `group`: attempts, seconds of workers, tokens in and out, cost. Your own; of
    operators everybody's. `counted_until` is how far days are counted, seconds behind the present.
    """
    refuse_unknown_parameters(request, ["from", "to", "by"])
    user = caller(request)
    to = wanted.to or clock.now().date()
    since = wanted.since or to - timedelta(days=min(29, (to - date.min).days))
    if not 0 <= (to - since).days < MOST_DAYS:
        raise BadBudget(field="from", reason=f"A day not after `to`, and less than {MOST_DAYS} days before it.")
    person = None if operations.sees_all(user) else user.pk
    rows = queries.summed(queries.days(since=since, until=to, person=person, chosen={}), by=wanted.by)
    listed = [_row(row, by=wanted.by) for row in rows]
    return Usage(since=since, to=to, by=wanted.by, counted_until=queries.counted_until(), rows=listed)


@router.call("get", "/budgets", auth=READ)
def budgets(request: HttpRequest) -> Budgets:
    """Budgets.

    The budgets that bound what you submit: your own, those of your tokens and groups; for operators all. Each with what
    is used, reserved for jobs that have not ended, and left in its window of this moment.
    """
    user = caller(request)
    rows = queries.budgets() if operations.sees_all(user) else queries.budgets_of(user)
    return Budgets(budgets=[_budget(each) for each in metering.balances(list(rows), now=clock.now())])


@router.call(
    "post",
    "/budgets",
    auth=OPERATE,
    sample=Sample(body={"person": "ada", "unit": "tokens", "period": "day", "amount": 100000}),
)
def make_budget(request: HttpRequest, body: NewBudget) -> Status[BudgetOut]:
    """Make a budget.

    Makes a budget of a `person`, a `group` (by name) or an API `token` (by id); for staff who may. It bounds what is
    submitted from then on. 422 `invalid` where there is one of this unit and period already.
    """
    user = allowed(request, "metering.add_budget")
    row = metering.make(_subject(body), unit=body.unit, period=body.period, amount=body.amount, by=user)
    return Status(201, _balance(row))


@router.call("patch", "/budgets/{jobid:budget_id}", auth=OPERATE, sample=Sample(body={"amount": 200000}))
def change_budget(request: HttpRequest, budget_id: int, body: NewAmount) -> BudgetOut:
    """Change a budget.

    Changes how much it is. What is used and reserved of it stays.
    """
    user = allowed(request, "metering.change_budget")
    return _balance(metering.change(budget_id, amount=body.amount, by=user))


@router.call("delete", "/budgets/{jobid:budget_id}", auth=OPERATE)
def delete_budget(request: HttpRequest, budget_id: int) -> Deleted:
    """Delete a budget.

    Deletes it. Jobs that wait for its next window stay due then.
    """
    user = allowed(request, "metering.delete_budget")
    metering.remove(budget_id, by=user)
    return Deleted(id=budget_id)


def _subject(body: NewBudget) -> dict[str, Any]:
    """Whose budget it is to be. Raises BadBudget for a name that nobody has; a token's id is checked as it is saved."""
    if body.token is not None:
        return {"token_id": body.token}
    subject: User | Group | None
    if body.person is not None:
        name, subject = "person", User.objects.filter(username=body.person).first()
    else:
        name, subject = "group", Group.objects.filter(name=body.group).first()
    if subject is None:
        raise BadBudget(field=name, reason="Nobody is called so.")
    return {name: subject}


def _balance(row: Any) -> BudgetOut:
    [balance] = metering.balances([queries.budgets().get(pk=row.pk)], now=clock.now())
    return _budget(balance)


def _budget(balance: Balance) -> BudgetOut:
    budget = balance.budget
    return BudgetOut(
        id=budget.pk,
        person=None if budget.person is None else budget.person.get_username(),
        group=None if budget.group is None else budget.group.name,
        token=budget.token_id, unit=Unit(budget.unit), period=Period(budget.period), amount=float(budget.amount),
        used=float(balance.used), reserved=float(balance.reserved), left=float(balance.left),
        begins_at=balance.begins_at, ends_at=balance.ends_at,
    )  # fmt: skip


def _row(row: dict[str, Any], *, by: str) -> UsageRow:
    columns = queries.BY[by]
    name = row[columns[-1]]
    numbers = {each: row[f"sum_{each}"] for each in queries.NUMBERS}
    shown = name.isoformat() if isinstance(name, date) else name
    return UsageRow(name=shown, id=row[columns[0]] if len(columns) > 1 else None, **numbers)
