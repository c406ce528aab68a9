"""Limits under any sequence of calls: the database against a model of a few lines.

A period lasts a thousand hours and the clock is moved by quarters of it, forwards and back, so what really passes
while a sequence runs is too little to count. What a divided limit (shards) answers hangs on which of its shards have
given so far: it is asked of the Python algebra, and the model says what it may never exceed.
"""

import math
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from postgres import clock
from ratelimits import operations, queries
from ratelimits.domain import evaluate, value_of_shards
from ratelimits.errors import CountExceedsLimit, RateLimited
from ratelimits.models import Bucket
from ratelimits.operations import Config, FixedWindow, LimitRequest, TokenBucket
from tests import farm
from tests.models.effort import begin, effort

pytestmark = pytest.mark.django_db(transaction=True)

PERIOD = timedelta(hours=1000)
PERIOD_MS = PERIOD / timedelta(milliseconds=1)
RATE, MOST, DEBT, SHARDS = 8, 12, 8, 4
CLOSE = 1e-3  # tokens and periods; what really passes while a sequence runs is a thousandth of that
IN_SHARDS = ("bucket in shards", "window in shards")
NAMES = ("bucket", "window", *IN_SHARDS)
COUNTS = st.sampled_from([0, 1, 1, 2, 3, 5, 6, 12, 20, 21])
asks = st.fixed_dictionaries({"count": COUNTS, "reserve": st.booleans()})


@dataclass
class Model:
    """What an undivided limit holds. Times are in periods since the sequence began."""

    is_window: bool
    value: float = MOST
    at: float = 0.0
    is_used: bool = False

    def look(self, now: float) -> "Model":
        """How it stands now: a clock that went back moves nothing."""
        if not self.is_used:
            return Model(self.is_window, MOST, math.floor(now) if self.is_window else now, is_used=True)
        passed = max(now - self.at, 0.0)
        passed = math.floor(passed) if self.is_window else passed
        return replace(self, value=min(self.value + RATE * passed, MOST), at=self.at + passed)

    def live_through(self, now: float) -> None:
        """A shard that is used for the first time after the clock went back counts from then on, as is right: what
        the clock shows a second time has not passed before. So that is all that the whole may have."""
        self.at = min(self.at, math.floor(now) if self.is_window else now)

    def answer(self, now: float, count: float, *, reserve: bool) -> tuple[bool, float | None]:
        """Whether it grants, and the wait in periods."""
        full = self.look(now)
        left = full.value - count
        if left >= 0:
            return True, None
        periods = math.ceil(-left / RATE) if self.is_window else -left / RATE
        return reserve and left >= -DEBT, full.at + periods - now


class LimitsMachine(RuleBasedStateMachine):
    """Every rule is a call, or the clock; the invariant compares what all four limits hold with their models."""

    @initialize()
    def start(self) -> None:
        begin("ratelimits_bucket")
        self.began_at: datetime = clock.now()
        self.now = 0.0
        self.models = {name: Model("window" in name) for name in NAMES}

    @rule(quarters=st.sampled_from([-3, -1, 1, 1, 2, 4, 5, 9]))
    def move_the_clock(self, quarters: int) -> None:
        """Forwards, or back: all that is stored moves the other way."""
        self.now += quarters / 4
        with connection.cursor() as cursor:
            cursor.execute("UPDATE ratelimits_bucket SET ts = ts - %s", [int(quarters * PERIOD_MS / 4)])
        for model in (self.models[name] for name in IN_SHARDS):
            model.live_through(self.now)

    @rule(name=st.sampled_from(NAMES), ask=asks, how=st.sampled_from(["plain", "throws", "rolled back"]))
    def limit(self, name: str, ask: dict[str, Any], how: str) -> None:
        """`check` says what `limit` then answers; a rollback gives back what was taken."""
        config = self._config(name)
        if ask["count"] > MOST + DEBT * ask["reserve"]:
            with pytest.raises(CountExceedsLimit):
                operations.limit(name, config=config, **ask)
            return
        expected = self._expected(name, **ask)
        self._is_as_expected(operations.check(name, config=config, **ask), expected)
        if how == "rolled back":
            with farm.rolled_back():
                self._is_as_expected(operations.limit(name, config=config, **ask), expected)
            return
        try:
            answer = operations.limit(name, config=config, throws=how == "throws", **ask)
        except RateLimited as refusal:
            assert how == "throws"
            assert expected[1] is not None
            self._is_as_expected(operations.Answer(ok=False, retry_after=refusal.retry_after), (False, expected[1]))
            return
        else:
            self._is_as_expected(answer, expected)
            assert answer.retry_after is None or how != "throws"
        if expected[0]:
            self._take(name, ask["count"])

    @rule(names=st.lists(st.sampled_from(NAMES), min_size=2, unique=True), ask=asks)
    def limit_all(self, names: list[str], ask: dict[str, Any]) -> None:
        """All or none; the largest wait of those that count."""
        if ask["count"] > MOST + DEBT * ask["reserve"]:
            return
        each = {name: self._expected(name, **ask) for name in names}
        ok = all(granted for granted, _ in each.values())
        waits = [wait for granted, wait in each.values() if wait is not None and granted is ok]
        answer = operations.limit_all([LimitRequest(name=name, config=self._config(name), **ask) for name in names])
        self._is_as_expected(answer, (ok, max(waits, default=None)))
        for name in names if ok else ():
            self._take(name, ask["count"])

    @rule(name=st.sampled_from(NAMES), count=st.sampled_from([1, 2, 4, 30]))
    def give_back(self, name: str, count: int) -> None:
        """Never above what it can hold. What a divided one gets back may be more than its full shards can take."""
        operations.give_back(name, count=count, config=self._config(name))
        model = self.models[name]
        if model.is_used:
            model = model.look(self.now)
            self.models[name] = replace(model, value=min(model.value + count, MOST))

    @rule(name=st.sampled_from(NAMES))
    def reset(self, name: str) -> None:
        """Full again, and whether there was anything to forget."""
        assert operations.reset(name) is self.models[name].is_used
        self.models[name] = Model("window" in name)

    @rule()
    def prune(self) -> None:
        """What is full is forgotten, a window a period later, and nobody has more or less for it."""
        queries.prune(1000, 0)
        for name, model in self.models.items():
            whole_period_full = model.look(self.now - model.is_window).value >= MOST
            if name not in IN_SHARDS:
                model.is_used = model.is_used and not whole_period_full
            elif model.is_used:  # each of its shards by itself: those that are left may not show it
                model.live_through(self.now)
                model.is_used = Bucket.objects.filter(name=name).exists()

    @invariant()
    def limits_hold_what_the_models_say(self) -> None:
        for name, model in self.models.items():
            value = operations.get_value(name, config=self._config(name)).value
            if name in IN_SHARDS:
                assert -DEBT - CLOSE <= value <= model.look(self.now).value + CLOSE
            else:
                assert value == pytest.approx(model.look(self.now).value, abs=CLOSE)

    def _config(self, name: str) -> Config:
        shards = SHARDS if name in IN_SHARDS else 1
        if "window" not in name:
            return TokenBucket(RATE, PERIOD, capacity=MOST, max_reserved=DEBT, shards=shards)
        start = self.began_at - PERIOD * self.now
        return FixedWindow(RATE, PERIOD, capacity=MOST, max_reserved=DEBT, shards=shards, start=start)

    def _expected(self, name: str, *, count: float, reserve: bool) -> tuple[bool, float | None]:
        """Granted, and the wait in periods."""
        undivided = self.models[name].answer(self.now, count, reserve=reserve)
        if name not in IN_SHARDS:
            return undivided
        now_ms, states = queries.read(name, "", shards=SHARDS)
        spread = evaluate(self._config(name), states, now=now_ms, count=count, reserve=reserve)
        assert undivided[0] or not spread.ok, "in shards it grants what the whole would not"
        return spread.ok, None if spread.retry_after is None else spread.retry_after / PERIOD_MS

    def _take(self, name: str, count: float) -> None:
        model = self.models[name].look(self.now)
        self.models[name] = replace(model, value=model.value - count)

    def _is_as_expected(self, answer: operations.Answer, expected: tuple[bool, float | None]) -> None:
        ok, periods = expected
        assert answer.ok is ok
        periods_to_wait = None if answer.retry_after is None else answer.retry_after / PERIOD
        assert periods_to_wait == (None if periods is None else pytest.approx(periods, abs=CLOSE))

    def teardown(self) -> None:
        """However it went: when enough time has passed each is full, and grants all that it can hold."""
        if not hasattr(self, "models"):
            return
        self.move_the_clock(200)
        for name in NAMES:
            config = self._config(name)
            now_ms, states = queries.read(name, "", shards=config.shards)
            assert value_of_shards(config, states, now=now_ms) == pytest.approx(MOST)
            assert operations.limit(name, count=MOST, config=config).ok
            assert not operations.limit(name, config=config).ok


class TestLimits:
    def test_are_what_the_model_says_after_any_calls(self) -> None:
        run_state_machine_as_test(LimitsMachine, settings=effort(examples=25, steps=40))
