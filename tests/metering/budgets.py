"""Small words for tests about budgets: a budget, a call with tokens, and how a budget stands."""

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.contrib.auth.models import User
from django.db.models import Sum

from jobs import operations
from jobs.models import Job, Worker
from metering import operations as metering, queries
from metering.models import Budget, Model, Reservation, Settlement, Window
from metering.operations import Balance
from postgres import clock
from tests import farm

MODEL = "tiny"


def budget(unit: str, amount: float, *, period: str = "day", by: User | None = None, **subject: Any) -> Budget:
    """A budget of one subject, which counts in this process at once."""
    root = by or User.objects.filter(is_superuser=True).first() or farm.user("root", is_staff=True, is_superuser=True)
    made = metering.make(subject, unit=unit, period=period, amount=Decimal(str(amount)), by=root)
    metering.forget_known()
    return made


def price(*, into: float, out: float) -> Model:
    """What MODEL costs, for a million tokens."""
    return Model.objects.create(name=MODEL, price_in=Decimal(str(into)), price_out=Decimal(str(out)))


def call(owner: User | None, *, most: int = 90, **options: Any) -> Job:
    """A call with nine tokens of prompt and one for luck, that may have `most` tokens of answer: 100 are expected."""
    body = {"model": MODEL, "max_tokens": most, "messages": [{"role": "user", "content": "x" * 32}]}
    return operations.submit(
        "openai", {"path": "chat/completions", "body": body}, owner=owner, queue="openai", **options
    )


def answer(into: int, out: int) -> dict[str, Any]:
    """A result that used so many tokens."""
    return {"choices": [], "usage": {"prompt_tokens": into, "completion_tokens": out}}


def worker(name: str = "gpu") -> Worker:
    """Who serves calls and the kind `work`."""
    operations.sync()
    return farm.worker(name, "openai", "work")


def stands(row: Budget) -> Balance:
    """How it stands now."""
    [balance] = metering.balances([queries.budgets().get(pk=row.pk)], now=clock.now())
    return balance


def numbers(row: Budget) -> tuple[float, float]:
    """What is used and reserved of it now."""
    balance = stands(row)
    return float(balance.used), float(balance.reserved)


def is_balanced() -> bool:
    """Whether what windows have reserved, less what is settled and not folded, is what reservations say."""
    windows = Window.objects.aggregate(of=Sum("reserved", default=Decimal(0)))["of"]
    settled = Settlement.objects.aggregate(of=Sum("reserved", default=Decimal(0)))["of"]
    reserved = Reservation.objects.aggregate(of=Sum("amount", default=Decimal(0)))["of"]
    return bool(windows - settled == reserved)


def tomorrow() -> datetime:
    """When the next window of days begins."""
    return (clock.now() + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
