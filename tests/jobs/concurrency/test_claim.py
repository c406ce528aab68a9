"""Many claimers at once: every job goes to one worker, and none is left behind."""

import collections
from collections.abc import Iterable
from functools import partial

import pytest
from django.conf import LazySettings
from django.contrib.auth.models import Group
from django.db import connection, transaction

from jobs import operations
from jobs.models import Job, Live, Worker
from tests import farm

pytestmark = pytest.mark.django_db(transaction=True)


def _drain(worker: Worker, *, limit: int) -> list[int]:
    """Claim until there is nothing more for this worker; the ids it got."""
    mine: list[int] = []
    while claimed := operations.claim(worker, limit=limit):
        mine.extend(job.id for job in claimed)
    return mine


def _together(claims: Iterable[list[int]]) -> list[int]:
    return [job_id for mine in claims for job_id in mine]


class TestSixteenClaimers:
    @pytest.mark.parametrize("limit", [1, 20])
    def test_and_two_thousand_jobs_each_claimed_once(self, limit: int) -> None:
        farm.kind()
        jobs = {job.pk for job in farm.submit(2000)}
        workers = [farm.worker(f"w{n}") for n in range(16)]

        got = farm.at_once(*(partial(_drain, worker, limit=limit) for worker in workers))

        assert collections.Counter(_together(got)) == dict.fromkeys(jobs, 1)
        held = [(job.worker_id, job.pk) for job in Job.objects.running() if job.fence == 1]
        assert sorted(held) == sorted((w.pk, job) for w, mine in zip(workers, got, strict=True) for job in mine)
        assert len({job.lease_secret for job in Job.objects.all()}) == 2000

    def test_of_which_some_failed_half_the_jobs_and_some_are_members(self, settings: LazySettings) -> None:
        settings.JOBFARM = settings.JOBFARM | {"EXCLUSION_S": 3600.0}
        farm.kind()
        club = Group.objects.create(name="club")
        ada, bob = farm.user("ada", groups=[club]), farm.user("bob", groups=[club])
        workers = [farm.worker(f"w{n}") for n in range(10)]
        hers = [farm.worker(f"ada{n}", owner=ada) for n in range(3)]
        his = [farm.worker(f"bob{n}", owner=bob) for n in range(3)]
        of_ada = {job.pk for job in farm.submit(300, owner=ada)}
        of_club = {job.pk for job in farm.submit(300, owner=ada, group=club)}
        of_all = {job.pk for job in farm.submit(1400)}
        for n in range(5):  # worker n failed every job whose number ends in n
            failed = [pk for pk in of_ada | of_club | of_all if pk % 10 == n]
            farm.avoid(Job.objects.filter(pk__in=failed), workers[n])

        everybody = [*workers, *hers, *his]
        got = farm.at_once(*(partial(_drain, worker, limit=1 + n % 4) for n, worker in enumerate(everybody)))

        assert collections.Counter(_together(got)) == dict.fromkeys(of_ada | of_club | of_all, 1)
        for n in range(5):
            assert not [pk for pk in got[n] if pk % 10 == n]
        assert set(_together(got[10:13])) <= of_ada | of_club
        assert set(_together(got[13:])) <= of_club

    def test_with_a_queue_that_fills_up_while_they_claim(self) -> None:
        farm.kind()
        workers = [farm.worker(f"w{n}") for n in range(8)]

        def submit_slowly() -> list[int]:
            return [job.pk for _ in range(40) for job in farm.submit(10)]

        def drain(worker: Worker) -> list[int]:
            mine: list[int] = []
            while Live.objects.filter(fence=0).exists() or Job.objects.count() < 400:
                mine.extend(job.id for job in operations.claim(worker, limit=3))
            return mine

        submitted, *got = farm.at_once(submit_slowly, *(partial(drain, worker) for worker in workers))
        assert sorted(_together(got)) == sorted(submitted)


class TestStealing:
    def test_by_eight_idle_workers_takes_each_job_once_and_one_claim_each(self) -> None:
        farm.kind("home")
        farm.kind("away")
        farm.submit(20, "away")
        thieves = [farm.worker(f"w{n}", "home", steals=["*"]) for n in range(8)]
        got = farm.at_once(*(partial(operations.claim, thief, limit=2) for thief in thieves))
        stolen = [job.id for mine in got for job in mine]
        assert (len(stolen), len(set(stolen))) == (16, 16)
        assert [operations.claim(thief, limit=2) for thief in thieves] == [[]] * 8


class TestAClaimThatHasNotCommitted:
    @pytest.mark.parametrize("owned", [False, True], ids=["for everybody", "for a member"])
    def test_is_passed_by_without_waiting(self, owned: bool) -> None:
        farm.kind()
        ada = farm.user("ada") if owned else None
        jobs = [job.pk for job in farm.submit(3, owner=ada)]
        me, other = farm.worker("me", owner=ada), farm.worker("other", owner=ada)

        def claim_or_fail() -> list[int]:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute("SET LOCAL lock_timeout = '5s'")
                return [job.id for job in operations.claim(other, limit=3)]

        with transaction.atomic():
            mine = farm.claim_one(me).id
            [theirs] = farm.at_once(claim_or_fail)
        assert [mine, *theirs] == jobs

    def test_and_has_the_last_slot_of_a_queue_lets_others_go_on_to_the_next(self) -> None:
        farm.kind("full")
        farm.kind("free")
        farm.submit(2, "full")
        farm.submit(2, "free")
        operations.set_ceiling("full", 1)
        me, other = farm.worker("me", "full", "free"), farm.worker("other", "full", "free")
        with transaction.atomic():
            assert farm.claim_one(me).queue == "full"
            [theirs] = farm.at_once(partial(operations.claim, other))
        assert [job.queue for job in theirs] == ["free"]
