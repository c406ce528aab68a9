"""Claiming: who gets what, and in which order."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group

from jobs import operations
from jobs.errors import QueueNotAllowed, UnknownQueue
from jobs.models import Job, Worker
from jobs.protocol.answers import Claimed
from tests import farm

pytestmark = pytest.mark.django_db


class TestClaim:
    def test_gives_the_job_with_its_payload_and_a_lease(self) -> None:
        farm.kind()
        [job] = farm.submit(1)
        me = farm.worker()

        claimed = farm.claim_one(me)

        job.refresh_from_db()
        assert (claimed.id, claimed.kind, claimed.queue, claimed.payload, claimed.attempt) == (
            job.pk, "work", "work", {"n": 0}, 1,
        )  # fmt: skip
        assert (job.status, job.worker_id, job.worker_name, job.fence) == ("in_progress", me.pk, "w1", 1)
        assert (claimed.lease.secret, claimed.lease_expires_at) == (job.lease_secret, job.lease_expires_at)

    @pytest.mark.parametrize("is_scoped", [False, True])
    def test_says_of_a_job_whether_its_queue_has_a_ceiling_also_when_it_is_repeated(self, is_scoped: bool) -> None:
        owner = farm.user() if is_scoped else None
        for name in ("wide", "narrow"):
            farm.kind(name)
            farm.submit(2, name, owner=owner)
        operations.set_ceiling("narrow", 1)
        me = farm.worker("w1", "wide", "narrow", owner=owner)
        expected = [("wide", False), ("wide", False), ("narrow", True)]
        for _ in range(2):
            claimed = operations.claim(me, limit=4, request_id="once")
            assert [(one.queue, one.has_ceiling) for one in claimed] == expected
            answered = Claimed(jobs=claimed, drained=False).model_dump(mode="json")["jobs"]
            assert [one.get("has_ceiling") for one in answered] == [None, None, True]

    def test_gives_two_workers_two_jobs(self) -> None:
        farm.kind()
        farm.submit(2)
        assert farm.claim_one(farm.worker("a")).id != farm.claim_one(farm.worker("b")).id

    def test_gives_nothing_when_there_is_nothing(self) -> None:
        farm.kind()
        assert operations.claim(farm.worker(), limit=5) == []

    def test_goes_by_priority_and_then_by_due_time(self) -> None:
        farm.kind()
        [late] = farm.submit(1)
        [urgent] = farm.submit(1, priority=5)
        [early] = farm.submit(1)
        farm.pass_time(early, 60)
        me = farm.worker()

        assert [job.id for job in operations.claim(me, limit=9)] == [urgent.pk, early.pk, late.pk]

    def test_serves_the_home_queues_in_their_order(self) -> None:
        farm.kind("first")
        farm.kind("second")
        [second] = farm.submit(1, "second", priority=100)
        [first] = farm.submit(1, "first")
        me = farm.worker("me", "first", "second")

        assert [job.id for job in operations.claim(me, limit=2)] == [first.pk, second.pk]

    def test_steals_only_when_its_own_queues_are_empty_and_it_holds_nothing(self) -> None:
        farm.kind("home")
        farm.kind("away")
        farm.submit(2, "home")
        farm.submit(2, "away")
        me = farm.worker("me", "home", steals=["away"])

        mine = operations.claim(me, limit=10)
        assert [job.queue for job in mine] == ["home", "home"]
        assert operations.claim(me, limit=10) == []
        for job in mine:
            farm.succeed(me, job)
        assert [job.queue for job in operations.claim(me, limit=10)] == ["away", "away"]

    def test_steals_from_every_queue_with_a_star(self) -> None:
        farm.kind("home")
        farm.kind("away")
        farm.submit(1, "away")
        assert farm.claim_one(farm.worker("me", "home", steals=["*"])).queue == "away"

    def test_takes_from_the_queues_asked_for_in_that_order(self) -> None:
        farm.kind("first")
        farm.kind("second")
        farm.submit(1, "first")
        farm.submit(1, "second")
        me = farm.worker("me", "first", "second")
        assert [job.queue for job in operations.claim(me, queues=["second", "first"], limit=2)] == ["second", "first"]

    def test_refuses_a_queue_nobody_named_and_one_it_may_not_take_from(self) -> None:
        farm.kind("other")
        me = farm.worker("me", "home")
        with pytest.raises(UnknownQueue):
            operations.claim(me, queues=["nowhere"])
        with pytest.raises(QueueNotAllowed):
            operations.claim(me, queues=["other"])

    def test_skips_a_paused_queue_and_what_is_not_due_or_has_expired(self) -> None:
        farm.kind("paused")
        farm.kind("work", expires_s=10)
        farm.submit(1, "paused")
        operations.pause("paused")
        [expired] = farm.submit(1)
        farm.pass_time(expired, 11)
        [later] = farm.submit(1)
        farm.pass_time(later, -60)
        me = farm.worker("me", "paused", "work")

        assert operations.claim(me, limit=9) == []
        operations.resume("paused")
        assert [job.queue for job in operations.claim(me, limit=9)] == ["paused"]

    def test_stops_at_the_ceiling_of_a_queue_and_goes_on_to_the_next(self) -> None:
        farm.kind("narrow")
        farm.kind("wide")
        farm.submit(3, "narrow")
        farm.submit(3, "wide")
        operations.set_ceiling("narrow", 2)
        me = farm.worker("me", "narrow", "wide")

        claimed = operations.claim(me, limit=10)
        assert [job.queue for job in claimed] == ["narrow", "narrow", "wide", "wide", "wide"]
        assert operations.claim(me, limit=10) == []
        farm.succeed(me, claimed[0])
        assert [job.queue for job in operations.claim(me, limit=10)] == ["narrow"]


class TestScope:
    def test_a_members_worker_serves_that_member_and_the_groups_the_member_is_in(self) -> None:
        farm.kind()
        club, other_club = Group.objects.create(name="club"), Group.objects.create(name="other")
        ada, bob = farm.user("ada", groups=[club]), farm.user("bob", groups=[club, other_club])
        [of_bob] = farm.submit(1, owner=bob)
        [of_other] = farm.submit(1, owner=bob, group=other_club)
        [of_club] = farm.submit(1, owner=bob, group=club)
        [own] = farm.submit(1, owner=ada)
        [both] = farm.submit(1, owner=ada, group=club)
        [farms] = farm.submit(1)

        hers = {job.id for job in operations.claim(farm.worker("hers", owner=ada), limit=10)}
        rest = {job.id for job in operations.claim(farm.worker("all"), limit=10)}

        assert hers == {of_club.pk, own.pk, both.pk}
        assert rest == {of_bob.pk, of_other.pk, farms.pk}

    def test_a_members_worker_takes_nothing_of_a_group_that_is_not_theirs(self) -> None:
        farm.kind()
        hers = farm.worker("hers", owner=farm.user("ada"))  # from now on jobs wait in lanes of their owners and groups
        club = Group.objects.create(name="of bob")
        farm.submit(1, owner=farm.user("bob", groups=[club]), group=club)
        assert operations.claim(hers) == []

    def test_a_job_keeps_its_place_although_ten_thousand_others_are_out_of_scope(self) -> None:
        farm.kind()
        ada, bob = farm.user("ada"), farm.user("bob")
        farm.submit(200, owner=bob, priority=10)
        [own] = farm.submit(1, owner=ada)
        assert farm.claim_one(farm.worker("hers", owner=ada)).id == own.pk
        assert Job.objects.running().count() == 1


class TestLanes:
    """What other workers are to avoid waits in lanes of its own; which goes first is decided by what would be had."""

    def _avoided(self, by: Worker, *, ago_s: float = 0.0, **options: Any) -> Job:
        [job] = farm.submit(1, **options)
        farm.avoid([job], by, ago_s=ago_s)
        return job

    def test_are_not_led_by_a_job_that_has_expired(self) -> None:
        farm.kind()
        me, other = farm.worker("me"), farm.worker("other")
        farm.submit(1, priority=10, expires_at=farm.now() - timedelta(seconds=1))
        farm.submit(1, priority=0)
        urgent = self._avoided(other, priority=5)
        assert farm.claim_one(me).id == urgent.pk

    @pytest.mark.parametrize("scoped", [False, True])
    def test_of_one_priority_are_served_by_since_when_they_wait(self, scoped: bool) -> None:
        farm.kind()
        ada = farm.user("ada")
        me = farm.worker("me", owner=ada if scoped else None)
        others = [farm.worker(f"other{n}") for n in range(4)]
        jobs = [self._avoided(other, owner=ada, ago_s=n) for n, other in enumerate(others)]
        assert [farm.claim_one(me).id for _ in jobs] == [job.pk for job in reversed(jobs)]
