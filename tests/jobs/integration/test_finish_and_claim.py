"""Handing in with `claim_next`: one transaction, all of it or nothing."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs import operations
from jobs.errors import InvalidJson, LeaseLost
from tests import farm

pytestmark = pytest.mark.django_db(transaction=True)


def _done(*claimed: operations.ClaimedJob, result: Any = None) -> list[operations.Finished]:
    return [operations.Finished(job_id=c.id, lease=c.lease, outcome="success", result=result) for c in claimed]


def _states() -> list[str]:
    return list(farm.statuses())


class TestFinishAndClaim:
    def test_is_one_transaction(self) -> None:
        farm.kind()
        me = farm.worker()
        farm.submit(2)
        first = farm.claim_one(me)
        with CaptureQueriesContext(connection) as made:
            [status], [second] = operations.finish_and_claim(me, _done(first), limit=1)
        assert (status, second.id != first.id) == ("success", True)
        assert [query["sql"] for query in made].count("COMMIT") == 1
        assert _states() == ["success", "in_progress"]

    def test_that_breaks_has_neither_ended_nor_claimed_and_can_be_repeated(self) -> None:
        farm.kind()
        me = farm.worker()
        farm.submit(2)
        first = farm.claim_one(me)
        with farm.rolled_back():
            operations.finish_and_claim(me, _done(first), limit=1)
        assert _states() == ["in_progress", "pending"]
        [status], [_] = operations.finish_and_claim(me, _done(first), limit=1)
        assert status == "success"

    def test_with_a_result_that_cannot_be_stored_claims_nothing(self) -> None:
        farm.kind()
        me = farm.worker()
        farm.submit(2)
        first = farm.claim_one(me)
        with pytest.raises(InvalidJson):
            operations.finish_and_claim(me, _done(first, result="\x00"), limit=1)
        assert _states() == ["in_progress", "pending"]

    @pytest.mark.parametrize(("unless_lost", "claimed"), [(True, 0), (False, 1)])
    def test_with_a_lease_that_was_lost_claims_only_if_told(self, *, unless_lost: bool, claimed: int) -> None:
        farm.kind()
        me = farm.worker()
        farm.submit(2)
        first = farm.claim_one(me)
        operations.cancel(first.id, by=None)
        [status], got = operations.finish_and_claim(me, _done(first), limit=1, unless_lost=unless_lost)
        assert (isinstance(status, LeaseLost), len(got)) == (True, claimed)

    def test_for_no_more_jobs_only_hands_in(self) -> None:
        farm.kind()
        me = farm.worker()
        farm.submit(2)
        [status], got = operations.finish_and_claim(me, _done(farm.claim_one(me)), limit=0)
        assert (status, got, _states()) == ("success", [], ["success", "pending"])
