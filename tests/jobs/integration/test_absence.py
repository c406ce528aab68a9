"""Time in which the farm itself heard nobody is not held against a lease (promise 5)."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from jobs import operations
from jobs.models import Job, Reachability
from jobs.queries import reads
from tests import farm

pytestmark = pytest.mark.django_db


def _hears(*, since_s: float, until_s: float) -> None:
    """The farm hears since so many seconds ago, and noted that last so many seconds ago."""
    Reachability.objects.update_or_create(
        id=1, defaults={"since": Now() - timedelta(seconds=since_s), "until": Now() - timedelta(seconds=until_s)}
    )


def _lost_job() -> Job:
    farm.kind()
    [job] = farm.submit(1)
    farm.expire_lease(farm.claim_one(farm.worker()))
    return job


class TestALeaseThatRanOut:
    @pytest.mark.parametrize(
        ("since_s", "until_s", "taken_back"),
        [(3600, 0, 1), (3600, 19, 1), (3600, 21, 0), (24, 0, 0), (26, 0, 1), (26, 67, 0)],
        ids=["steady", "a note is late", "frozen", "just back", "back for a while", "gone again"],
    )
    def test_is_taken_back_only_if_the_farm_could_hear(self, since_s: float, until_s: float, taken_back: int) -> None:
        job = _lost_job()
        _hears(since_s=since_s, until_s=until_s)
        assert operations.sweep().taken_back == taken_back
        assert farm.status(job) == ("pending" if taken_back else "in_progress")

    def test_is_renewed_by_whoever_is_heard_first_after_an_absence(self) -> None:
        farm.kind()
        farm.submit(1)
        me = farm.worker()
        taken = farm.claim_one(me)
        farm.expire_lease(taken)
        _hears(since_s=1, until_s=0)
        operations.heartbeat(me, taken.id, taken.lease)
        _hears(since_s=30, until_s=0)
        assert operations.sweep().taken_back == 0
        assert farm.succeed(me, taken) == "success"

    def test_holds_for_runs_that_took_too_long_and_leases_that_nobody_confirmed(self) -> None:
        farm.kind(timeout_s=100)
        farm.submit(2)
        me = farm.worker()
        for taken in operations.claim(me, limit=2):
            farm.pass_time(taken, 101)
        _hears(since_s=10, until_s=0)
        assert operations.sweep().taken_back == 0
        _hears(since_s=26, until_s=0)
        assert operations.sweep().taken_back == 2

    def test_wakes_the_janitor_when_the_grace_is_over(self) -> None:
        _lost_job()
        _hears(since_s=5, until_s=0)
        seconds = operations.sweep().next_in_s
        assert seconds is not None
        assert 10 < seconds <= 20

    def test_is_looked_at_again_in_a_second_while_the_farm_is_away(self) -> None:
        _lost_job()
        _hears(since_s=600, until_s=60)
        seconds = operations.sweep().next_in_s
        assert seconds is not None
        assert 0.5 < seconds <= 1

    def test_is_not_overdue_to_the_doctor_before_it_is_to_the_janitor(self) -> None:
        _lost_job()
        overdue = []
        for since_s, until_s in ((600, 60), (24, 0), (26, 0)):
            _hears(since_s=since_s, until_s=until_s)
            overdue.append(reads.overdue_s() > 0)
        assert overdue == [False, False, True]

    def test_does_not_hold_up_jobs_that_waited_too_long(self) -> None:
        farm.kind(expires_s=10)
        [job] = farm.submit(1)
        farm.pass_time(job, 11)
        _hears(since_s=600, until_s=60)
        assert operations.sweep().expired == 1
