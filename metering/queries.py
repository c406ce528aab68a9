"""Reads and writes of prices, budgets and usage."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet, Sum
from django.db.models.functions import Now

from jobs.domain.hooks import Used
from metering.domain import Ledger, Period, Unit
from metering.models import Budget, Day, Watermark, amount
from postgres import statements

# What usage is shown by, and the columns that say it.
BY: Final[Mapping[str, tuple[str, ...]]] = {
    "day": ("day",),
    "kind": ("kind",),
    "model": ("model",),
    "worker": ("worker_id", "worker__name"),
    "token": ("token_id", "token__name"),
    "person": ("person_id", "person__username"),
    "group": ("group_id", "group__name"),
}
MOST_UNFOLDED: Final = 100  # settlements that a submit adds up; the roll-up folds them every minute
MOST_READ: Final = 256_000  # bytes of an output, some thousand tokens in lines of JSON; the rest is taken to be alike
NUMBERS: Final = ("attempts", "seconds", "tokens_in", "tokens_out", "cost")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewReading:
    """The tokens of an attempt; `path` is where the model's name is in the payload, as PostgreSQL writes an array."""

    job: int
    fence: int
    tokens_in: int
    tokens_out: int
    path: str
    is_estimated: bool


def lock_budgets(*, tokens: Collection[Any], people: Collection[Any], groups: Collection[Any]) -> list[Budget]:
    """The budgets of these, locked in the order of their ids; each with the database's `now`."""
    theirs = Q(token_id__in=tokens) | Q(person_id__in=people) | Q(group_id__in=groups)
    rows = Budget.objects.filter(theirs).select_related("token", "person", "group").annotate(now=Now())
    return list(rows.select_for_update(of=("self",)).order_by("pk"))


def fold(budget_ids: Sequence[int]) -> None:
    statements.load("metering", "fold").run({"budgets": list(budget_ids)})


def balances(budget_ids: Sequence[int], *, since: datetime) -> list[statements.Row]:
    """What is used and reserved in each window of these budgets that began then or later."""
    return statements.load("metering", "balances").run({"budgets": list(budget_ids), "since": since})


def ledgers(budgets: Sequence[Budget], *, now: datetime) -> dict[int, Ledger]:
    """These locked budgets with what is committed of their windows from now on; many settlements are folded."""
    rows = balances([budget.pk for budget in budgets], since=Period.MONTH.begin(now))
    made = {
        budget.pk: Ledger(
            budget_id=budget.pk, title=budget.title, unit=Unit(budget.unit), period=Period(budget.period),
            amount=budget.amount,
        )
        for budget in budgets
    }  # fmt: skip
    for row in rows:
        made[row.budget_id].committed[row.starts_at] = row.used + row.reserved
    if sum(row.unfolded for row in rows) > MOST_UNFOLDED:
        fold([*made])
    return made


def reserve(reservations: Sequence[tuple[int, int, datetime, Decimal]]) -> None:
    """Reserve, of budgets that the caller has locked, for each job so much of a budget in the window that begins then:
    (job, budget, moment, amount)."""
    columns = zip(("job", "budget", "starts_at", "amount"), map(list, zip(*reservations, strict=True)), strict=True)
    statements.load("metering", "reserve").run(dict(columns))


def settle(job_ids: Sequence[int]) -> None:
    """Note what these ended jobs used, in place of what is reserved for them."""
    statements.load("metering", "settle").run({"jobs": list(job_ids)})


def keep_readings(readings: Sequence[NewReading]) -> list[statements.Row]:
    """Keep the tokens of attempts, with what they cost: those that were not kept before, with their models."""
    columns = {name: [getattr(one, name) for one in readings] for name in NewReading.__dataclass_fields__}
    return statements.load("metering", "keep_readings").run(columns)


def outputs(attempts: Sequence[tuple[int, int]]) -> dict[tuple[int, int], statements.Row]:
    """Of these attempts (job and fence) that wrote anything: rows of `size head payload`, see outputs.sql."""
    params = {"job": [job for job, _ in attempts], "fence": [fence for _, fence in attempts], "most": MOST_READ}
    return {(row.job_id, row.fence): row for row in statements.load("metering", "outputs").run(params)}


def of_jobs(job_ids: Sequence[int]) -> Used | None:
    """What these jobs used together; None while none of their attempts has ended."""
    [row] = statements.load("metering", "of_jobs").run({"jobs": list(job_ids)})
    if not row.attempts:
        return None
    words = amount(row.cost, Unit.MONEY) if row.cost else ""
    return Used(**row._asdict() | {"model": row.model or "", "cost_in_words": words})


def counted_until() -> datetime | None:
    """Until when days are counted; None before the first time."""
    return Watermark.objects.values_list("counted_until", flat=True).first()


def budgets() -> QuerySet[Budget]:
    return Budget.objects.select_related("token", "person", "group").order_by("pk")


def budgets_of(user: User) -> QuerySet[Budget]:
    """Those that bound what this person submits: their own, of their tokens and of their groups."""
    return budgets().filter(Q(person=user) | Q(token__user=user) | Q(group__in=user.groups.values("pk")))


def days(*, since: date, until: date, person: int | None = None, chosen: Mapping[str, Any]) -> QuerySet[Day]:
    """Days of usage from one to another, both included; of one person, and with these values of `BY`'s columns."""
    rows = Day.objects.filter(day__gte=since, day__lte=until, **chosen)
    return rows if person is None else rows.filter(person_id=person)


def summed(rows: QuerySet[Day], *, by: str, limit: int | None = None) -> list[dict[str, Any]]:
    """Usage by one of `BY`: a row each with its NUMBERS; days in their order, others by what used most time. Up to
    `limit`, if given."""
    sums = {name: Sum(name) for name in NUMBERS}
    ordered = rows.values(*BY[by]).annotate(**{f"sum_{name}": each for name, each in sums.items()})
    return list(ordered.order_by(*(["day"] if by == "day" else ["-sum_seconds", *BY[by]]))[:limit])


def total(rows: QuerySet[Day]) -> dict[str, Any]:
    return rows.aggregate(**{f"sum_{name}": Sum(name, default=0) for name in NUMBERS})
