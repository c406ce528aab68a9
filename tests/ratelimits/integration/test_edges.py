"""The edges of a limit in the database: the last token of a debt, the first millisecond of a window, and who is locked
before whom."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import psycopg
import pytest
from django.db import connection, transaction

from postgres import connections
from ratelimits import operations, queries
from ratelimits.domain import Config, State
from ratelimits.models import Bucket
from ratelimits.operations import FixedWindow, LimitRequest, TokenBucket
from tests.farm import at_once, until
from tests.ratelimits.integration import database

pytestmark = pytest.mark.django_db(transaction=True)

LONG = timedelta(days=1000)
HOUR = timedelta(hours=1)
HOUR_MS = 3_600_000
NOW = 1_700_000_000_000
Answer = tuple[bool, Any]
Row = tuple[str, str, int]
Take = Callable[..., Answer]


def _alone(config: Config, *, now: int, count: float = 1, reserve: bool = False) -> Answer:
    """By the function for one limit: the first use, then the row."""
    granted, retry_after, _ = database.take(config, now=now, count=count, reserve=reserve)
    return granted, retry_after


def _with_others(config: Config, *, now: int, count: float = 1, reserve: bool = False) -> Answer:
    """By the function for several, beside a limit that has room for all."""
    roomy = database.request(TokenBucket(1e6, LONG), name="roomy")
    params = database.request(config, count=count, reserve=reserve)
    _, (granted, retry_after, _) = database.take_all([roomy, params], now=now)
    return granted, retry_after


HOW = {"alone": _alone, "with others": _with_others}
every_way = pytest.mark.parametrize("ask", HOW.values(), ids=HOW.keys())


@every_way
@pytest.mark.parametrize("shards", [1, 4])
class TestADebt:
    def _config(self, shards: int, max_reserved: float | None) -> TokenBucket:
        return TokenBucket(8, LONG, max_reserved=max_reserved, shards=shards)

    @pytest.mark.parametrize("used", [0, 8], ids=["from its first use", "of a row"])
    def test_goes_as_far_as_may_be_reserved_and_not_a_hair_further(self, ask: Take, shards: int, used: int) -> None:
        config = self._config(shards, 4)
        if used:
            assert ask(config, now=NOW, count=used)[0]
        left = 8 - used
        assert not ask(config, now=NOW, count=left + 4.001, reserve=True)[0]
        assert ask(config, now=NOW, count=left + 4, reserve=True)[0]
        assert not ask(config, now=NOW, count=0.001, reserve=True)[0]

    def test_is_for_who_reserves_alone(self, ask: Take, shards: int) -> None:
        config = self._config(shards, 4)
        assert not ask(config, now=NOW, count=8.001)[0]
        assert ask(config, now=NOW, count=8)[0]
        assert not ask(config, now=NOW, count=0.001)[0]
        assert ask(config, now=NOW, count=4, reserve=True)[0]

    def test_has_no_end_where_none_is_named(self, ask: Take, shards: int) -> None:
        config = self._config(shards, None)
        assert [ask(config, now=NOW, count=1e6, reserve=True)[0] for _ in range(3)] == [True] * 3
        assert not ask(config, now=NOW, count=0.001)[0]

    def test_of_nothing_is_none(self, ask: Take, shards: int) -> None:
        config = self._config(shards, 0)
        assert ask(config, now=NOW, count=8, reserve=True) == (True, None)
        assert not ask(config, now=NOW, count=0.001, reserve=True)[0]

    def test_is_paid_before_anything_is_granted(self, ask: Take, shards: int) -> None:
        config = TokenBucket(8, HOUR, max_reserved=4, shards=shards)
        granted, wait_ms = ask(config, now=NOW, count=12, reserve=True)
        assert (granted, wait_ms) == (True, pytest.approx(HOUR_MS / 2))
        assert not ask(config, now=NOW + HOUR_MS // 2, count=0.001)[0]
        assert ask(config, now=NOW + HOUR_MS * 3 // 4, count=2)[0]


@every_way
class TestAWindow:
    START = datetime(2023, 11, 14, 22, tzinfo=UTC)
    EDGE = int(START.timestamp() * 1000)

    def _config(self) -> FixedWindow:
        return FixedWindow(3, HOUR, start=self.START)

    @pytest.mark.parametrize("windows", [-5, 0, 1, 7], ids=lambda n: f"{n} windows from its start")
    def test_ends_a_millisecond_before_the_next_begins(self, ask: Take, windows: int) -> None:
        edge = self.EDGE + windows * HOUR_MS
        assert ask(self._config(), now=edge - 1, count=3)[0]
        assert ask(self._config(), now=edge - 1, count=1) == (False, 1)
        assert ask(self._config(), now=edge, count=3)[0]
        assert ask(self._config(), now=edge, count=1) == (False, HOUR_MS)
        assert ask(self._config(), now=edge + HOUR_MS - 1, count=1) == (False, 1)
        assert ask(self._config(), now=edge + HOUR_MS, count=3)[0]

    def test_is_not_entered_twice_by_a_clock_that_goes_back(self, ask: Take) -> None:
        moments = (self.EDGE, self.EDGE - 1, self.EDGE, self.EDGE, self.EDGE - HOUR_MS)
        answers = [ask(self._config(), now=now, count=1)[0] for now in moments]
        assert answers == [True, True, True, False, False]
        assert ask(self._config(), now=self.EDGE + HOUR_MS, count=3)[0]

    def test_is_waited_for_as_often_as_it_takes_and_not_once_more(self, ask: Take) -> None:
        config = FixedWindow(3, HOUR, capacity=9, start=self.START)
        assert ask(config, now=self.EDGE, count=9)[0]
        waits = [ask(config, now=self.EDGE, count=count)[1] for count in (1, 3, 4, 6, 9)]
        assert waits == [HOUR_MS, HOUR_MS, 2 * HOUR_MS, 2 * HOUR_MS, 3 * HOUR_MS]

    def test_that_nobody_used_brings_no_more_than_the_capacity(self, ask: Take) -> None:
        config = FixedWindow(3, HOUR, capacity=5, start=self.START)
        assert ask(config, now=self.EDGE, count=5)[0]
        assert not ask(config, now=self.EDGE + HOUR_MS, count=4)[0]
        assert ask(config, now=self.EDGE + 9 * HOUR_MS, count=5)[0]
        assert not ask(config, now=self.EDGE + 9 * HOUR_MS, count=1)[0]


class TestABucket:
    def test_brings_a_token_in_its_last_millisecond_and_not_before(self) -> None:
        config = TokenBucket(10, timedelta(minutes=1))  # one each 6,000 ms
        database.put(config, [State(0, NOW)])
        assert _alone(config, now=NOW + 5999) == (False, pytest.approx(1))
        assert _alone(config, now=NOW + 6000) == (True, None)


@contextmanager
def held(name: str, key: str = "", shard: int = 0) -> Iterator[None]:
    """Another session holds this row, until the block has seen what it wants to see."""
    with psycopg.connect(connections.conninfo()) as other:
        sql = "SELECT FROM ratelimits_bucket WHERE name = %s AND key = %s AND shard = %s FOR UPDATE"
        assert other.execute(sql, [name, key, shard]).rowcount == 1
        try:
            yield
        finally:
            other.rollback()


def _locked() -> set[Row]:
    """The rows that somebody holds at this moment."""
    with psycopg.connect(connections.conninfo()) as other:
        every = "SELECT name, key, shard FROM ratelimits_bucket"
        free = other.execute(f"{every} FOR UPDATE SKIP LOCKED").fetchall()
        return set(other.execute(every).fetchall()) - set(free)


def _somebody_waits() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return bool(cursor.fetchone()[0])


def _held_while_it_waits(call: Callable[[], object], row: Row) -> set[Row]:
    """The rows that `call` holds while it waits for this one, which somebody else has."""
    seen: list[set[Row]] = []
    is_held = threading.Event()

    def hold() -> None:
        with held(*row):
            is_held.set()
            until(_somebody_waits, what="a wait for the row")
            seen.append(_locked())

    def ask() -> None:
        is_held.wait(30)
        call()

    at_once(hold, ask)
    return seen[0] - {row}


class TestSeveralLimits:
    """Rows are locked in one order, that of name, key and shard, by their bytes, whatever the order of the asks."""

    CONFIG = TokenBucket(10, LONG)
    ASKS = (
        LimitRequest(name="Zebra", key="k", config=CONFIG),
        LimitRequest(name="ant", key="K", config=CONFIG),
        LimitRequest(name="ant", key="k", config=CONFIG),
        LimitRequest(name="bee", key="a", config=CONFIG),
    )
    ROWS = (("Zebra", "k", 0), ("ant", "K", 0), ("ant", "k", 0), ("bee", "a", 0))

    @pytest.mark.parametrize("nth", range(4))
    @pytest.mark.parametrize("step", [1, -1], ids=["in that order", "in the opposite order"])
    @pytest.mark.parametrize("is_sorted", [True, False], ids=["and sorted", "and not sorted, as by the version before"])
    def test_are_locked_up_to_the_one_that_is_waited_for(self, nth: int, step: int, is_sorted: bool) -> None:
        asks = self.ASKS[::step]
        assert operations.limit_all(asks).ok
        requests = [database.request(self.CONFIG, ask.key or "", name=ask.name) for ask in asks]
        ask = partial(operations.limit_all, asks) if is_sorted else partial(queries.take_all, requests)
        assert _held_while_it_waits(ask, self.ROWS[nth]) == set(self.ROWS[:nth])

    def test_of_shards_are_locked_from_the_first_shard_on(self) -> None:
        config = TokenBucket(8, LONG, shards=4)
        assert operations.limit("x", count=8, config=config).ok
        operations.give_back("x", count=8, config=config)
        locked = _held_while_it_waits(lambda: operations.limit("x", count=8, config=config), ("x", "", 2))
        assert locked == {("x", "", 0), ("x", "", 1)}

    def test_that_are_given_back_lock_shards_in_that_order_too(self) -> None:
        config = TokenBucket(8, LONG, shards=4)
        database.put(config, [State(0, 0)] * 4)
        first = Bucket.objects.get(shard=0)
        first.delete()
        first.save(force_insert=True)  # so that it lies last in the table

        def give_back() -> None:
            with connection.cursor() as cursor:
                cursor.execute("SET enable_indexscan = off")  # which would have them in their order by chance
                try:
                    operations.give_back("x", count=4, config=config)
                finally:
                    cursor.execute("RESET enable_indexscan")

        locked = _held_while_it_waits(give_back, ("x", "", 2))
        assert locked == {("x", "", 0), ("x", "", 1)}


class TestARefusalOfSeveral:
    """Leaves every row alone, whether it is seen at the first look or after a wait."""

    ASKS = tuple(LimitRequest(name=name, count=2, config=TokenBucket(10, LONG)) for name in ("ant", "bee", "cat"))

    @pytest.fixture(autouse=True)
    def _known(self) -> None:
        assert operations.limit_all(self.ASKS).ok

    def test_waits_for_no_row_that_grants(self) -> None:
        Bucket.objects.filter(name="cat").update(value=1)
        with held("ant"), connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '5s'")
            try:
                assert not operations.limit_all(self.ASKS).ok
            finally:
                cursor.execute("RESET lock_timeout")

    def test_that_comes_of_a_wait_lets_go_of_all(self) -> None:
        """The last tokens go to somebody else, who commits while we wait; our transaction goes on."""
        seen: list[tuple[bool, set[Row]]] = []
        is_taken = threading.Event()

        def take() -> None:
            with psycopg.connect(connections.conninfo()) as other:
                other.execute("UPDATE ratelimits_bucket SET value = 0 WHERE name = 'cat'")
                is_taken.set()
                until(_somebody_waits, what="a wait for the row")

        def ask() -> None:
            is_taken.wait(30)
            with transaction.atomic():
                seen.append((operations.limit_all(self.ASKS).ok, _locked()))

        at_once(take, ask)
        assert seen == [(False, set())]
