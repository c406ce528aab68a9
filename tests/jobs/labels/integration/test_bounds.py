"""Different sets of conditions cost every claim, so they are bounded: by what lives, and for each owner."""

from typing import Any

import pytest
from django.conf import LazySettings
from django.contrib.auth.models import User

from jobfarm import job_health
from jobs import operations
from jobs.errors import TooManyRequirements
from jobs.models import Job, Requirement
from jobs.queries import requirements
from tests import farm
from tests.jobs.labels import sample
from tests.jobs.labels.sample import labelled

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _few(settings: LazySettings) -> None:
    """Three sets of each owner, five of all."""
    settings.JOBFARM = settings.JOBFARM | {"REQUIREMENTS_PER_OWNER": 3, "REQUIREMENTS_IN_ALL": 5}
    farm.kind()


@pytest.fixture
def ada() -> User:
    return farm.user()


@pytest.fixture
def boss() -> User:
    return farm.user("boss", is_staff=True, is_superuser=True)


def _jobs(owner: User, *vram: int, **options: Any) -> list[Job]:
    return [sample.job({"vram": number}, owner=owner, **options) for number in vram]


class TestAMember:
    def test_has_a_bound_and_leaves_room_for_others(self, ada: User) -> None:
        _jobs(ada, 1, 2, 3)
        with pytest.raises(TooManyRequirements) as refusal:
            _jobs(ada, 4)
        assert (refusal.value.numbers["of"], refusal.value.numbers["quota"]) == ("owner", 3)
        assert "different sets of conditions on labels" in refusal.value.message
        _jobs(ada, 3)  # one of those
        _jobs(farm.user("bob"), 4, 5)
        assert requirements.count() == 5

    def test_is_counted_for_sets_that_others_made_first(self, ada: User) -> None:
        _jobs(farm.user("bob"), 1, 2, 3)
        _jobs(ada, 1, 2, 4)
        with pytest.raises(TooManyRequirements):
            _jobs(ada, 3)

    def test_is_refused_in_a_bulk_before_anything_is_stored(self, ada: User) -> None:
        new = [operations.NewJob(kind="work", payload=0, owner=ada, requires={"vram": n}) for n in range(4)]
        with pytest.raises(TooManyRequirements):
            operations.submit_many(new)
        assert (Job.objects.count(), requirements.count()) == (0, 0)

    def test_has_room_again_once_jobs_ended(self, ada: User) -> None:
        old = _jobs(ada, 1, 2, 3)
        _jobs(farm.user("bob"), 4, 5)
        with pytest.raises(TooManyRequirements):
            _jobs(farm.user("cyd"), 6)  # in all
        operations.cancel(old[0].pk, by=None)
        _jobs(ada, 6)
        assert requirements.count() == 5
        assert farm.stored(old[0]).requirement.requires == {"vram": "1"}


class TestNeverRefused:
    def test_are_the_sets_of_operators_of_the_site_and_of_kinds(self, ada: User, boss: User) -> None:
        _jobs(ada, 1, 2, 3)
        _jobs(boss, 4, 5, 6, 7)
        sample.job({"vram": 8})
        farm.kind("render", requires={"vram": "33"})
        job = operations.submit("render", {}, owner=ada)
        assert farm.stored(job).requirement.requires == {"vram": "33"}
        with pytest.raises(TooManyRequirements):
            operations.submit("render", {}, owner=ada, requires={"vram": 34})
        with pytest.raises(TooManyRequirements):
            _jobs(farm.user("bob"), 9)


class TestWhatNoLivingJobHas:
    def test_is_passed_over_by_claims_and_kept_for_the_ended(self, ada: User) -> None:
        worker = labelled("big", vram="24")
        job = sample.job({"vram": 24}, {"region": "home"}, owner=ada)
        farm.pass_time(job, 60)
        number = job.requirement_id
        farm.succeed(worker, farm.claim_one(worker))
        assert operations.forget_requirements() == 2  # and what it was built on
        assert operations.forget_requirements() == 0
        assert (requirements.count(), farm.stored_worker(worker).satisfies) == (0, [])
        again = operations.retry(job.pk, by=None)
        assert again.requirement_id != number
        farm.pass_time(again, 60)
        assert farm.claim_one(farm.stored_worker(worker)).id == again.pk

    def test_is_what_waits_and_runs_not(self, ada: User) -> None:
        worker = labelled("big", vram="24")
        sample.job({"vram": 24}, owner=ada)
        farm.claim_one(worker)
        sample.job({"vram": 25}, owner=ada)
        assert operations.forget_requirements() == 0

    def test_is_deleted_with_its_last_job(self, ada: User, settings: LazySettings) -> None:
        settings.JOBFARM = settings.JOBFARM | {"RETENTION_DAYS": 0}
        [job] = _jobs(ada, 1)
        operations.cancel(job.pk, by=None)
        operations.forget_requirements()
        assert Requirement.objects.count() == 1
        assert farm.retain() == 1
        assert Requirement.objects.count() == 0


class TestTheDoctor:
    def test_warns_when_they_are_nearly_full(self, ada: User, boss: User) -> None:
        _jobs(ada, 1)
        _jobs(boss, 2, 3, 4)
        assert list(job_health.requirement_sets()) == []
        _jobs(boss, 5)
        [finding] = job_health.requirement_sets()
        assert finding.sentence.startswith("Requirement sets nearly full: jobs that wait or run have 5 ")
        assert finding.remedy.startswith("Those of boss have 4 of them.")
