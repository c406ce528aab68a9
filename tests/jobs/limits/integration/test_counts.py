"""A job that says itself how many tokens of its kind's limit it takes."""

from typing import Any

import pytest

from jobs import operations
from jobs.errors import InvalidValue
from jobs.models import Job
from ratelimits.errors import CountExceedsLimit
from tests import farm
from tests.jobs.limits.integration import sample
from tests.jobs.limits.integration.sample import NO_DEBT, SLOW, TEN, left, used, waits_s

pytestmark = pytest.mark.django_db(transaction=True)


class TestLimitCount:
    def test_takes_the_place_of_the_kinds_own_number(self) -> None:
        sample.kind(limit=SLOW, limit_count=2)
        jobs = [operations.submit("work", {}, limit_count=count) for count in (0.5, None, 6.0)]
        assert [job.limit_count for job in jobs] == [0.5, 2.0, 6.0]
        assert used(SLOW) == {"": 8.5}

    def test_of_each_job_of_a_bulk_says_how_long_the_next_one_waits(self) -> None:
        sample.kind(limit=TEN)  # ten a minute
        new = [operations.NewJob(kind="work", payload={}, limit_count=count) for count in (10, 5, 20, 1)]
        jobs = farm.stored_jobs(operations.submit_many(new))
        waits = waits_s(jobs)
        for wait, plain in zip(waits, (0, 30, 150, 156), strict=True):
            assert plain - 0.01 <= wait <= plain + min(plain / 10, 5) + 0.01

    def test_lets_a_large_request_have_its_turn_before_smaller_ones_that_came_later(self) -> None:
        sample.kind(limit=TEN)
        operations.submit("work", {}, limit_count=10)
        large = operations.submit("work", {}, limit_count=50)
        small = [operations.submit("work", {}, limit_count=1) for _ in range(20)]
        first, *others = waits_s([large, *small])
        assert 300 - 0.1 <= first <= 305.1
        assert min(others) > first

    def test_is_given_back_by_who_cancels_in_time_and_taken_anew_by_who_tries_again(self) -> None:
        sample.kind(limit=SLOW)
        job = operations.submit("work", {}, limit_count=4)
        operations.cancel(job.pk, by=None)
        assert left(SLOW) == 10
        again = operations.retry(job.pk, by=None)
        assert (again.limit_count, left(SLOW)) == (4.0, 6)

    @pytest.mark.parametrize("wrong", [0, -1, float("nan"), float("inf")])
    def test_that_is_no_positive_number_is_refused(self, wrong: Any) -> None:
        sample.kind(limit=SLOW)
        with pytest.raises(InvalidValue, match="limit_count: a positive number"):
            operations.submit("work", {}, limit_count=wrong)
        assert (Job.objects.count(), used(SLOW)) == (0, {})

    def test_of_a_kind_without_a_limit_is_refused(self) -> None:
        farm.kind()
        with pytest.raises(InvalidValue, match="the kind work takes of no limit"):
            operations.submit("work", {}, limit_count=1)

    def test_that_the_limit_never_grants_is_refused(self) -> None:
        sample.kind(limit=NO_DEBT)
        with pytest.raises(CountExceedsLimit):
            operations.submit("work", {}, limit_count=3)
        assert Job.objects.count() == 0
