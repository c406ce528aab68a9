"""Limits whose tokens lie in several rows: the database against the algebra, and both against the public
package."""

import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import psycopg
import pytest
from django.db import OperationalError, connection
from hypothesis import HealthCheck, given, settings, strategies as st

from postgres import connections
from ratelimits.domain import Config, FixedWindow, State, evaluate, one_shard, possible, refilled
from ratelimits.errors import CountExceedsLimit
from ratelimits.models import Bucket
from tests.ratelimits.integration import database
from tests.ratelimits.unit.strategies import NOW, configs, shard_states
from tests.ratelimits.unit.vectors import Step, close, sequences

pytestmark = pytest.mark.django_db

SAME = "the same"
IMPOSSIBLE = "impossible, as the package says"
POSSIBLE = "possible, where the package calls impossible what the whole limit can hold"
OVERTAKES = "later, where the package lets a request overtake what another shard owes"
EXPECTED = {
    SAME: 431,
    IMPOSSIBLE: 40,
    POSSIBLE: 4,
    "granted at once, where the package denies for longer": 134,
    "granted at once, where the package reserves for later": 60,
    "reserved for sooner, where the package reserves for later": 7,
    "denied for shorter, where the package denies for longer": 14,
    OVERTAKES: 7,
}


class TestAgainstThePublicPackage:
    def test_grants_what_it_grants_and_what_it_refuses_though_the_whole_limit_could(self) -> None:
        """At every step the package's own stored rows are put before our function: where the answers differ,
        ours is the better one, and this is how often."""
        answers: Counter[str] = Counter()
        for sequence in sequences(sharded=True):
            theirs: dict[str, list[State | None]] = {}
            for step in sequence.steps:
                rows = theirs.setdefault(step.key, [None] * step.config.shards)
                if step.op == "reset":
                    theirs[step.key] = [None] * step.config.shards
                    continue
                answers[_compared(step, rows)] += 1
                for shard, value, ts in step.expect.get("writes", []):
                    rows[shard] = State(value, ts)
        assert answers == EXPECTED


def _compared(step: Step, rows: list[State | None]) -> str:
    """What ours answers where the package answered `step.expect`, in words; fails where ours is worse."""
    expect = step.expect
    try:
        possible(step.config, count=step.count, reserve=step.reserve)
    except CountExceedsLimit:
        assert "error" in expect, step
        return IMPOSSIBLE
    database.put(step.config, rows, step.key)
    granted, retry_after, _ = database.take(
        step.config, step.key, now=step.now, count=step.count, reserve=step.reserve,
        pick=step.pick or (0, step.config.shards - 1),
    )  # fmt: skip
    if "error" in expect:
        return POSSIBLE
    ours, package = _rank(granted, retry_after), _rank(expect["ok"], expect["retryAfter"])
    if ours[0] == package[0] and close(ours[1], package[1]):
        return SAME
    if ours < package:
        return f"{_WORDS[ours[0]]}, where the package {_PACKAGE[package[0]]}"
    # The package looks at the shard it drew, and not at what another owes: the request overtakes a
    # reservation.
    assert _owes(step, rows), (step, rows, ours, package)
    return OVERTAKES


_WORDS = {0: "granted at once", 1: "reserved for sooner", 2: "denied for shorter"}
_PACKAGE = {0: "grants at once", 1: "reserves for later", 2: "denies for longer"}


def _rank(granted: bool, retry_after: float | None) -> tuple[int, float]:
    """The better the answer, the smaller: granted at once, reserved, denied; then by how long it takes."""
    return (0 if retry_after is None else 1) if granted else 2, retry_after or 0.0


def _owes(step: Step, rows: list[State | None]) -> bool:
    share = one_shard(step.config)
    return any(refilled(share, row, now=step.now).value < 0 for row in rows)


@pytest.mark.django_db(transaction=True)
class TestARowThatSomebodyHolds:
    """For the length of a commit, that is, or of a caller's transaction."""

    CONFIG = database.config_of(rate=40, shards=4)  # ten in each

    @pytest.fixture(autouse=True)
    def _stored(self) -> None:
        database.put(self.CONFIG, [State(10, NOW), State(8, NOW), State(6, NOW), State(4, NOW)])

    def test_is_gone_around(self) -> None:
        with held(0), nobody_waits():
            assert database.take(self.CONFIG, now=NOW, pick=(0, 2)) == (True, None, 20)  # five left, four times
        assert [state.value for state in database.states(shards=4) if state] == [10, 8, 5, 4]

    def test_is_waited_for_where_it_alone_has_enough(self) -> None:
        with held(0), nobody_waits(), pytest.raises(OperationalError, match="lock timeout"):
            database.take(self.CONFIG, now=NOW, count=7, pick=(0, 2))

    def test_is_waited_for_where_both_are_held(self) -> None:
        with held(0, 2), nobody_waits(), pytest.raises(OperationalError, match="lock timeout"):
            database.take(self.CONFIG, now=NOW, pick=(0, 2))
        assert [state.value for state in database.states(shards=4) if state] == [10, 8, 6, 4]


@contextmanager
def held(*shards: int) -> Iterator[None]:
    """Another session that has locked the rows of these shards."""
    with psycopg.connect(connections.conninfo()) as other:
        other.execute("SELECT FROM ratelimits_bucket WHERE shard = ANY(%s) FOR UPDATE", [list(shards)])
        yield
        other.rollback()


@contextmanager
def nobody_waits() -> Iterator[None]:
    """A wait for a lock is an error here, after a while that nobody needs who does not wait."""
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '300ms'")
        yield
        cursor.execute("RESET lock_timeout")


class TestTheFallback:
    def test_takes_from_all_shards_what_no_two_of_them_hold(self) -> None:
        config = database.config_of(rate=10, shards=5)
        granted, retry_after, remaining = database.take(config, now=NOW, count=9)
        assert (granted, retry_after, remaining) == (True, None, 1)
        assert math.fsum(state.value for state in database.states(shards=5) if state) == pytest.approx(1)

    def test_grants_the_whole_limit_at_once_whatever_the_number_of_shards(self) -> None:
        for shards in range(1, 65):
            config = database.config_of(rate=1, shards=shards)
            assert database.take(config, str(shards), now=NOW, count=1)[0], shards
            assert not database.take(config, str(shards), now=NOW, count=0.01)[0], shards

    def test_denies_without_writing_a_row(self) -> None:
        config = database.config_of(rate=10, shards=4)
        database.take(config, now=NOW, count=10)
        before = list(Bucket.objects.values_list())
        granted, retry_after, _ = database.take(config, now=NOW, count=2)
        assert not granted
        assert retry_after == pytest.approx(200)
        assert list(Bucket.objects.values_list()) == before

    @settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(data=st.data(), config=configs(max_shards=6), reserve=st.booleans(), share=st.floats(0, 1.2))
    def test_is_the_algebra_of_shards(self, data: st.DataObject, config: Config, reserve: bool, share: float) -> None:
        """Any state, any request: the function decides as Python does, and stores what Python would."""
        states = data.draw(shard_states(config))
        now = NOW + data.draw(st.integers(-5000, 100_000))
        count = round(config.most * share, 3)
        try:
            spread = evaluate(config, states, now=now, count=count, reserve=reserve, offset=7)
        except CountExceedsLimit:
            return
        database.put(config, states)
        request = database.request(config, count=count, reserve=reserve)
        [(granted, retry_after, _)] = database.take_all([request], now=now, draw=7.5 / config.period_ms)
        assert granted is spread.ok
        assert close(retry_after, spread.retry_after)
        for ours, theirs in zip(database.states(shards=config.shards), spread.states, strict=True):
            _same(config, ours, theirs, now=now)

    def test_has_shards_in_debt_refill_in_step_also_one_that_holds_the_level_already(self) -> None:
        config = FixedWindow(rate=2, period=timedelta(seconds=1), shards=2)
        states = [State(-2.0, NOW - 1876), State(-2.0, NOW - 1875)]
        database.put(config, states)
        request = database.request(config, count=0, reserve=True)
        [(granted, _, _)] = database.take_all([request], now=NOW, draw=0.5)
        assert granted
        spread = evaluate(config, states, now=NOW, count=0, reserve=True)
        assert database.states(shards=2) == list(spread.states)


def _same(config: Config, ours: State | None, theirs: State | None, *, now: int) -> None:
    share = one_shard(config)
    ours, theirs = (refilled(share, state, now=now, offset=7) for state in (ours, theirs))
    assert ours.value == pytest.approx(theirs.value, abs=1e-6)
    assert ours.ts == theirs.ts
