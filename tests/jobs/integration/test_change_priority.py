"""A job that waits is given another priority."""

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group
from django.core.management import call_command

from jobs import operations
from jobs.errors import InvalidValue, NotAllowed, NotFound, NotWaiting, PriorityNotAllowed
from jobs.models import Job
from tests import farm

pytestmark = pytest.mark.django_db


class TestChangePriority:
    def test_moves_a_job_before_others_and_writes_down_who_did(self) -> None:
        farm.kind()
        root, me = farm.user("root", is_staff=True, is_superuser=True), farm.worker()
        _, second = farm.submit(2)
        assert operations.change_priority(second.pk, 7, by=root).priority == 7
        assert farm.claim_one(me).id == second.pk
        [line] = LogEntry.objects.all()
        assert (line.user, line.object_id) == (root, str(second.pk))
        assert line.change_message == "priority changed from 0 to 7"

    def test_moves_a_job_behind_others(self) -> None:
        farm.kind()
        ada = farm.user("ada")
        first, second = farm.submit(2, owner=ada)
        operations.change_priority(first.pk, -1, by=ada)
        assert farm.claim_one(farm.worker()).id == second.pk

    def test_writes_nothing_where_it_is_so_already(self) -> None:
        farm.kind()
        ada = farm.user("ada")
        [job] = farm.submit(1, owner=ada)
        before = farm.everything(job)
        operations.change_priority(job.pk, 0, by=ada)
        assert (farm.everything(job), LogEntry.objects.count()) == (before, 0)

    def test_refuses_more_than_a_person_may_give(self) -> None:
        farm.kind()
        ada = farm.user("ada")
        [job] = farm.submit(1, owner=ada)
        with pytest.raises(PriorityNotAllowed):
            operations.change_priority(job.pk, 1, by=ada)
        assert Job.objects.get(pk=job.pk).priority == 0
        assert operations.change_priority(job.pk, 1, by=None).priority == 1  # the site itself may

    @pytest.mark.parametrize("priority", [-101, 101])
    def test_refuses_what_is_no_priority(self, priority: int) -> None:
        farm.kind()
        [job] = farm.submit(1)
        with pytest.raises(InvalidValue):
            operations.change_priority(job.pk, priority, by=None)

    @pytest.mark.parametrize("how", ["in_progress", "success", "canceled"])
    def test_refuses_one_that_does_not_wait(self, how: str) -> None:
        farm.kind()
        if how == "in_progress":
            [job] = farm.submit(1)
            farm.claim_one(farm.worker())
        else:
            job = farm.ended(how)
        before = farm.everything(job)
        with pytest.raises(NotWaiting):
            operations.change_priority(job.pk, -1, by=None)
        assert farm.everything(job) == before

    def test_is_for_its_owner_and_for_who_operates_all_jobs(self) -> None:
        farm.kind()
        club = Group.objects.create(name="club")
        ada, bob, eve = farm.user("ada", groups=[club]), farm.user("bob", groups=[club]), farm.user("eve")
        [job] = farm.submit(1, owner=ada, group=club)
        with pytest.raises(NotAllowed):
            operations.change_priority(job.pk, -1, by=bob)
        with pytest.raises(NotFound):
            operations.change_priority(job.pk, -1, by=eve)

    def test_is_a_command_too(self) -> None:
        farm.kind()
        first, second = farm.submit(2)
        call_command("jobs", "priority", str(first.pk), str(second.pk), "--to", "9")
        assert set(Job.objects.values_list("priority", flat=True)) == {9}


class TestClone:
    def test_is_a_job_of_whoever_asks_like_the_other_one(self) -> None:
        farm.kind()
        club = Group.objects.create(name="club")
        ada, bob = farm.user("ada", groups=[club]), farm.user("bob", groups=[club])
        [job] = farm.submit(1, owner=ada, group=club, priority=-3, unique_key="one", max_attempts=9)
        made = operations.clone(job.pk, by=bob)
        assert (made.owner, made.group, made.kind, made.priority) == (bob, club, job.kind, -3)
        assert (made.max_attempts, made.unique_key, made.retry_of) == (9, None, None)
        assert Job.objects.get(pk=made.pk).payload == job.payload

    def test_keeps_to_the_rights_of_whoever_asks(self) -> None:
        farm.kind()
        ada = farm.user("ada")
        [job] = farm.submit(1, owner=ada, priority=5)
        with pytest.raises(PriorityNotAllowed):
            operations.clone(job.pk, by=ada)
        with pytest.raises(NotFound):
            operations.clone(job.pk, by=farm.user("eve"))
        assert Job.objects.count() == 1
