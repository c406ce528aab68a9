"""A decision takes turns where somebody else was quicker. That ends also where the table never does what it says."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import psycopg
import pytest
from django.db import InternalError, connection, transaction

from postgres import connections
from ratelimits import operations
from ratelimits.domain import State
from ratelimits.models import Bucket
from ratelimits.operations import LimitRequest, TokenBucket
from tests.ratelimits.integration import database

pytestmark = pytest.mark.django_db(transaction=True)

LONG = timedelta(days=1000)  # nothing comes in while a test runs
CONFIG = TokenBucket(10, LONG)
SHARDED = TokenBucket(10, LONG, shards=4)


@contextmanager
def ignored(what: str) -> Iterator[None]:
    """A table whose writes of this sort come to nothing, without an error: what is read grants, and it is never so.

    A decision that goes on for ever is canceled after some seconds, instead of the whole run of the tests.
    """
    with connection.cursor() as cursor:
        cursor.execute("CREATE FUNCTION test_ignored() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")
        cursor.execute(
            f"CREATE TRIGGER test_ignored BEFORE {what} ON ratelimits_bucket"
            " FOR EACH ROW EXECUTE FUNCTION test_ignored()"
        )
        cursor.execute("SET statement_timeout = '10s'")
        try:
            yield
        finally:
            cursor.execute("RESET statement_timeout")
            cursor.execute("DROP FUNCTION test_ignored CASCADE")


def _one() -> None:
    operations.limit("test/turns", config=CONFIG)


def _one_of_shards() -> None:
    operations.limit("test/turns", config=SHARDED)


def _several() -> None:
    operations.limit_all(
        [LimitRequest(name="test/turns", config=CONFIG), LimitRequest(name="test/others", config=CONFIG)]
    )


class TestADecision:
    @pytest.mark.parametrize(("config", "ask"), [(CONFIG, _one), (SHARDED, _one_of_shards)])
    def test_whose_row_says_yes_and_is_never_written_ends_with_an_error_and_grants_nothing(
        self, config: TokenBucket, ask: Callable[[], None]
    ) -> None:
        full = State(config.most / config.shards, 0)
        database.put(config, [full] * config.shards, name="test/turns")
        before = list(Bucket.objects.order_by("pk").values_list())
        with ignored("UPDATE"), pytest.raises(InternalError, match=r'limit "test/turns" .*after 100 attempts'):
            ask()
        assert list(Bucket.objects.order_by("pk").values_list()) == before

    @pytest.mark.parametrize("ask", [_one, _one_of_shards, _several])
    def test_whose_row_is_never_made_ends_with_an_error_and_grants_nothing(self, ask: Callable[[], None]) -> None:
        with ignored("INSERT"), pytest.raises(InternalError, match=r'limit "test/.*after 100 attempts'):
            ask()
        assert not Bucket.objects.exists()

    def test_names_no_key_in_that_error(self) -> None:
        """A key may be somebody's address, and an error is a line in the log."""
        with ignored("INSERT"), pytest.raises(InternalError) as error:
            operations.limit("test/turns", key="ada@example.org", config=CONFIG)
        assert "ada" not in str(error.value)

    def test_whose_row_holds_no_number_takes_it_for_full_and_no_more(self) -> None:
        """NaN written by hand: greater than all numbers to PostgreSQL, and refilled to the most like any that is."""
        database.put(CONFIG, [State(float("nan"), 0)])
        now = 10
        assert [database.take(CONFIG, now=now, count=10)[0], database.take(CONFIG, now=now, count=1)[0]] == [
            True,
            False,
        ]


class TestAKeyMadeByAnother:
    def test_at_this_moment_is_waited_for_and_taken_from(self) -> None:
        """The row is made by somebody who has not committed yet: the second turn finds it."""
        with psycopg.connect(connections.conninfo()) as other:
            other.execute(
                "INSERT INTO ratelimits_bucket"
                " (name, key, shard, shards, is_window, rate, period_ms, most, value, ts, used)"
                " VALUES ('x', '', 0, 1, false, 10, 1000, 10, 4, 0, 6)"
            )
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute("SET LOCAL lock_timeout = '100ms'")
                with pytest.raises(Exception, match="lock timeout"), transaction.atomic():
                    database.take(database.config_of(rate=10), now=0, count=4)
            other.commit()
        config = database.config_of(rate=10)
        assert [database.take(config, now=0, count=4)[0] for _ in range(2)] == [True, False]
