"""Limits as programs ask them: names, keys, errors, transactions, one statement each."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.db import OperationalError, connection, transaction
from pytest_django import DjangoAssertNumQueries

from postgres import transactions
from ratelimits import operations, queries
from ratelimits.domain import State
from ratelimits.errors import (
    CountExceedsLimit,
    InvalidConfig,
    InvalidCount,
    InvalidName,
    RateLimited,
    RepeatedLimit,
    UnknownLimit,
)
from ratelimits.models import Bucket
from ratelimits.operations import Answer, FixedWindow, LimitRequest, TokenBucket
from scheduling import operations as scheduling
from scheduling.operations import retention
from tests.farm import at_once, rescanning
from tests.ratelimits.integration import database

pytestmark = pytest.mark.django_db(transaction=True)

LONG = timedelta(days=1000)  # nothing comes in while a test runs
ENDLESS = timedelta(days=timedelta.max.days)
TEN = TokenBucket(10, LONG)
NAMED = operations.declare("test/named", TEN)
ONE = operations.declare("test/one", TokenBucket(1, LONG))

PRUNED = "limits that are full"


def pruned() -> int:
    """How many states retention deletes."""
    return scheduling.retain(names=[PRUNED]).get(PRUNED, 0)


class TestLimit:
    def test_takes_tokens_until_there_are_none(self) -> None:
        answers = [operations.limit(NAMED, count=4) for _ in range(3)]
        assert [answer.ok for answer in answers] == [True, True, False]
        assert [round(answer.remaining or 0, 3) for answer in answers[:2]] == [6, 2]
        assert answers[0].retry_after is None
        assert answers[2].retry_after == pytest.approx(timedelta(days=200), abs=timedelta(seconds=10))
        assert answers[2].remaining is None

    def test_keeps_keys_apart(self) -> None:
        assert all(operations.limit(ONE, key=key) for key in ("ada", "bob", None, "", "x" * 1000, "\x00"))
        assert not any(operations.limit(ONE, key=key) for key in ("ada", "bob", None, "", "x" * 1000, "\x00"))

    def test_asks_one_statement(self, django_assert_num_queries: DjangoAssertNumQueries) -> None:
        for config in (TEN, FixedWindow(10, LONG), TokenBucket(10, LONG, shards=4)):
            for count in (1, 8, 10):  # granted, granted by several shards, denied
                with django_assert_num_queries(1):
                    operations.limit("test/inline", key=str(config.shards), count=count, config=config)

    def test_takes_the_configuration_given_before_the_one_named(self) -> None:
        assert operations.limit(ONE, count=5, config=TEN).ok
        with pytest.raises(CountExceedsLimit):
            operations.limit(ONE, count=5)

    def test_keeps_the_state_when_the_configuration_changes(self) -> None:
        operations.limit("test/plan", count=9, config=TEN)
        richer = TokenBucket(100, LONG)
        assert operations.get_value("test/plan", config=richer).value == pytest.approx(1, abs=0.01)

    def test_reserves_ahead_and_says_from_when_on(self) -> None:
        config = TokenBucket(10, timedelta(hours=10), max_reserved=5)
        answers = [operations.limit("test/llm", count=10, reserve=True, config=config)]
        answers += [operations.limit("test/llm", count=3, reserve=True, config=config) for _ in range(2)]
        assert [answer.ok for answer in answers] == [True, True, False]
        assert answers[1].retry_after == pytest.approx(timedelta(hours=3), abs=timedelta(seconds=10))
        assert answers[1].remaining == pytest.approx(-3, abs=0.01)

    @pytest.mark.parametrize("shards", [1, 4])
    def test_raises_when_asked_to_whatever_would_wait_and_has_taken_nothing(self, shards: int) -> None:
        """A reservation too, as in the public package."""
        config = TokenBucket(1, LONG, max_reserved=1, shards=shards)
        ask: dict[str, Any] = {"key": "a", "reserve": True, "config": config}
        assert operations.limit("test/one-ahead", throws=True, **ask).retry_after is None
        for asking in (operations.check, operations.limit):
            with pytest.raises(RateLimited) as refusal:
                asking("test/one-ahead", throws=True, **ask)
            assert (refusal.value.name, refusal.value.key) == ("test/one-ahead", "a")
            assert refusal.value.retry_after > timedelta(days=999)
        with pytest.raises(RateLimited):
            operations.limit_all([LimitRequest(name=NAMED), LimitRequest(name="test/one-ahead", **ask)], throws=True)
        assert operations.get_value(NAMED).value == 10
        assert operations.get_value("test/one-ahead", key="a", config=config).value == pytest.approx(0, abs=0.01)
        assert operations.limit("test/one-ahead", **ask).ok

    @pytest.mark.parametrize("shards", [1, 4])
    def test_raises_for_more_than_it_ever_holds_with_the_wait_that_a_reservation_would_have(self, shards: int) -> None:
        config = TokenBucket(1, LONG, max_reserved=5, shards=shards)
        with pytest.raises(RateLimited) as refusal:
            operations.limit("test/large", count=3, reserve=True, throws=True, config=config)
        assert refusal.value.retry_after == pytest.approx(2 * LONG, abs=timedelta(seconds=10))
        with pytest.raises(CountExceedsLimit):
            operations.limit("test/large", count=7, reserve=True, throws=True, config=config)

    @pytest.mark.parametrize(
        ("arguments", "error"),
        [
            ({"name": "test/nobody"}, UnknownLimit),
            ({"name": 'say "x"'}, InvalidName),
            ({"name": 'say "x"', "config": TEN}, InvalidName),
            ({"name": NAMED, "count": -1}, InvalidCount),
            ({"name": NAMED, "count": float("nan")}, InvalidCount),
            ({"name": NAMED, "count": 11}, CountExceedsLimit),
            ({"name": NAMED, "config": {"rate": 10}}, InvalidConfig),
        ],
    )
    def test_refuses_what_makes_no_sense_and_stores_nothing(self, arguments: dict[str, Any], error: type) -> None:
        name = arguments.pop("name")
        for ask in (operations.limit, operations.check):
            with pytest.raises(error):
                ask(name, **arguments)
        assert not Bucket.objects.exists()

    def test_takes_the_largest_and_the_smallest_numbers_there_are(self) -> None:
        huge = TokenBucket(1e15, timedelta(microseconds=1))
        assert operations.limit("test/huge", count=1e15, reserve=True, config=huge).ok
        with pytest.raises(CountExceedsLimit):
            operations.limit("test/huge", count=2e15, reserve=True, config=huge)
        slow = TokenBucket(1e-12, timedelta.max, capacity=1)
        assert operations.limit("test/slow", config=slow).ok
        assert operations.limit("test/slow", config=slow).retry_after == timedelta.max

    def test_rewrites_its_row_in_place(self) -> None:
        """No index is written: what changes has none, and the page has room (heap-only updates).

        The versions that one transaction leaves may fill a page, and the row then moves to the next: at most two of
        twenty, where an index with such a column makes it twenty.
        """
        operations.limit(NAMED, count=0.1)
        with transaction.atomic():
            before = _updates()
            for _ in range(20):
                operations.limit(NAMED, count=0.1)
            updated, hot = (after - then for after, then in zip(_updates(), before, strict=True))
        assert (updated, hot >= 18) == (20, True), f"{hot} of {updated} in place"


def _updates() -> tuple[int, int]:
    """How many rows of the table this session updated lately, and how many of them in place. What is told of the whole
    database also holds what other sessions had not told before."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_xact_user_tables WHERE relname = 'ratelimits_bucket'"
        )
        updates: tuple[int, int] = cursor.fetchone()
    return updates


class TestCheck:
    def test_answers_as_limit_would_and_takes_nothing(self, django_assert_num_queries: DjangoAssertNumQueries) -> None:
        for config in (TEN, TokenBucket(10, LONG, shards=4)):
            key = str(config.shards)
            with django_assert_num_queries(1):
                assert operations.check(NAMED, key=key, count=10, config=config) == Answer(ok=True, retry_after=None)
            operations.limit(NAMED, key=key, count=9, config=config)
            before = list(Bucket.objects.values_list())
            denied = operations.check(NAMED, key=key, count=3, config=config)
            assert not denied
            assert denied.retry_after == pytest.approx(timedelta(days=200), abs=timedelta(seconds=10))
            assert list(Bucket.objects.values_list()) == before
            assert operations.check(NAMED, key=key, count=1, config=config).ok

    def test_works_in_a_transaction_that_only_reads(self) -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION READ ONLY")
            assert operations.check(NAMED, throws=True).ok

    def test_raises_when_asked_to(self) -> None:
        operations.limit(ONE)
        with pytest.raises(RateLimited):
            operations.check(ONE, throws=True)


class TestLimitAll:
    def test_takes_from_all_or_from_none(self, django_assert_num_queries: DjangoAssertNumQueries) -> None:
        asks = [
            LimitRequest(name=NAMED, key="a", count=4),
            LimitRequest(name=ONE, key="a"),
            LimitRequest(name=NAMED, key="b", count=2),
        ]
        with django_assert_num_queries(1):
            together = operations.limit_all(asks)
        assert together.remaining == pytest.approx(0, abs=0.01)
        assert (together.ok, together.retry_after) == (True, None)
        with django_assert_num_queries(1):
            denied = operations.limit_all(asks)
        assert not denied
        assert denied.retry_after == pytest.approx(LONG, abs=timedelta(seconds=10))
        left = {(row.name, row.key): round(row.value, 2) for row in Bucket.objects.all()}
        assert left == {(NAMED, "a"): 6, (NAMED, "b"): 8, (ONE, "a"): 0}

    def test_stores_nothing_of_a_first_use_that_another_limit_denies(self) -> None:
        operations.limit(ONE)
        assert not operations.limit_all([LimitRequest(name=NAMED), LimitRequest(name=ONE)])
        assert set(Bucket.objects.values_list("name", flat=True)) == {ONE}

    def test_of_reservations_waits_for_the_last(self) -> None:
        asks = [
            LimitRequest(name="test/a", count=2, reserve=True, config=TokenBucket(1, timedelta(hours=1))),
            LimitRequest(name="test/b", count=3, reserve=True, config=TokenBucket(1, timedelta(hours=1), shards=2)),
            LimitRequest(name="test/c", config=TEN),
        ]
        answer = operations.limit_all(asks)
        assert answer.ok
        assert answer.retry_after == pytest.approx(timedelta(hours=2), abs=timedelta(seconds=10))

    def test_names_in_its_refusal_the_limit_that_takes_longest(self) -> None:
        operations.limit(ONE)
        operations.limit(NAMED, count=10)
        with pytest.raises(RateLimited) as refusal:
            operations.limit_all([LimitRequest(name=NAMED), LimitRequest(name=ONE)], throws=True)
        assert refusal.value.name == ONE

    def test_refuses_the_same_limit_and_key_twice(self) -> None:
        with pytest.raises(RepeatedLimit):
            operations.limit_all([LimitRequest(name=NAMED, key="a"), LimitRequest(name=NAMED, key="a")])

    def test_of_nothing_is_granted(self) -> None:
        assert operations.limit_all([]) == Answer(ok=True, retry_after=None)


class TestATransactionOfTheCaller:
    def test_gives_back_what_it_took_when_it_rolls_back(self) -> None:
        with transaction.atomic():
            assert operations.limit(NAMED, count=7)
            assert operations.limit_all([LimitRequest(name=ONE)])
            transaction.set_rollback(True)
        assert not Bucket.objects.exists()

    def test_is_not_kept_waiting_by_others_where_the_limit_denies(self) -> None:
        """A denial takes no lock and waits for none: the row is locked by somebody else the whole time."""
        operations.limit(ONE)
        sharded = TokenBucket(1, LONG, shards=4)
        operations.limit("test/sharded", config=sharded)

        def denied() -> list[bool]:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute("SET LOCAL lock_timeout = '1ms'")
                return [
                    operations.limit(ONE).ok,
                    operations.limit("test/sharded", config=sharded).ok,
                    operations.limit_all([LimitRequest(name=ONE), LimitRequest(name=NAMED)]).ok,
                ]

        with transaction.atomic():
            list(Bucket.objects.select_for_update())
            assert at_once(denied) == [[False, False, False]]

    def test_holds_the_row_to_its_end_where_the_limit_grants(self) -> None:
        operations.limit(NAMED)

        def waits() -> bool:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute("SET LOCAL lock_timeout = '1ms'")
                try:
                    operations.limit(NAMED)
                except OperationalError:
                    return True
            return False

        with transaction.atomic():
            operations.limit(NAMED)
            assert at_once(waits) == [True]

    def test_may_be_serializable(self) -> None:
        def twice() -> list[bool]:
            return [
                operations.limit(ONE).ok,
                operations.limit(ONE).ok,
                operations.limit_all([LimitRequest(name=NAMED)]).ok,
            ]

        assert transactions.serializable(twice) == [True, False, True]


class TestReset:
    def test_makes_one_key_full_with_all_its_shards(self) -> None:
        config = TokenBucket(10, LONG, shards=4)
        for key in ("a", "b"):
            operations.limit("test/sharded", key=key, count=10, config=config)
        assert operations.reset("test/sharded", key="a") is True
        assert operations.get_value("test/sharded", key="a", config=config).value == 10
        assert operations.get_value("test/sharded", key="b", config=config).value == pytest.approx(0, abs=0.01)
        assert operations.reset("test/sharded", key="a") is False

    def test_is_noted_in_the_log_when_a_person_does_it(self) -> None:
        ada = User.objects.create_user("ada")
        operations.limit(NAMED, key="a")
        operations.reset(NAMED, key="a", by=ada)
        [entry] = LogEntry.objects.all()
        assert (entry.user, entry.object_repr, entry.change_message) == (ada, "test/named a", "Reset.")


class TestGiveBack:
    @pytest.mark.parametrize("shards", [1, 4])
    def test_puts_a_reservation_back(self, shards: int) -> None:
        config = TokenBucket(10, LONG, shards=shards)
        operations.limit("test/llm", count=10, config=config)
        operations.limit("test/llm", count=6, reserve=True, config=config)
        operations.give_back("test/llm", count=6, config=config)
        assert operations.get_value("test/llm", config=config).value == pytest.approx(0, abs=0.01)
        assert sum(Bucket.objects.values_list("used", flat=True)) == pytest.approx(10)

    def test_never_fills_above_the_most(self) -> None:
        operations.limit(NAMED, count=1)
        operations.give_back(NAMED, count=5)
        assert operations.get_value(NAMED).value == 10
        assert Bucket.objects.get().value == 10  # what a limit begins with that is raised
        operations.give_back(NAMED, key="never used", count=5)
        assert operations.get_value(NAMED, key="never used").value == 10

    def test_refuses_counts_that_make_no_sense(self) -> None:
        with pytest.raises(InvalidCount):
            operations.give_back(NAMED, count=-1)


class TestPrune:
    NOW = 1_000_000_000_000  # long ago by the database's clock

    def test_forgets_what_is_full_again_and_nothing_else(self) -> None:
        hour = timedelta(hours=1)
        database.put(TokenBucket(10, hour), [State(0, self.NOW)], "long ago", name="bucket")
        database.put(FixedWindow(10, hour), [State(0, self.NOW)], "long ago", name="window")
        operations.limit("bucket", key="in use", config=TokenBucket(10, hour))
        operations.limit("window", key="in use", config=FixedWindow(10, hour))
        operations.limit("bucket", key="in debt", count=15, reserve=True, config=TokenBucket(10, hour))
        assert pruned() == 2
        assert set(Bucket.objects.values_list("key", flat=True)) == {"in use", "in debt"}

    def test_keeps_what_is_used_once_and_for_all(self) -> None:
        """The longest period that there is stands for tokens that never come back; a window's first lies long ago."""
        for name, config in (("bucket", TokenBucket(10, ENDLESS)), ("window", FixedWindow(10, ENDLESS))):
            for shards in (1, 2):
                assert operations.limit(name, key=f"{shards}", count=10, config=replace(config, shards=shards)).ok
        assert pruned() == 0
        assert max(gauge.value for gauge in queries.gauges(limit=9)[0]) < 1e-9

    def test_keeps_a_full_window_for_one_period_more(self) -> None:
        """Its next use would draw new edges. Drained just before an old edge and, forgotten, just before a
        new one, the key would get three times its capacity in no time."""
        config = FixedWindow(10, timedelta(hours=1))
        period = int(config.period_ms)
        with connection.cursor() as cursor:
            cursor.execute("SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint")
            [now] = cursor.fetchone()
        database.put(config, [State(0, now - period - 60_000)], "full since a minute", name="window")
        database.put(config, [State(0, now - 2 * period - 60_000)], "full since an hour", name="window")
        assert pruned() == 1
        assert Bucket.objects.get().key == "full since a minute"

    def test_forgets_any_number_in_batches(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(retention._declared, PRUNED, (queries.prune, 3))
        for n in range(10):
            database.put(TEN, [State(10, self.NOW)], str(n))
        assert pruned() == 10

    def test_forgets_no_more_than_a_batch_in_one_statement_whatever_its_plan(self) -> None:
        for n in range(10):
            database.put(TEN, [State(10, self.NOW)], str(n))
        with rescanning():
            assert [queries.prune(3, 0) for _ in range(5)] == [3, 3, 3, 1, 0]

    def test_passes_by_what_somebody_is_using(self) -> None:
        database.put(TEN, [State(10, self.NOW)], "locked")
        database.put(TEN, [State(10, self.NOW)], "free")
        with transaction.atomic():
            list(Bucket.objects.filter(key="locked").select_for_update())
            assert at_once(pruned) == [1]
