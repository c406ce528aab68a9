"""Reads and writes of prices, budgets and usage."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from django.contrib.auth.models import User
from django.db.models import F, Q, QuerySet, Sum
from django.db.models.functions import Now

from metering.domain.budgets import Ledger, Period, Unit
from metering.models import Budget, Day, Model, Settlement, Watermark
from postgres import statements

# How far the order of ids of attempts may differ from that of their times, as in jobs.queries.rollups.
_DISORDER: Final = timedelta(minutes=1)
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
MOST_ROWS: Final = 1000  # of a person in a day, from which on models are counted as one
NUMBERS: Final = ("attempts", "seconds", "tokens_in", "tokens_out", "cost")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subjects:
    tokens: frozenset[int | None]
    people: frozenset[int | None]
    groups: frozenset[int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewReservation:
    """So much of a budget, in the window that begins then, for a job."""

    job_id: int
    budget_id: int
    starts_at: datetime
    amount: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class NewReading:
    """The tokens of an attempt; `path` is where the model's name is in the payload."""

    job_id: int
    fence: int
    tokens_in: int
    tokens_out: int
    path: tuple[str, ...]
    is_estimated: bool


def subjects() -> Subjects:
    rows = list(Budget.objects.values_list("token_id", "person_id", "group_id"))
    of = [frozenset(each) - {None} for each in zip(*rows, strict=True)] or [frozenset()] * 3
    return Subjects(tokens=of[0], people=of[1], groups=of[2])


def lock_budgets(*, tokens: Collection[Any], people: Collection[Any], groups: Collection[Any]) -> list[Budget]:
    """The budgets of these, locked in the order of their ids; each with the database's `now`."""
    theirs = Q(token_id__in=tokens) | Q(person_id__in=people) | Q(group_id__in=groups)
    rows = Budget.objects.filter(theirs).select_related("token", "person", "group").annotate(now=Now())
    return list(rows.select_for_update(of=("self",)).order_by("pk"))


def lock_settled_budgets(limit: int, skip: int) -> list[int]:
    """Budgets that have settlements to fold, `limit` behind the first `skip`, locked in the order of their ids."""
    named = Settlement.objects.values("budget_id").distinct()
    rows = Budget.objects.filter(pk__in=named).select_for_update().order_by("pk")
    return [row.pk for row in rows[skip : skip + limit]]


def fold(budget_ids: Sequence[int]) -> None:
    """Add the settlements of these locked budgets to their windows."""
    statements.load("metering", "fold").run({"budgets": list(budget_ids)})


def forget_settlements() -> int:
    """Delete settlements of budgets that are deleted; how many."""
    return Settlement.objects.exclude(budget_id__in=Budget.objects.values("pk")).delete()[0]


def balances(budget_ids: Sequence[int], *, since: datetime) -> list[statements.Row]:
    """What is used and reserved in each window of these budgets that began then or later."""
    return statements.load("metering", "balances").run({"budgets": list(budget_ids), "since": since})


def ledgers(budgets: Sequence[Budget], *, titles: Mapping[int, str], now: datetime) -> dict[int, Ledger]:
    """These locked budgets with what is committed of their windows from now on; many settlements are folded."""
    rows = balances([budget.pk for budget in budgets], since=Period.MONTH.begin(now))
    made = {
        budget.pk: Ledger(
            budget_id=budget.pk, title=titles[budget.pk], unit=Unit(budget.unit), period=Period(budget.period),
            amount=budget.amount,
        )
        for budget in budgets
    }  # fmt: skip
    for row in rows:
        made[row.budget_id].committed[row.starts_at] = row.used + row.reserved
    if sum(row.unfolded for row in rows) > MOST_UNFOLDED:
        fold([*made])
    return made


def reserve(reservations: Sequence[NewReservation]) -> None:
    """Keep these reservations, of budgets that the caller has locked."""
    statements.load("metering", "reserve").run(
        {
            "job": [one.job_id for one in reservations],
            "budget": [one.budget_id for one in reservations],
            "starts_at": [one.starts_at for one in reservations],
            "amount": [one.amount for one in reservations],
        }
    )


def settle(job_ids: Sequence[int]) -> int:
    """Note what these ended jobs used, in place of what is reserved for them; how many reservations there were."""
    [row] = statements.load("metering", "settle").run({"jobs": list(job_ids)})
    settled: int = row.settled
    return settled


def keep_readings(readings: Sequence[NewReading]) -> None:
    """Keep the tokens of attempts, with what they cost."""
    statements.load("metering", "keep_readings").run(
        {
            "job": [one.job_id for one in readings],
            "fence": [one.fence for one in readings],
            "tokens_in": [one.tokens_in for one in readings],
            "tokens_out": [one.tokens_out for one in readings],
            "is_estimated": [one.is_estimated for one in readings],
            "path": ["{" + ",".join(one.path) + "}" for one in readings],
        }
    )


def outputs(attempts: Sequence[tuple[int, int]]) -> dict[tuple[int, int], statements.Row]:
    """Of these attempts (job and fence) that wrote anything: rows of `size head payload`, see outputs.sql."""
    params = {"job": [job for job, _ in attempts], "fence": [fence for _, fence in attempts], "most": MOST_READ}
    return {(row.job_id, row.fence): row for row in statements.load("metering", "outputs").run(params)}


def left_over(limit: int, skip: int) -> list[int]:
    """Jobs that ended without having been settled, `limit` behind the first `skip`."""
    return [row.job_id for row in statements.load("metering", "left_over").run({"limit": limit, "skip": skip})]


def prices(names: Iterable[str]) -> dict[str, Model]:
    return Model.objects.in_bulk(list(names))


def mean_seconds(kinds: Iterable[str], *, since: date) -> dict[str, float]:
    """How long an attempt of each of these kinds took, on average of the days since."""
    rows = Day.objects.filter(kind__in=kinds, day__gte=since).values("kind")
    sums = rows.annotate(of=Sum("seconds"), all=Sum("attempts")).values_list("kind", "of", "all")
    return {kind: seconds / attempts for kind, seconds, attempts in sums if attempts}


def lock_watermark(*, first: datetime) -> Watermark:
    """Until when days are counted, locked until the transaction ends; made at the first call."""
    Watermark.objects.bulk_create([Watermark(counted_until=first)], ignore_conflicts=True)
    return Watermark.objects.select_for_update().get()


def counted_until() -> datetime | None:
    """Until when days are counted; None before the first time."""
    return Watermark.objects.values_list("counted_until", flat=True).first()


def count_days(*, since: datetime, until: datetime) -> int:
    """Add what ended in this period to its days; how many rows that changed."""
    first_attempt = statements.first_id_since("jobs_attempt", "ended_at", since - _DISORDER)
    params = {"since": since, "until": until, "first_attempt": first_attempt, "most_rows": MOST_ROWS}
    [row] = statements.load("metering", "count_days").run(params)
    changed: int = row.changed
    return changed


def forget_readings() -> None:
    """Delete readings of jobs that are gone."""
    statements.load("metering", "forget_readings").run()


def of_job(job_id: int) -> statements.Row:
    [row] = statements.load("metering", "of_job").run({"job": job_id})
    return row


def held_by(job_id: int) -> Budget | None:
    """The budget in whose window, which has not begun, this job has its reservation; of several the last to begin."""
    waits = Budget.objects.filter(reservations__job_id=job_id, reservations__starts_at__gt=Now())
    rows = waits.annotate(starts_at=F("reservations__starts_at")).select_related("token", "person", "group")
    return rows.order_by("-starts_at").first()


def budgets() -> QuerySet[Budget]:
    return Budget.objects.select_related("token", "person", "group").order_by("pk")


def budgets_of(user: User) -> QuerySet[Budget]:
    """Those that bound what this person submits: their own, of their tokens and of their groups."""
    return budgets().filter(Q(person=user) | Q(token__user=user) | Q(group__in=user.groups.values("pk")))


def days(*, since: date, until: date, person: int | None = None, chosen: Mapping[str, Any]) -> QuerySet[Day]:
    """Days of usage from one to another, both included; of one person, and with these values of `BY`'s columns."""
    rows = Day.objects.filter(day__gte=since, day__lte=until, **chosen)
    return rows if person is None else rows.filter(person_id=person)


def summed(rows: QuerySet[Day], *, by: str) -> list[dict[str, Any]]:
    """Usage by one of `BY`: a row each with its NUMBERS; days in their order, others by what used most time."""
    sums = {name: Sum(name) for name in NUMBERS}
    ordered = rows.values(*BY[by]).annotate(**{f"sum_{name}": each for name, each in sums.items()})
    return list(ordered.order_by(*(["day"] if by == "day" else ["-sum_seconds", *BY[by]])))


def total(rows: QuerySet[Day]) -> dict[str, Any]:
    return rows.aggregate(**{f"sum_{name}": Sum(name, default=0) for name in NUMBERS})
