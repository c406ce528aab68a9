"""A job that the farm lets prefer a worker: who gets it, until when, and what that costs everybody else."""

from datetime import timedelta
from typing import Any

import pytest
from django.conf import LazySettings
from django.db.models import F

from jobs import operations
from jobs.domain import labels
from jobs.domain.labels import WORKER
from jobs.errors import InvalidValue
from jobs.models import Job, Requirement, Worker
from jobs.protocol import jobs as protocol
from jobs.queries import reads, requirements
from tests import farm
from tests.jobs.labels import sample

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _kind() -> None:
    farm.kind()


@pytest.fixture
def preferred() -> Worker:
    return sample.labelled("preferred")


@pytest.fixture
def other() -> Worker:
    return sample.labelled("other")


def _job(worker: Worker, **options: Any) -> Job:
    return operations.submit("work", {}, prefers_worker=worker.pk, **options)


def _ago(worker: Worker, **ago: float) -> None:
    Worker.objects.filter(pk=worker.pk).update(last_seen_at=F("last_seen_at") - timedelta(**ago))


class TestAPreferredWorker:
    def test_gets_it_first_and_any_other_after_a_head_start(self, preferred: Worker, other: Worker) -> None:
        first, second = _job(preferred), _job(preferred)
        assert operations.claim(other, limit=2) == []
        assert farm.claim_one(preferred).id == first.pk
        farm.pass_time(second, 2.1)
        assert farm.claim_one(other).id == second.pk

    def test_is_found_by_its_id_whatever_others_are_called(self, preferred: Worker) -> None:
        namesake = sample.labelled("preferred", id=str(preferred.pk))
        _job(preferred)
        assert operations.claim(namesake) == []

    @pytest.mark.parametrize("how", ["drained", "away", "revoked"])
    def test_holds_nobody_back_that_takes_nothing(self, preferred: Worker, other: Worker, how: str) -> None:
        job = _job(preferred)
        if how == "drained":
            operations.drain(preferred)
        elif how == "away":
            _ago(preferred, minutes=10)
        else:
            operations.revoke(preferred)
        assert farm.claim_one(other).id == job.pk

    def test_loses_it_to_another_when_it_dies_with_it(self, preferred: Worker, other: Worker) -> None:
        job = _job(preferred, max_attempts=2)
        farm.lose(farm.claim_one(preferred))
        farm.pass_time(job, 2.1)
        assert farm.claim_one(other).id == job.pk

    def test_gives_way_to_what_the_job_itself_wants(self, preferred: Worker, other: Worker) -> None:
        wanted = sample.labelled("wanted", vram="24")
        job = _job(preferred, requires={"vram": ">=16"})
        assert operations.claim(preferred) == []
        assert farm.claim_one(wanted).id == job.pk

    def test_that_lacks_what_its_kind_requires_holds_nobody_back(self, preferred: Worker) -> None:
        farm.kind("render", queue="work", requires={"vram": ">=16"})
        big = sample.labelled("big", vram="24")
        job = operations.submit("render", {}, prefers_worker=preferred.pk)
        assert operations.claim(preferred) == []
        assert farm.claim_one(big).id == job.pk

    def test_is_named_with_how_long_for(self, preferred: Worker, other: Worker) -> None:
        job = _job(preferred)
        [reason] = reads.why_not_running(job.pk)
        assert reason.code == "head_start"
        assert reason.sentence.startswith("It prefers the worker preferred, which has its beginning, for ")
        assert reason.numbers.keys() == {"worker", "seconds"}
        farm.pass_time(job, 2.1)
        assert [reason.code for reason in reads.why_not_running(job.pk)] == ["next"]
        drained = _job(preferred)
        operations.drain(preferred)
        assert "head_start" not in {reason.code for reason in reads.why_not_running(drained.pk)}


class TestWhatPeopleWrite:
    def test_never_names_a_worker(self, preferred: Worker) -> None:
        named = {WORKER: str(preferred.pk)}
        for requires, prefers in ((named, None), (None, named)):
            with pytest.raises(InvalidValue):
                sample.job(requires, prefers)
        with pytest.raises(InvalidValue):
            labels.checked_labels({WORKER: "1"})
        with pytest.raises(InvalidValue):
            operations.set_labels(preferred, {WORKER: "1"}, by=None)

    def test_does_not_see_which_worker_a_job_prefers_among_its_conditions(self, preferred: Worker) -> None:
        job = _job(preferred)
        assert protocol.listed([job.pk])[0].prefers == {}

    def test_is_all_that_a_job_like_it_has(self, preferred: Worker) -> None:
        ada = farm.user()
        job = _job(preferred, owner=ada)
        assert operations.clone(job.pk, by=ada).requirement_id is None
        operations.cancel(job.pk, by=None)
        assert operations.retry(job.pk, by=None).requirement_id is None


class TestSetsThatPreferAWorker:
    def test_are_counted_neither_in_all_nor_for_an_owner(
        self, preferred: Worker, other: Worker, settings: LazySettings
    ) -> None:
        settings.JOBFARM = settings.JOBFARM | {"REQUIREMENTS_PER_OWNER": 1, "REQUIREMENTS_IN_ALL": 2}
        ada = farm.user()
        for worker in (preferred, other):
            _job(worker, owner=ada)
        assert (requirements.count(), requirements.most_by()) == (0, None)
        sample.job({"vram": 1}, owner=ada)
        sample.job({"vram": 2}, owner=farm.user("bob"))
        _job(sample.labelled("third"), owner=ada)
        assert (requirements.count(), requirements.most_by()) == (2, ("ada", 1))

    def test_are_as_many_as_workers_and_stay_while_these_are_there(self, preferred: Worker, other: Worker) -> None:
        for _ in range(3):
            for worker in (preferred, other):
                operations.cancel(_job(worker).pk, by=None)
            assert operations.forget_requirements() == 0
        assert Requirement.objects.count() == 2
        _ago(preferred, hours=2)
        operations.revoke(other)
        assert operations.forget_requirements() == 2
        assert Requirement.objects.filter(retired_at=None).count() == 0

    def test_stay_satisfied_when_labels_change(self, preferred: Worker) -> None:
        _job(preferred)
        before = farm.stored_worker(preferred).satisfies
        assert before != []
        assert sample.announce(preferred, vram="24").satisfies == before
