"""Promise 10: 32 threads, a limit of 100, 128 requests: exactly 100 granted, round after round, in every
mode."""

import os
from collections.abc import Callable
from datetime import timedelta
from functools import partial

import pytest
from django.db import connection

from postgres import transactions
from ratelimits import operations
from ratelimits.models import Bucket
from ratelimits.operations import Config, FixedWindow, LimitRequest, TokenBucket
from tests.effort import share
from tests.ratelimits.concurrency.crew import Crew

pytestmark = pytest.mark.django_db(transaction=True)

LIMIT = 100
ROUNDS = int(os.environ.get("RATELIMITS_TEST_ROUNDS", share(100, of=10)))  # tens, of 128 requests each, in each mode
LONG = timedelta(days=36_500)  # nothing comes in while a test runs

KINDS: dict[str, Config] = {
    "token bucket": TokenBucket(LIMIT, LONG),
    "fixed window": FixedWindow(LIMIT, LONG),
    "16 shards": TokenBucket(LIMIT, LONG, shards=16),
}
Mode = Callable[[str, int, int], bool]


def plain(config: Config, key: str, _: int, count: int) -> bool:
    """A transaction of its own."""
    return operations.limit("x", key=key, count=count, config=config).ok


def in_a_serializable_transaction(config: Config, key: str, _: int, count: int) -> bool:
    """Inside a caller's transaction that is run again when it collides."""
    ask = partial(operations.limit, "x", key=key, count=count, config=config)
    return transactions.serializable(ask, attempts=1000).ok


def with_another(config: Config, key: str, thread: int, count: int) -> bool:
    """Together with a second limit that has room for all, the two named in one order or in the other."""
    asks = [
        LimitRequest(name="x", key=key, count=count, config=config),
        LimitRequest(name="y", key=key, config=TokenBucket(1000, LONG)),
    ]
    return operations.limit_all(asks[:: 1 if thread % 2 else -1]).ok


def granted(crew: Crew, ask: Mode, key: str, *, count: int = 4) -> int:
    """How many tokens were granted in one round to 32 threads that want 128: four times one each, or once
    four."""
    return count * sum(crew.all(lambda n: sum(ask(key, n, count) for _ in range(4 // count))))


class TestAHotKey:
    @pytest.mark.parametrize("kind", KINDS)
    def test_grants_exactly_its_limit_from_its_first_use_on(self, crew: Crew, kind: str) -> None:
        ask = partial(plain, KINDS[kind])
        rounds = [granted(crew, ask, f"round {n}", count=1) for n in range(ROUNDS)]
        assert rounds == [LIMIT] * ROUNDS

    @pytest.mark.parametrize("kind", ["fixed window", "16 shards"])
    def test_grants_exactly_its_limit_when_it_is_known(self, crew: Crew, kind: str) -> None:
        ask = partial(plain, KINDS[kind])
        rounds = []
        for _ in range(ROUNDS):
            rounds.append(granted(crew, ask, "known"))
            _fill_up()
        assert rounds == [LIMIT] * ROUNDS


class TestANumberOfShardsThatIsBeingChanged:
    @pytest.mark.parametrize("is_known", [False, True])
    def test_grants_exactly_the_limit_to_those_who_still_ask_with_the_old_one_and_those_with_the_new(
        self, crew: Crew, is_known: bool
    ) -> None:
        """As while a site is deployed: half of the threads ask with one row, half with 16; each round is a key."""
        divided = (KINDS["token bucket"], KINDS["16 shards"])

        def ask(key: str, thread: int, count: int) -> bool:
            return plain(divided[thread % 2], key, thread, count)

        rounds = []
        for n in range(ROUNDS // 2):
            if is_known:
                operations.limit("x", key=f"round {n}", count=20, config=divided[n % 2])
            rounds.append(granted(crew, ask, f"round {n}", count=1))
        assert rounds == [LIMIT - 20 * is_known] * (ROUNDS // 2)


@pytest.mark.parametrize("kind", ["token bucket", "16 shards"])
class TestSeveralLimits:
    def test_are_granted_exactly_and_never_lock_each_other_out(self, crew: Crew, kind: str) -> None:
        """Half of the threads name them in the opposite order; a deadlock would raise here."""
        ask = partial(with_another, KINDS[kind])
        rounds = [granted(crew, ask, f"round {n % 50}") for n in range(ROUNDS) if _forgotten(n, 50)]
        assert rounds == [LIMIT] * ROUNDS


@pytest.mark.parametrize("kind", ["token bucket"])
class TestASerializableCaller:
    def test_is_granted_exactly_the_limit(self, crew: Crew, kind: str) -> None:
        """Five rounds a start: who collided pauses, and the others go on to the next instead of waiting for them."""
        ask = partial(in_a_serializable_transaction, KINDS[kind])

        def five(first: int, n: int) -> list[bool]:
            return [ask(f"round {first + nth}", n, 4) for nth in range(5)]

        starts = [crew.all(partial(five, first)) for first in range(0, ROUNDS, 5)]
        rounds = [4 * sum(answers) for threads in starts for answers in zip(*threads, strict=True)]
        assert rounds == [LIMIT] * ROUNDS


class TestSerializableCallersOfDifferentKeys:
    def test_do_not_collide_where_their_rows_lie_apart(self, crew: Crew) -> None:
        """A decision on a known key writes no index, so it touches nothing that others have read: not one
        retry."""
        child_process = 150  # rows, some four pages
        _store(crew.size * child_process)

        def ask(n: int) -> bool:
            take = partial(operations.limit, "x", key=str(n * child_process), config=KINDS["token bucket"])
            return all(transactions.serializable(take, attempts=1) for _ in range(20))

        assert all(crew.all(ask))

    def test_are_all_served_where_their_rows_share_a_page(self, crew: Crew) -> None:
        """There the page fills up with versions, one of them goes elsewhere and writes the index, and
        neighbours retry."""
        _store(crew.size)

        def ask(n: int) -> bool:
            take = partial(operations.limit, "x", key=str(n), config=KINDS["token bucket"])
            return all(transactions.serializable(take, attempts=1000) for _ in range(20))

        assert all(crew.all(ask))


def _store(rows: int) -> None:
    """A known key for each number."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO ratelimits_bucket"
            " (name, key, shard, shards, is_window, rate, period_ms, most, value, ts, used)"
            " SELECT 'x', n::text, 0, 1, false, 1, 1000, 100, 100, 0, 0 FROM generate_series(0, %s) AS n",
            [rows - 1],
        )
        cursor.execute("ANALYZE ratelimits_bucket")


def _fill_up() -> None:
    for row in Bucket.objects.all():
        row.value = row.most
        row.save(update_fields=["value"])


def _forgotten(n: int, every: int) -> bool:
    """Forget everything every so many rounds, so that fresh and known keys take turns."""
    if n % every == 0:
        Bucket.objects.all().delete()
    return True
