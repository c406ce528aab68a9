"""What is taken of a limit right before something else is committed need not wait for the disk."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction

from postgres import statements
from ratelimits import operations
from ratelimits.operations import LimitRequest, TokenBucket
from tests import farm

pytestmark = pytest.mark.django_db(transaction=True)
LONG = timedelta(days=1000)


@pytest.fixture(autouse=True)
def _new_session(transactional_db: None) -> None:
    """Of which no test before has set anything."""
    connection.close()


class TestWhatIsTaken:
    ASKS = (LimitRequest(name=operations.declare("test/disk", TokenBucket(10, LONG))),)

    def test_is_flushed_later_where_it_may_be_and_is_a_transaction_by_itself(self) -> None:
        seen = _parameters_of(lambda: operations.limit_all(self.ASKS, waits_for_disk=False))
        assert seen["is_flushed_later"] is True
        with transaction.atomic():
            assert statements.load("ratelimits", "take_all").run(seen)
            assert farm.setting("synchronous_commit") == "off"

    def test_leaves_that_to_the_transaction_around_it(self) -> None:
        with transaction.atomic():
            with connection.cursor() as cursor:  # a session of the pool may be one that other tests have told otherwise
                cursor.execute("SET LOCAL synchronous_commit = on")
            operations.limit_all(self.ASKS, waits_for_disk=False)
            assert farm.setting("synchronous_commit") == "on"

    def test_waits_for_the_disk_otherwise(self) -> None:
        assert _parameters_of(lambda: operations.limit_all(self.ASKS))["is_flushed_later"] is False


def _parameters_of(asks: Callable[[], object]) -> dict[str, Any]:
    """With what the one statement is run that this makes."""
    seen: list[dict[str, Any]] = []

    def note(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        seen.append(params)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        asks()
    [params] = seen
    return params
