"""Asking limits. Synchronous: from an event loop use `postgres.connections.run`.

Inside the caller's transaction whatever is taken is given back by its rollback, and the rows stay locked to
its end: ask late, and several limits by one `limit_all`. Outside of one every call is a transaction of its
own. Without the database there is no answer but an error: nothing is granted.
"""

import hashlib
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final, TypeVar

from django.contrib.auth.models import User
from django.db import OperationalError, transaction

import live.operations as live
from core import audit
from core.recent import Recent
from observing import numbers
from postgres import transactions
from ratelimits import limits, queries
from ratelimits.domain import Config, FixedWindow, TokenBucket, evaluate, finite, possible, value_of_shards
from ratelimits.errors import DeclaredLimit, InvalidConfig, LimitsDeadlocked, RateLimited, RepeatedLimit, UnknownLimit
from ratelimits.models import KEY_LIMIT, Bucket, Limit

declare = limits.declare
TOPIC: Final = "limits"  # what the live page of limits watches
FRESH_S: Final = 5.0  # within which a change counts in every process
_STANDS_FOR_ANOTHER: Final = re.compile(r"#[0-9a-f]{64}\Z")
_KEPT: Final = KEY_LIMIT - 65  # characters of a long key that stay readable before its hash
_read: Recent[Config] = Recent(for_s=FRESH_S)
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A limit's answer.

    `ok`: granted. `retry_after`: denied, how long until it would be granted if nobody else came; granted, how
    long until the tokens that were reserved may be used; None: granted at once. `remaining`: tokens left,
    below 0 is debt; with shards an estimate; None where nothing was taken. `each`: of several that were asked together.
    """

    ok: bool
    retry_after: timedelta | None
    remaining: float | None = None
    each: tuple["Answer", ...] = ()

    def __bool__(self) -> bool:
        return self.ok


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRequest:
    """One of several limits to ask together; the fields are the arguments of `limit`."""

    name: str
    key: str | None = None
    count: float = 1.0
    reserve: bool = False
    config: Config | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """How many tokens a limit holds now (below 0 is debt), and the most it can hold."""

    value: float
    most: float
    config: Config


def limit(
    name: str, *, key: str | None = None, count: float = 1.0, reserve: bool = False, throws: bool = False,
    config: Config | None = None,
) -> Answer:  # fmt: skip
    """Take `count` tokens of a limit if it grants them.

    `key` says whose state it is; None is one state for all. `reserve` may go into debt, as far as
    `max_reserved`: the work may then be done after `retry_after`, without asking again. `config` given here
    wins over the one declared by name. With `throws` whatever would have to wait raises RateLimited and takes
    nothing, a reservation too: `reserve` with `throws` never goes into debt, it only makes possible to ask for more
    than the limit ever holds, as in the public package. Raises UnknownLimit, InvalidName, InvalidCount, and
    CountExceedsLimit for a count that this limit could never grant; LimitsDeadlocked in a transaction that asks
    several limits one by one, while another does so in another order.
    """
    request = _request_of(LimitRequest(name=name, key=key, count=count, reserve=reserve, config=config), throws)
    answer = _answer_of(_decided(lambda: queries.take(request)))
    if not answer:
        numbers.DENIED.labels(name).inc()
    if throws and reserve and not answer:  # the wait of the reservation that was not made: with shards it is another
        wait = check(name, key=key, count=count, reserve=True, config=config).retry_after
        answer = replace(answer, retry_after=wait or answer.retry_after)
    return _or_raised(answer, name, key) if throws else answer


def limit_all(asks: Sequence[LimitRequest], *, throws: bool = False, waits_for_disk: bool = True) -> Answer:
    """Take from all of these limits, or from none if any denies. `retry_after` is the largest of those that count.

    The rows are locked in one order, whatever the order of `asks`, so two of these never wait for each other in a
    circle. No asks: granted. `waits_for_disk=False` is for what the caller commits something right after, or what may
    be forgotten: outside of a transaction a crash of the server may then take back what was taken within its last
    second. Raises what `limit` raises (RateLimited names the limit that takes longest), and RepeatedLimit.
    """
    batch: dict[tuple[str, str], queries.Request] = {}
    for ask in asks:
        request = _request_of(ask, throws)
        if batch.setdefault((request.name, request.key), request) is not request:
            raise RepeatedLimit(name=request.name)
    if not batch:
        return Answer(ok=True, retry_after=None)
    requests = [batch[one] for one in sorted(batch)]
    rows = _decided(lambda: queries.take_all(requests, waits_for_disk=waits_for_disk))
    answers = dict(zip(sorted(batch), map(_answer_of, rows), strict=True))
    decisions = [answers[one] for one in batch]
    denied = [(answer, ask) for answer, ask in zip(decisions, asks, strict=True) if not answer.ok]
    for _, ask in denied:
        numbers.DENIED.labels(ask.name).inc()
    ok, relevant = not denied, denied or [*zip(decisions, asks, strict=True)]
    slowest, ask = max(relevant, key=lambda pair: pair[0].retry_after or timedelta(0))
    remaining = [answer.remaining for answer in decisions if answer.remaining is not None]
    least = min(remaining) if ok and remaining else None
    together = Answer(ok=ok, retry_after=slowest.retry_after, remaining=least, each=tuple(decisions))
    return _or_raised(together, ask.name, ask.key) if throws else together


def check(
    name: str, *, key: str | None = None, count: float = 1.0, reserve: bool = False, throws: bool = False,
    config: Config | None = None,
) -> Answer:  # fmt: skip
    """What `limit` would answer now, without taking anything; good in a transaction that only reads. Raises
    as `limit`."""
    request = _request_of(LimitRequest(name=name, key=key, count=count, reserve=reserve, config=config))
    now_ms, states = queries.read(request.name, request.key, shards=request.config.shards)
    decision = evaluate(request.config, states, now=now_ms, count=request.count, reserve=reserve)
    ok = decision.ok and not (throws and decision.retry_after is not None)
    answer = Answer(ok=ok, retry_after=_wait(decision.retry_after))
    return _or_raised(answer, name, key) if throws else answer


def get_value(name: str, *, key: str | None = None, config: Config | None = None) -> Value:
    """How many tokens there are now, over all shards. Raises UnknownLimit, InvalidName."""
    known = config_of(name, config)
    now_ms, states = queries.read(name, stored_key(key), shards=known.shards)
    return Value(value=value_of_shards(known, states, now=now_ms), most=known.most, config=known)


def _request_of(ask: LimitRequest, throws: bool = False) -> queries.Request:
    """What the database is asked; who would have a wait raised takes no reservation. Raises UnknownLimit, InvalidName,
    InvalidCount, CountExceedsLimit."""
    config = config_of(ask.name, ask.config)
    count = possible(config, count=ask.count, reserve=ask.reserve)
    reserve = ask.reserve and not throws
    return queries.Request(name=ask.name, key=stored_key(ask.key), config=config, count=count, reserve=reserve)


def _decided(ask: Callable[[], T]) -> T:
    try:
        return transactions.alone(ask)
    except OperationalError as error:
        if transactions.deadlocked(error):
            raise LimitsDeadlocked from error
        raise


def _answer_of(row: queries.Row) -> Answer:
    remaining = row.remaining if row.granted else None
    return Answer(ok=row.granted, retry_after=_wait(row.retry_after_ms), remaining=remaining)


def _wait(milliseconds: float | None) -> timedelta | None:
    """Rounded up to what the limits' clock can tell apart. A wait longer than any calendar is told as the longest."""
    if milliseconds is None:
        return None
    try:
        return timedelta(milliseconds=max(0, math.ceil(milliseconds)))
    except OverflowError:
        return timedelta.max


def _or_raised(answer: Answer, name: str, key: str | None) -> Answer:
    """The answer if it is a grant. Raises RateLimited."""
    if not answer.ok:
        raise RateLimited(name=name, key=key, retry_after=answer.retry_after or timedelta(0))
    return answer


def reset(name: str, *, key: str | None = None, by: User | None = None) -> bool:
    """Make this limit and key full again; whether there was anything to forget. Raises InvalidName.

    A name that no code declares is no error here: states of limits that were renamed can be cleared away.
    What a person (`by`) resets is noted in the admin's log.
    """
    return reset_stored(limits.checked(name), stored_key(key), by=by)


def reset_stored(name: str, key: str, *, by: User | None = None) -> bool:
    """As `reset`, for a key as the table holds it: what pages and the admin show."""
    with transaction.atomic():
        rows = Bucket.objects.filter(name=name, key=key)
        row = rows.order_by("shard").first()  # one of them, to hang a note about all on
        if row is None:
            return False
        audit.record(by, row, "Reset.")
        rows.delete()
        live.touch(TOPIC)
    return True


def give_back(name: str, *, key: str | None = None, count: float = 1.0, config: Config | None = None) -> None:
    """Put tokens back that were taken or reserved and will not be used. No limit holds more than it can.

    Whoever reserved behind them keeps their moment. Say the count that was taken, and say it once: two calls
    give twice. Raises UnknownLimit, InvalidName, InvalidCount.
    """
    known = config_of(name, config)
    queries.give_back(queries.Request(name=name, key=stored_key(key), config=known, count=finite(count), reserve=True))


def make(name: str, config: Config) -> None:
    """Keep a limit as a row, or change the one of that name; it counts everywhere within FRESH_S. Raises InvalidName,
    DeclaredLimit for one that code declares, InvalidConfig for what a row cannot hold."""
    check_new(name)
    if config.shards != 1 or getattr(config, "start", None) is not None:
        raise InvalidConfig(field="shards or start", why="only for code to choose")
    with transaction.atomic():
        numbers = {
            "is_window": isinstance(config, FixedWindow), "rate": config.rate, "capacity": config.capacity,
            "period_s": config.period.total_seconds(), "max_reserved": config.max_reserved,
        }  # fmt: skip
        Limit.objects.update_or_create(name=name, defaults=numbers)
        transaction.on_commit(_read.clear)
        live.touch(TOPIC)


def check_new(name: str) -> None:
    """Whether a person may call a limit so. Raises InvalidName, DeclaredLimit."""
    if limits.checked(name) in limits.everything():
        raise DeclaredLimit(name=name)


def find(name: str) -> Config | None:
    """The limit of this name that a person made; None if there is none."""
    if (config := _read.get(name)) is not None:
        return config
    row = Limit.objects.filter(pk=name).first()
    return None if row is None else _kept(row)


def everything() -> dict[str, Config]:
    """All named limits that can be asked, by name: those of code, and those that people made."""
    return dict(sorted((_read_all()[0] | limits.everything()).items()))


def broken() -> dict[str, str]:
    """The limits that people made whose row is no limit, by name, with the reason. Who asks one is refused with it; the
    others go on."""
    return _read_all()[1]


def _read_all() -> tuple[dict[str, Config], dict[str, str]]:
    made, broken = {}, {}
    for row in Limit.objects.order_by("pk"):
        try:
            made[row.name] = _kept(row)
        except InvalidConfig as refusal:
            broken[row.name] = refusal.message
    return made, broken


def config_from(
    *, is_window: bool, rate: float, period_s: float, capacity: float | None, max_reserved: float | None
) -> Config:
    """The configuration that these numbers say. Raises InvalidConfig."""
    try:
        period = timedelta(seconds=period_s)
    except (OverflowError, ValueError):
        raise InvalidConfig(field="period", why=f"not a number of seconds: {period_s!r}") from None
    kind = FixedWindow if is_window else TokenBucket
    return kind(rate=rate, period=period, capacity=capacity, max_reserved=max_reserved)


def _kept(row: Limit) -> Config:
    numbers = ("is_window", "rate", "period_s", "capacity", "max_reserved")
    config = config_from(**{name: getattr(row, name) for name in numbers})
    _read.keep(row.name, config)
    return config


def config_of(name: str, config: Config | None = None) -> Config:
    """The configuration that counts: the one given, else the one declared, else the one that a person made.
    Raises UnknownLimit, InvalidName."""
    if config is not None:
        limits.checked(name)
        if not isinstance(config, TokenBucket | FixedWindow):
            raise InvalidConfig(field="config", why=f"not a TokenBucket or a FixedWindow: {config!r}")
        return config
    if (known := limits.declared(limits.checked(name)) or find(name)) is None:
        raise UnknownLimit(name=name)
    return known


def stored_key(key: str | None) -> str:
    """The key as the table holds it: "" for None, and any text that does not fit (too long, empty, with characters that
    PostgreSQL cannot hold) by its hash, so that what strangers type into a log-in form is always a key."""
    if key is None:
        return ""
    is_a_hash = key[-65:-64] == "#" and _STANDS_FOR_ANOTHER.search(key)
    if 0 < len(key) <= KEY_LIMIT and key.isprintable() and not is_a_hash:
        return key
    readable = "".join(character for character in key[:_KEPT] if character.isprintable())
    return f"{readable}#{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()}"
