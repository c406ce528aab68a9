"""What one round of the janitor does, and when it wants to be woken."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now
from pytest_django import Settings

from jobs import operations
from jobs.models import Attempt, Job
from tests import farm

pytestmark = pytest.mark.django_db


class TestASweep:
    def test_of_an_idle_farm_finds_nothing_and_sees_nothing_coming(self) -> None:
        assert operations.sweep() == operations.Sweep(taken_back=0, expired=0, next_in_s=None)

    def test_says_what_it_did(self) -> None:
        farm.kind(retry_on_timeout=True)
        me, _ = farm.worker("me"), farm.worker("other")
        silent, overran, failed, waiting, fine = farm.submit(5)
        for claimed in operations.claim(me, limit=3):
            if claimed.id == failed.pk:
                farm.fail(me, claimed)
        farm.expire_lease(silent)
        farm.alter(overran, deadline_at=Now() - timedelta(seconds=1), confirmed_fence=1)
        farm.alter(waiting, expires_at=Now() - timedelta(seconds=1))
        before = farm.everything(fine)

        sweep = operations.sweep()

        assert (sweep.taken_back, sweep.expired) == (2, 1)
        assert sorted(Attempt.objects.values_list("job_id", "outcome")) == [
            (silent.pk, "lost"), (overran.pk, "timed_out"), (failed.pk, "failed"),
        ]  # fmt: skip
        assert Job.objects.get(pk=waiting.pk).ended_at is not None
        assert farm.status(waiting) == "timed_out"
        assert farm.everything(fine) == before

    def test_leaves_a_running_job_alone_whose_wait_would_be_over(self) -> None:
        farm.kind(expires_s=60)
        [job] = farm.submit(1)
        farm.claim_one(farm.worker())
        farm.alter(job, expires_at=Now() - timedelta(seconds=1))
        assert (operations.sweep().expired, farm.status(job)) == (0, "in_progress")

    def test_handles_more_than_one_batch(self) -> None:
        farm.kind()
        farm.submit(450)
        me = farm.worker()
        operations.claim(me, limit=450)
        farm.alter(Job.objects.all(), lease_expires_at="2001-01-01T00:00:00Z", confirmed_fence=1)
        assert operations.sweep().taken_back == 450
        assert Attempt.objects.filter(outcome="lost").count() == 450


class TestTheNextWake:
    @pytest.fixture(autouse=True)
    def _lease(self, settings: Settings) -> None:
        settings.JOBFARM = {**settings.JOBFARM, "LEASE_S": 1500.0, "HEARTBEAT_S": 500.0}

    def _next(self) -> float:
        seconds = operations.sweep().next_in_s
        assert seconds is not None
        return seconds

    def test_is_the_first_lease_to_run_out(self) -> None:
        farm.kind()
        first, second = farm.submit(2)
        operations.claim(farm.worker(), limit=2)
        farm.pass_time(second, 200)
        assert 290 < self._next() <= 300
        assert 490 < (Job.objects.get(pk=first.pk).lease_expires_at - farm.now()).total_seconds() <= 500  # type: ignore[operator]

    def test_is_the_deadline_where_that_comes_before_the_lease(self) -> None:
        farm.kind(timeout_s=100)
        farm.submit(1)
        farm.claim_one(farm.worker())
        assert 90 < self._next() <= 100

    def test_is_when_a_waiting_job_expires(self) -> None:
        farm.kind(expires_s=100)
        farm.submit(1)
        assert 90 < self._next() <= 100

    def test_is_not_a_job_that_waits_for_ever(self) -> None:
        farm.kind()
        farm.submit(1)
        assert operations.sweep().next_in_s is None
