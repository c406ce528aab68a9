"""Asking limits: one, several, and without taking anything."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TypeVar

from django.db import OperationalError

from observing import numbers
from postgres import transactions
from ratelimits import queries
from ratelimits.domain import Config, evaluate_shards, value_of_shards
from ratelimits.errors import LimitsDeadlocked, RateLimited, RepeatedLimit
from ratelimits.operations import requests

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A limit's answer.

    `ok`: granted. `retry_after`: denied, how long until it would be granted if nobody else came; granted, how
    long until the tokens that were reserved may be used; None: granted at once. `remaining`: tokens left,
    below 0 is debt; with shards an estimate; None where nothing was taken.
    """

    ok: bool
    retry_after: timedelta | None
    remaining: float | None = None

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
    batch = [_request_of(ask, throws) for ask in asks]
    _refuse_duplicates(batch)
    if not batch:
        return Answer(ok=True, retry_after=None)
    rows = _decided(lambda: queries.take_all(batch, waits_for_disk=waits_for_disk))
    decisions = [_answer_of(row) for row in rows]
    ok = all(decisions)
    for ask, answer in zip(asks, decisions, strict=True):
        if not answer:
            numbers.DENIED.labels(ask.name).inc()
    relevant = [(answer, ask) for answer, ask in zip(decisions, asks, strict=True) if ok or not answer]
    slowest, ask = max(relevant, key=lambda pair: pair[0].retry_after or timedelta(0))
    remaining = [answer.remaining for answer in decisions if answer.remaining is not None]
    together = Answer(ok=ok, retry_after=slowest.retry_after, remaining=min(remaining) if ok and remaining else None)
    return _or_raised(together, ask.name, ask.key) if throws else together


def check(
    name: str, *, key: str | None = None, count: float = 1.0, reserve: bool = False, throws: bool = False,
    config: Config | None = None,
) -> Answer:  # fmt: skip
    """What `limit` would answer now, without taking anything; good in a transaction that only reads. Raises
    as `limit`."""
    request = requests.request(name, key, count, reserve, config)
    stored = queries.read(request.name, request.key, shards=request.config.shards)
    spread = evaluate_shards(request.config, stored.states, now=stored.now_ms, count=request.count, reserve=reserve)
    ok = spread.ok and not (throws and spread.retry_after is not None)
    answer = Answer(ok=ok, retry_after=_wait(spread.retry_after))
    return _or_raised(answer, name, key) if throws else answer


def get_value(name: str, *, key: str | None = None, config: Config | None = None) -> Value:
    """How many tokens there are now, over all shards. Raises UnknownLimit, InvalidName."""
    known = requests.config_of(name, config)
    stored = queries.read(name, requests.stored_key(key), shards=known.shards)
    value = value_of_shards(known, stored.states, now=stored.now_ms)
    return Value(value=value, most=known.most, config=known)


def _request_of(ask: LimitRequest, throws: bool) -> queries.Request:
    """What the database is asked; who would have a wait raised takes no reservation."""
    request = requests.request(ask.name, ask.key, ask.count, ask.reserve, ask.config)
    return replace(request, reserve=False) if throws and ask.reserve else request


def _decided(ask: Callable[[], T]) -> T:
    try:
        return transactions.alone(ask)
    except OperationalError as error:
        if transactions.deadlocked(error):
            raise LimitsDeadlocked from error
        raise


def _refuse_duplicates(batch: Sequence[queries.Request]) -> None:
    seen: set[tuple[str, str]] = set()
    for request in batch:
        if (request.name, request.key) in seen:
            raise RepeatedLimit(name=request.name)
        seen.add((request.name, request.key))


def _answer_of(row: queries.Row) -> Answer:
    """The answer that a row of `take` or `take_all` says."""
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
