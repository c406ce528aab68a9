"""Budgets and the tokens that they count."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from math import ceil
from typing import Any, Final

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


MOST: Final = 10**12  # more is no count of tokens: millions of attempts with so many fit into a sum of the database
OUTPUT_TOKENS: Final = 1000  # expected of an answer whose call states no limit
_CHARACTERS: Final = 4  # of English text in a token, as OpenAI's help says
_PICTURE_TOKENS: Final = 1000  # expected of a picture in a call, whatever its size
_DATA: Final = "data:"
_LIMITS: Final = ("max_completion_tokens", "max_output_tokens", "max_tokens")
_PROMPTS: Final = ("messages", "prompt", "input", "instructions", "system", "tools", "query", "documents")
_CACHED: Final = ("cache_creation_input_tokens", "cache_read_input_tokens")  # which `input_tokens` leaves out


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens in (the prompt) and out (the answer)."""

    input: int = 0
    output: int = 0

    @property
    def total(self) -> int:
        """Both together: what a budget of tokens counts."""
        return self.input + self.output

    def bounded(self) -> "Tokens":
        return Tokens(*(max(0, min(MOST, int(each))) for each in (self.input, self.output)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """How a kind's jobs are read: `model` is the path of the model's name in a payload, `used` reads a result,
    `expected` a payload, `written` the output of an attempt whose result does not say what it used; None: such an
    attempt is not known to have used any. None of them raises for any JSON or text."""

    model: tuple[str, ...]
    used: Callable[[Any], Tokens]
    expected: Callable[[Any], Tokens]
    written: "Callable[[str], Written] | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a part of an output holds: so many characters of an answer, and the last count of tokens in it, if any."""

    characters: int
    used: Tokens | None = None

    def estimated(self, prompt: Tokens, *, part: float = 1.0) -> Tokens:
        """What an attempt used that wrote this, which is such a part of its output, after this prompt: nothing where
        it wrote nothing of an answer."""
        if not self.characters:
            return Tokens()
        return Tokens(prompt.input, min(MOST, ceil(self.characters / part / _CHARACTERS)))


def used(result: Any) -> Tokens:
    """What the `usage` object of a result says, in either of OpenAI's forms (prompt_tokens and completion_tokens, or
    input_tokens and output_tokens) or in Anthropic's; nothing where there is none."""
    usage = result.get("usage") if isinstance(result, Mapping) else None
    if not isinstance(usage, Mapping):
        return Tokens()
    into = _count(usage, "prompt_tokens", "input_tokens")
    into = None if into is None else min(MOST, into + sum(_count(usage, name) or 0 for name in _CACHED))
    out = _count(usage, "completion_tokens", "output_tokens")
    if out is None:
        out = max(0, (_count(usage, "total_tokens") or 0) - (into or 0))
    return Tokens(into or 0, out)


def cached(result: Any) -> int | None:
    """How many tokens of the prompt the model server had in its cache; None where the `usage` of the result does not
    say."""
    usage = result.get("usage") if isinstance(result, Mapping) else None
    if not isinstance(usage, Mapping):
        return None
    details = usage.get("prompt_tokens_details", usage.get("input_tokens_details"))
    counted = _count(details, "cached_tokens") if isinstance(details, Mapping) else None
    return _count(usage, "cache_read_input_tokens") if counted is None else counted


def expected(body: Any, *, is_answer_text: bool = True) -> Tokens:
    """What a call with this body is going to use: the length of its prompt, and the most that its answer may have;
    OUTPUT_TOKENS where it states no limit. An answer that is no text has none."""
    if not isinstance(body, Mapping):
        return Tokens(1, OUTPUT_TOKENS if is_answer_text else 0)
    into = sum(_length(body[name]) for name in _PROMPTS if name in body)
    most = _count(body, *_LIMITS)
    each = OUTPUT_TOKENS if most is None else most
    return Tokens(into + 1, min(MOST, each * (_count(body, "n") or 1)) if is_answer_text else 0)


def _count(numbers: Mapping[str, Any], *names: str) -> int | None:
    """The first of these that is a count."""
    for name in names:
        number = numbers.get(name)
        if isinstance(number, int | float) and not isinstance(number, bool) and 0 <= number <= MOST:
            return int(number)
    return None


def _length(value: Any) -> int:
    """Tokens of all texts in a value, whatever its form; an iterative walk, since a payload may be deep."""
    characters, pictures, waiting = 0, 0, [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            is_picture = one.startswith(_DATA)
            pictures += is_picture
            characters += 0 if is_picture else len(one)
        elif isinstance(one, Mapping):
            is_picture = one.get("type") == "base64"  # as Anthropic's API has them
            pictures += is_picture
            waiting.extend(() if is_picture else one.values())
        elif isinstance(one, list):
            waiting.extend(one)
        else:
            characters += _CHARACTERS if isinstance(one, int) else 0  # embeddings take tokens by their numbers
    return -(-characters // _CHARACTERS) + pictures * _PICTURE_TOKENS
