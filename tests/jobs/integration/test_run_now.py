"""A job that is due later is made to run now."""

from datetime import timedelta

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group

from jobs import operations
from jobs.errors import NotAllowed, NotFound, NotWaiting, WaitsForLimit
from jobs.models import Job
from tests import farm

pytestmark = pytest.mark.django_db
LATER = timedelta(hours=2)


class TestRunNow:
    def test_makes_a_job_that_is_due_later_due_now_and_says_who_did(self) -> None:
        farm.kind()
        ada, me = farm.user("ada"), farm.worker()
        [job] = farm.submit(1, owner=ada, run_at=farm.now() + LATER)
        assert operations.claim(me) == []
        assert operations.run_now(job.pk, by=ada).run_at <= farm.now()
        assert farm.claim_one(me).id == job.pk
        [line] = LogEntry.objects.all()
        assert (line.user, line.object_id, line.change_message) == (ada, str(job.pk), "run now")

    def test_leaves_one_that_is_due_as_it_is(self) -> None:
        farm.kind()
        ada = farm.user("ada")
        [job] = farm.submit(1, owner=ada)
        before = farm.everything(job)
        assert operations.run_now(job.pk, by=ada).run_at == job.run_at
        assert (farm.everything(job), LogEntry.objects.count()) == (before, 0)

    def test_refuses_one_whose_tokens_have_not_come_in(self) -> None:
        farm.kind()
        at = farm.now() + LATER
        [job] = farm.submit(1, run_at=at)
        Job.objects.filter(pk=job.pk).update(limit_name="llm", limit_count=1, limit_until=at)
        with pytest.raises(WaitsForLimit) as refused:
            operations.run_now(job.pk, by=None)
        assert "limit llm" in refused.value.message
        assert Job.objects.get(pk=job.pk).run_at == at

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
            operations.run_now(job.pk, by=None)
        assert farm.everything(job) == before

    def test_is_for_its_owner_and_for_who_operates_all_jobs(self) -> None:
        farm.kind()
        club = Group.objects.create(name="club")
        ada, bob, eve = farm.user("ada", groups=[club]), farm.user("bob", groups=[club]), farm.user("eve")
        root = farm.user("root", is_staff=True, is_superuser=True)
        [job] = farm.submit(1, owner=ada, group=club, run_at=farm.now() + LATER)
        with pytest.raises(NotAllowed):
            operations.run_now(job.pk, by=bob)
        with pytest.raises(NotFound):
            operations.run_now(job.pk, by=eve)
        assert Job.objects.get(pk=job.pk).run_at == job.run_at
        operations.run_now(job.pk, by=root)
        assert Job.objects.get(pk=job.pk).run_at < job.run_at
