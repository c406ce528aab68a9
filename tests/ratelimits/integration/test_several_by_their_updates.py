"""Several limits by an UPDATE each: word for word, and row for row, what is decided by locking all of them first."""

from typing import Any

import pytest
from django.db import ProgrammingError, connection
from hypothesis import HealthCheck, given, settings, strategies as st

from ratelimits.domain import Config, State
from ratelimits.models import Bucket
from ratelimits.queries import Request
from tests.effort import share
from tests.farm import rolled_back
from tests.ratelimits.integration import database
from tests.ratelimits.unit.strategies import NOW, configs, shard_states

pytestmark = pytest.mark.django_db

LOCKING = "ratelimits_lock_and_take_all"
KEYS = (("Zebra", "k"), ("ant", "K"), ("ant", '"a", {b}\\'), ("ant", "k"), ("bee", ""))
Stored = tuple[Config, list[State | None]]


@st.composite
def stored_states(draw: st.DrawFn, config: Config) -> Stored:
    """What lies there: mostly as it is asked; of another configuration; in other shards; nothing at all."""
    before = draw(st.sampled_from([config, config, config]) | configs(max_shards=1) | configs(max_shards=3))
    return before, draw(shard_states(before))


@st.composite
def requests_with_states(draw: st.DrawFn) -> tuple[Request, Stored]:
    """A request, and what lies where it asks."""
    config = draw(configs(max_shards=1) | configs(max_shards=1) | configs(max_shards=2))
    (name, key), part = draw(st.sampled_from(KEYS)), draw(st.sampled_from([0, 0.1, 0.5, 1, 1.2]))
    request = database.request(config, key, count=config.most * part, reserve=draw(st.booleans()), name=name)
    return request, draw(stored_states(config))


class TestSeveralLimits:
    @settings(max_examples=share(400, of=4), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        several=st.lists(requests_with_states(), min_size=1, max_size=3), in_order=st.sampled_from([True, True, False]),
        now=st.integers(NOW - 5000, NOW + 100_000), draw=st.floats(0, 0.999),
    )  # fmt: skip
    def test_are_decided_as_by_locking_them(
        self, several: list[tuple[Request, Stored]], in_order: bool, now: int, draw: float
    ) -> None:
        requests = [request for request, _ in several]
        if in_order:
            requests.sort(key=lambda request: (request.name, request.key))
        with rolled_back():
            for request, (config, states) in several:
                database.put(config, states, request.key, name=request.name)
            plain, locking = (_outcome(requests, now=now, draw=draw, by=by) for by in ("ratelimits_take_all", LOCKING))
        assert plain == locking

    def test_are_not_locked_first_where_each_has_its_row_and_they_come_in_order(self) -> None:
        config = database.config_of(rate=10)
        requests = [database.request(config, key, count=4, name=name) for name, key in sorted(KEYS)]
        database.take_all(requests, now=NOW)
        with connection.cursor() as cursor:  # undone with the test
            cursor.execute(f"DROP FUNCTION {LOCKING}(ratelimits_request[], bigint, float8)")
        assert database.take_all(requests, now=NOW) == [(True, None, 2)] * len(requests)
        assert set(Bucket.objects.values_list("name", "key", "used")) == {(*key, 8) for key in KEYS}
        for more in (requests, requests[::-1], requests[:1] * 2):
            with pytest.raises(ProgrammingError, match=LOCKING), rolled_back():
                database.take_all(more, now=NOW + (more is not requests) * 1000)


def _outcome(requests: list[Request], **more: Any) -> tuple[list[Any], list[Any]]:
    """The answers, and all rows then; nothing stays of it."""
    columns = [field.name for field in Bucket._meta.fields if field.name not in {"id", "used"}]
    with rolled_back():
        answers = database.take_all(requests, **more)
        rows = [
            (*row, round(used, 9))
            for *row, used in Bucket.objects.order_by("name", "key", "shard").values_list(*columns, "used")
        ]
    return answers, rows
