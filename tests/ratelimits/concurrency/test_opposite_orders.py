"""Limits asked one by one, in opposite orders, by two transactions: one has to end, and learns what to do."""

import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial

import pytest
from django.db import transaction

from jobfarm import middleware
from postgres import transactions
from ratelimits import operations
from ratelimits.errors import LimitsDeadlocked
from ratelimits.operations import TokenBucket
from tests.farm import at_once

pytestmark = pytest.mark.django_db(transaction=True)

CONFIG = TokenBucket(100, timedelta(days=1000))


def one_by_one(order: tuple[str, str], meeting: threading.Barrier) -> None:
    """The first limit, then, once the other transaction has its own first one, the second."""
    operations.limit(f"test/{order[0]}", config=CONFIG)
    if not meeting.broken:
        with suppress(threading.BrokenBarrierError):  # the other was quicker to go on
            meeting.wait(timeout=30)
        meeting.abort()
    operations.limit(f"test/{order[1]}", config=CONFIG)


def both(run: Callable[[Callable[[], None]], None]) -> list[Exception | None]:
    """What becomes of two transactions, each opened by `run`."""
    meeting = threading.Barrier(2)

    def attempt(order: tuple[str, str]) -> Exception | None:
        try:
            run(partial(one_by_one, order, meeting))
        except Exception as error:
            return error
        return None

    return at_once(partial(attempt, ("one", "two")), partial(attempt, ("two", "one")))


class TestOppositeOrders:
    def test_end_one_of_two_plain_transactions_with_a_sentence_that_names_the_remedy(self) -> None:
        def plainly(work: Callable[[], None]) -> None:
            with transaction.atomic():
                work()

        [error] = [error for error in both(plainly) if error is not None]
        assert isinstance(error, LimitsDeadlocked)
        assert "limit_all" in str(error)
        refused = middleware.refusal(error)
        assert refused is not None
        assert (refused.status, dict(refused.headers)) == (503, {"Retry-After": "1"})
        assert operations.get_value("test/one", config=CONFIG).value == pytest.approx(99, abs=0.01)

    def test_are_tried_again_where_the_transaction_is(self) -> None:
        assert both(lambda work: transactions.retried(work)()) == [None, None]
        assert operations.get_value("test/one", config=CONFIG).value == pytest.approx(98, abs=0.01)
        assert operations.get_value("test/two", config=CONFIG).value == pytest.approx(98, abs=0.01)
