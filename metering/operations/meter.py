"""The meter of jobs: it reserves of budgets what new jobs are expected to use, and settles it when they end.

A submit locks the budgets that bound it, in the order of their ids, after the limits of kinds and before the jobs are
stored; so what it decides stays true until it commits. An end locks none of them: it writes rows of its own
(`settle.sql`), which the next submit adds up. Nobody waits for a job while holding a budget that the job's end wants.
"""

import logging
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from math import ceil
from typing import Any, Final, TypeVar

from django.db import transaction
from django.db.models import F, Sum
from django.db.models.functions import Now
from django.utils.text import capfirst

from core import values
from core.backoff import LONGEST_S
from core.recent import Recent
from jobs.domain.hooks import AttemptEnd, Hold, Used
from jobs.domain.records import JobRecord
from jobs.registry import METERED_KINDS
from metering import domain, queries
from metering.domain import Ledger, Need, Reader, Tokens, Unit, Written
from metering.errors import BudgetExhausted, ExceedsBudget
from metering.models import Budget, Day, Model, amount
from metering.queries import NewReading
from observing import numbers
from postgres.statements import Row

FRESH_S: Final = 5.0  # within which a new budget counts in every process, as limits of people (docs/adr/0014)
RECENT: Final = timedelta(days=7)  # of which the mean run of a kind is taken
SECONDS: Final = 60.0  # expected of a run of a kind that has never run, unless its timeout is shorter
T = TypeVar("T")
log = logging.getLogger(__name__)
_MILLION: Final = 1_000_000
_STEP: Final = Decimal("0.000001")  # what an amount is exact to

# How tokens of which kinds are read: declared in every process, in an app's `kinds.py` or `hooks.py`.
_readers: Final[dict[str, Reader]] = {}
# Who has budgets, as this process read it: tokens, people, groups.
_known: Final[Recent[Sequence[frozenset[int]]]] = Recent(for_s=FRESH_S)
# The mean seconds of each kind: a week of everybody's days takes long to add up, and the budgets are locked meanwhile.
_means: Final[Recent[float]] = Recent(for_s=60.0)


def declare(
    kind: str, *, model: tuple[str, ...] = ("model",), used: Callable[[Any], Tokens] = domain.used,
    expected: Callable[[Any], Tokens] = domain.expected, written: Callable[[str], Written] | None = None,
) -> Reader:  # fmt: skip
    """Have tokens of this kind's jobs counted: `model` is the path of the model's name in a payload, `used` reads a
    result, `expected` a payload; `written` reads output, of attempts that end without saying what they used. The same
    kind again must say the same, or ValueError."""
    reader = Reader(model=model, used=used, expected=expected, written=written)
    if _readers.setdefault(kind, reader) != reader:
        raise ValueError(f"how tokens of the kind {kind!r} are read is declared twice")
    METERED_KINDS.add(kind)
    return reader


def reader_of(kind: str) -> Reader | None:
    """How tokens of this kind are read; None for one that has none."""
    return _readers.get(kind)


def forget_known() -> None:
    """Read who has budgets again before the next submit."""
    _known.clear()
    _means.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Expected:
    tokens: Tokens | None
    seconds: float
    cost: Decimal

    def of(self, unit: Unit) -> Decimal | None:
        """The amount that a budget of this unit counts; None for one whose unit the job's kind does not report."""
        if unit is Unit.SECONDS:
            return Decimal(self.seconds).quantize(_STEP)
        if self.tokens is None:
            return None
        return Decimal(self.tokens.total) if unit is Unit.TOKENS else self.cost.quantize(_STEP)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Admission:
    """Where each job found room: when it may start, and what is to be reserved for it."""

    run_at: Sequence[datetime | None]
    reserved: Sequence[Sequence[tuple[int, datetime, Decimal]]] = field(default_factory=list)

    @property
    def is_metered(self) -> Sequence[bool]:
        """Those for which something is reserved."""
        return [bool(each) for each in self.reserved]

    def keep(self, job_ids: Sequence[int | None]) -> None:
        stored = zip(job_ids, self.reserved, strict=True)
        if made := [(job_id, *one) for job_id, each in stored if job_id is not None for one in each]:
            queries.reserve(made)


class BudgetMeter:
    """See `jobs.domain.hooks.Meter`."""

    def concerns(self, new: Sequence[JobRecord]) -> bool:
        """Whether whose any of these is has a budget, as this process read it within FRESH_S."""
        tokens, people, groups = _subjects()
        return any(one.token_id in tokens or one.owner_id in people or one.group_id in groups for one in new)

    def admit(self, new: Sequence[JobRecord]) -> _Admission:
        """Find room for each of these jobs in all budgets that bound it. Raises BudgetExhausted, which says when there
        is room, for one that may not wait, and ExceedsBudget for one that no window has room for."""
        locked = queries.lock_budgets(
            tokens={one.token_id for one in new if one.token_id},
            people={one.owner_id for one in new if one.owner_id},
            groups={one.group_id for one in new if one.group_id},
        )
        if not locked:  # they were deleted since this process read who has budgets
            return _Admission(run_at=[None] * len(new), reserved=[[]] * len(new))
        now: datetime = locked[0].now  # type: ignore[attr-defined]  # annotated
        ledgers = queries.ledgers(locked, now=now)
        units = {budget.unit for budget in locked}
        placed = [
            _placed(one, _needs(locked, ledgers, one, expected), now=now)
            for one, expected in zip(new, _expectations(new, units=units, now=now), strict=True)
        ]
        return _Admission(run_at=[at for at, _ in placed], reserved=[reserved for _, reserved in placed])

    def attempts_ended(self, ends: Sequence[AttemptEnd]) -> None:
        """Keep the tokens of those whose kind reports them, and settle the jobs that have ended."""
        if readings := _readings(ends):
            kept = queries.keep_readings(readings)
            transaction.on_commit(lambda: _count_tokens(kept, {end.job_id: end for end in ends}), robust=True)
        self.ended_waiting([end.job_id for end in ends if end.is_over and end.is_metered])

    def ended_waiting(self, job_ids: Sequence[int]) -> None:
        """Settle these jobs: what they did not use is given back."""
        if job_ids:
            queries.settle(job_ids)

    def hold(self, job_id: int) -> Hold | None:
        """The budget in whose window, which has not begun, a job has its reservation; of several the last to begin."""
        waits = Budget.objects.filter(reservations__job_id=job_id, reservations__starts_at__gt=Now())
        rows = waits.annotate(starts_at=F("reservations__starts_at")).select_related("token", "person", "group")
        budget = rows.order_by("-starts_at").first()
        return None if budget is None else Hold(cause=budget.title, until=budget.starts_at)

    def used(self, job_ids: Sequence[int]) -> Used | None:
        return queries.of_jobs(job_ids)


METER: Final = BudgetMeter()


def _count_tokens(readings: Sequence[Row], ends: Mapping[int, AttemptEnd]) -> None:
    for reading in readings:
        end = ends[reading.job_id]
        if (cached := domain.cached(end.result)) is not None:
            numbers.count_cached(reading.model, end.worker, prompt=reading.tokens_in, cached=cached)
        model = numbers.label_of_model(reading.model)
        numbers.PROMPT_TOKENS.labels(model).inc(reading.tokens_in)
        numbers.GENERATION_TOKENS.labels(model).inc(reading.tokens_out)


def _subjects() -> Sequence[frozenset[int]]:
    if (subjects := _known.get("")) is None:
        rows = Budget.objects.values_list("token_id", "person_id", "group_id")
        subjects = [frozenset(each) - {None} for each in zip(*rows, strict=True)] or [frozenset()] * 3
        _known.keep("", subjects)
    return subjects


def _needs(locked: Sequence[Budget], ledgers: dict[int, Ledger], one: JobRecord, expected: _Expected) -> list[Need]:
    """Of the budgets that bound this job, what it takes of each."""
    theirs = [
        budget
        for budget in locked
        if (budget.token_id is not None and budget.token_id == one.token_id)
        or (budget.person_id is not None and budget.person_id == one.owner_id)
        or (budget.group_id is not None and budget.group_id == one.group_id)
    ]
    amounts = [(ledgers[budget.pk], expected.of(Unit(budget.unit))) for budget in theirs]
    return [(ledger, amount) for ledger, amount in amounts if amount is not None]


def _placed(
    one: JobRecord, needs: Sequence[Need], *, now: datetime
) -> tuple[datetime | None, list[tuple[int, datetime, Decimal]]]:
    """When this job may start (None: when it would), and what is reserved of which budget, in which window."""
    if (never := domain.never_fits(needs)) is not None:
        raise ExceedsBudget(budget=capfirst(never[0].title), needed=amount(never[1], never[0].unit))
    begin = max(now, one.run_at) if one.run_at else now
    moment = domain.first_room(needs, at=begin)
    if moment is None or (moment > begin and not one.may_wait):
        raise _exhausted(needs, begin=begin, moment=moment, now=now)
    reserved = [(ledger.budget_id, ledger.commit(moment, amount), amount) for ledger, amount in needs]
    return (moment if moment > begin else None), reserved


def _exhausted(needs: Sequence[Need], *, begin: datetime, moment: datetime | None, now: datetime) -> BudgetExhausted:
    """The refusal, about the budget with the longest window of those that lack room."""
    ledger, needed = max(domain.lacking(needs, begin), key=lambda need: need[0].period.end(begin))
    until = moment or ledger.period.end(begin)
    return BudgetExhausted(
        budget=capfirst(ledger.title),
        needed=amount(needed, ledger.unit),
        left=amount(max(Decimal(0), ledger.left(begin)), ledger.unit),
        until=f"{until:%Y-%m-%d %H:%M} UTC",
        retry_after=max(1, ceil((until - now).total_seconds())),
    )


def _expectations(new: Sequence[JobRecord], *, units: Set[str], now: datetime) -> list[_Expected]:
    """What each of these jobs is expected to use, of these units: a statement a kind, at most, and one for money,
    however many jobs there are."""
    read, is_timed = [_read(one) for one in new], Unit.SECONDS in units
    models = {model for model, _ in read if model} if Unit.MONEY in units else ()
    prices = Model.objects.in_bulk(list(models)) if models else {}
    return [
        _Expected(tokens=tokens, seconds=is_timed and _seconds(one, now=now), cost=_cost(tokens, prices.get(model)))
        for one, (model, tokens) in zip(new, read, strict=True)
    ]


def _read(one: JobRecord) -> tuple[str, Tokens | None]:
    """The model that a job names, and the tokens to expect; None of a kind that reports none."""
    reader = reader_of(one.kind)
    if reader is None:
        return "", None
    payload = values.loads(one.payload.encode())
    name = payload
    for step in reader.model:
        name = name.get(step) if isinstance(name, dict) else None
    return name if isinstance(name, str) else "", reader.expected(payload)


def _seconds(one: JobRecord, *, now: datetime) -> float:
    """The mean of the kind's runs, and not its timeout, which is there for the worst of them."""
    if (mean := _means.get(one.kind)) is None:
        days = Day.objects.filter(kind=one.kind, day__gte=(now - RECENT).date())
        sums = days.aggregate(seconds=Sum("seconds"), attempts=Sum("attempts"))
        mean = sums["seconds"] / sums["attempts"] if sums["attempts"] else SECONDS
        _means.keep(one.kind, mean)
    return min(mean, one.timeout_s or LONGEST_S)


def _cost(tokens: Tokens | None, price: Model | None) -> Decimal:
    if tokens is None or price is None:
        return Decimal(0)
    cost: Decimal = (tokens.input * price.price_in + tokens.output * price.price_out) / _MILLION
    return min(cost, Decimal(domain.MOST))  # as readings are bounded, see keep_readings.sql


def _readings(ends: Sequence[AttemptEnd]) -> list[NewReading]:
    """The tokens of these attempts: as their results say, or else estimated from what they wrote."""
    read = [(end, reader, _used(end, reader)) for end in ends if (reader := reader_of(end.kind))]
    silent = [(end.job_id, end.fence) for end, reader, used in read if reader.written and not used.total]
    outputs = queries.outputs(silent) if silent else {}
    return [_reading(end, reader, used, outputs.get((end.job_id, end.fence))) for end, reader, used in read]


def _reading(end: AttemptEnd, reader: Reader, used: Tokens, output: Row | None) -> NewReading:
    estimated = _or_none(end.job_id, lambda: _estimated(reader, output)) if output is not None else None
    tokens, is_estimated = estimated or (used, False)
    return NewReading(
        job=end.job_id, fence=end.fence, tokens_in=tokens.input, tokens_out=tokens.output,
        path="{" + ",".join(reader.model) + "}", is_estimated=is_estimated and tokens.total > 0,
    )  # fmt: skip


def _used(end: AttemptEnd, reader: Reader) -> Tokens:
    """What a result says, within what can be summed."""
    return _or_none(end.job_id, lambda: reader.used(end.result).bounded()) or Tokens()


def _estimated(reader: Reader, output: Row) -> tuple[Tokens, bool]:
    assert reader.written is not None
    written, part = reader.written(output.head), len(output.head.encode()) / output.size
    if part == 1 and written.used is not None:
        return written.used.bounded(), False
    prompt = reader.expected(values.loads(output.payload.encode()))
    return written.estimated(prompt, part=part).bounded(), True


def _or_none(job_id: int, read: Callable[[], T]) -> T | None:
    """What the reader of a kind says, which is an app's own; None where it fails: the attempts beside this one, which
    end in the same transaction, are counted all the same."""
    try:
        return read()
    except Exception:
        log.exception("the tokens of job %d cannot be read", job_id)
        return None
