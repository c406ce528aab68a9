"""The number of shards changes while a limit is used: what was taken stays taken, what is left is left."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from ratelimits import operations
from ratelimits.domain import Config, FixedWindow, State, TokenBucket, value_of_shards
from ratelimits.models import Bucket
from tests.ratelimits.integration import database
from tests.ratelimits.unit.strategies import NOW, configs, shard_states

pytestmark = pytest.mark.django_db

LONG = timedelta(days=1000)  # nothing comes in while a test runs
NAME = "test/shards"


def in_shards(number: int, most: float = 12) -> TokenBucket:
    """The same limit, divided otherwise."""
    return TokenBucket(most, LONG, shards=number)


def taken(config: Config, *, of: int = 20) -> int:
    """How many of so many requests for one token are granted."""
    return sum(operations.limit(NAME, config=config).ok for _ in range(of))


@pytest.mark.parametrize(("before", "after"), [(1, 4), (4, 1), (3, 16), (16, 3), (2, 1)])
class TestAnotherNumberOfShards:
    def test_grants_nothing_more_where_all_is_used(self, before: int, after: int) -> None:
        assert taken(in_shards(before)) == 12
        assert taken(in_shards(after)) == 0
        assert operations.get_value(NAME, config=in_shards(after)).value == pytest.approx(0, abs=0.001)

    def test_grants_what_is_left_and_no_more(self, before: int, after: int) -> None:
        assert taken(in_shards(before), of=7) == 7
        assert taken(in_shards(after)) == 5
        rows = Bucket.objects.filter(name=NAME)
        assert {row.shards for row in rows} == {after}
        assert sum(row.used for row in rows) == pytest.approx(12)

    def test_is_seen_by_who_only_looks_and_writes_nothing_for_a_refusal(self, before: int, after: int) -> None:
        taken(in_shards(before), of=7)
        stored = list(Bucket.objects.order_by("pk").values_list())
        assert operations.check(NAME, count=5, config=in_shards(after)).ok
        assert not operations.check(NAME, count=6, config=in_shards(after)).ok
        assert not operations.limit(NAME, count=6, config=in_shards(after)).ok
        assert operations.get_value(NAME, config=in_shards(after)).value == pytest.approx(5)
        assert list(Bucket.objects.order_by("pk").values_list()) == stored

    def test_overtakes_no_reservation(self, before: int, after: int) -> None:
        operations.limit(NAME, count=12, config=in_shards(before))
        operations.limit(NAME, count=6, reserve=True, config=in_shards(before))
        behind = operations.limit(NAME, count=1, reserve=True, config=in_shards(after))
        assert behind.ok
        assert behind.retry_after is not None
        assert behind.retry_after > 0.58 * LONG

    def test_gets_back_what_was_taken_before(self, before: int, after: int) -> None:
        operations.limit(NAME, count=12, config=in_shards(before))
        operations.give_back(NAME, count=5, config=in_shards(after))
        assert operations.get_value(NAME, config=in_shards(after)).value == pytest.approx(5)

    def test_is_taken_from_together_with_other_limits(self, before: int, after: int) -> None:
        taken(in_shards(before), of=7)
        other = operations.LimitRequest(name="test/other", config=in_shards(1))
        assert not operations.limit_all(
            [other, operations.LimitRequest(name=NAME, count=6, config=in_shards(after))]
        ).ok
        assert operations.limit_all([other, operations.LimitRequest(name=NAME, count=5, config=in_shards(after))]).ok
        assert taken(in_shards(after)) == 0


class TestALayout:
    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(data=st.data(), config=configs(max_shards=6), number=st.integers(1, 6))
    def test_holds_what_the_one_before_held(self, data: st.DataObject, config: Config, number: int) -> None:
        """Any state of any limit, asked for nothing with another number of shards."""
        config = replace(config, max_reserved=None)  # so that nothing is asked for, and that is granted
        states = data.draw(shard_states(config))
        database.put(config, states)
        anew = database.with_shards(config, number)
        held = value_of_shards(config, states, now=NOW)
        database.take_all([database.request(anew, count=0, reserve=True)], now=NOW)
        kept = database.states(shards=number)
        if any(states):
            assert value_of_shards(anew, kept, now=NOW) == pytest.approx(held, rel=1e-9, abs=1e-6)

    def test_of_windows_keeps_their_edge(self) -> None:
        config = FixedWindow(10, timedelta(seconds=10))
        database.put(config, [State(3, NOW)])
        anew = database.with_shards(config, 4)
        answer = database.take(anew, now=NOW + 4000, count=4)
        assert answer[:2] == (False, 6000)
        assert database.take(anew, now=NOW + 10_000, count=10)[0]

    def test_with_a_richer_configuration_keeps_what_is_left(self) -> None:
        taken(in_shards(1), of=7)
        assert operations.get_value(NAME, config=in_shards(4, most=100)).value == pytest.approx(5)

    def test_with_a_poorer_configuration_holds_no_more_than_that_can(self) -> None:
        taken(in_shards(4), of=2)
        assert operations.get_value(NAME, config=in_shards(2, most=3)).value == pytest.approx(3)
        assert taken(in_shards(2, most=3)) == 3
