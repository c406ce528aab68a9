"""A job that ends its worker before a word is said comes back unconfirmed each time: it is found out, and ends."""

import pytest
from django.conf import LazySettings

from core.backoff import Backoff
from jobfarm import job_health
from jobs import operations
from jobs.models import Attempt, Job, Worker
from jobs.queries import reads
from tests import farm

pytestmark = pytest.mark.django_db

A_MINUTE = Backoff(first_s=60, base=2, cap_s=3600)  # spread by half


def _workers(count: int = 3) -> list[Worker]:
    return [farm.worker(f"w{number}") for number in range(count)]


def _vanish(job: Job, by: Worker) -> Job:
    """This worker takes the job, whenever it is due, and is not heard of again; the job after that."""
    farm.make_due(job)
    taken = farm.claim_one(by)
    farm.expire_lease(taken, is_confirmed=False)
    assert operations.sweep().taken_back == 1
    return farm.stored(job)


class TestAJobThatEndsItsWorkers:
    def test_waits_from_the_second_lease_on_and_is_for_another_worker(self) -> None:
        farm.kind(backoff=A_MINUTE)
        [job] = farm.submit(1)
        first, second, third = _workers()
        assert _vanish(job, first).run_at <= farm.now()
        stored = _vanish(job, first)
        assert 20 < (stored.run_at - farm.now()).total_seconds() <= 90
        assert (farm.avoided_by(job), stored.failures, stored.attempt) == ([first.pk], 0, 0)
        farm.make_due(job)
        assert operations.claim(first) == []
        stored = _vanish(job, second)
        assert 50 < (stored.run_at - farm.now()).total_seconds() <= 180
        assert farm.avoided_by(job) == [first.pk, second.pk]
        farm.make_due(job)
        assert farm.claim_one(third).id == job.pk

    def test_is_for_the_same_worker_where_there_is_no_other(self) -> None:
        farm.kind(backoff=A_MINUTE)
        [job] = farm.submit(1)
        [only] = _workers(1)
        _vanish(job, only)
        _vanish(job, only)
        assert farm.avoided_by(job) == []

    def test_is_lost_from_the_fifth_lease_on(self) -> None:
        farm.kind(max_attempts=2, backoff=A_MINUTE)
        [job] = farm.submit(1)
        [only] = _workers(1)
        for count in range(1, 5):
            assert _vanish(job, only).unconfirmed == count
        stored = _vanish(job, only)
        assert (stored.status, stored.failures, stored.attempt) == ("pending", 1, 1)
        stored = _vanish(job, only)
        assert (stored.status, stored.failures, stored.attempt) == ("timed_out", 2, 2)
        outcomes = Attempt.objects.filter(job_id=job.pk).order_by("number").values_list("outcome", "attempt")
        assert list(outcomes) == [("unconfirmed", None)] * 4 + [("lost", 1), ("lost", 2)]
        assert "no call named its lease" in reads.errors([stored])[job.pk]

    def test_ends_with_the_fifth_where_its_kind_is_not_tried_again(self, settings: LazySettings) -> None:
        settings.JOBFARM = settings.JOBFARM | {"UNCONFIRMED_LEASES": 2}
        farm.kind(retry_when_lost=False)
        [job] = farm.submit(1)
        [only] = _workers(1)
        assert _vanish(job, only).status == "pending"
        assert _vanish(job, only).status == "timed_out"

    def test_begins_anew_once_a_worker_speaks(self) -> None:
        farm.kind(backoff=A_MINUTE)
        [job] = farm.submit(1)
        first, second, _ = _workers()
        _vanish(job, first)
        _vanish(job, first)
        farm.make_due(job)
        taken = farm.claim_one(second)
        operations.release(second, taken.id, taken.lease)
        assert farm.stored(job).unconfirmed == 0

    @pytest.mark.parametrize("how", ["success", "failed", "canceled"])
    def test_is_counted_no_more_when_it_ends(self, how: str) -> None:
        farm.kind()
        [job] = farm.submit(1)
        first, second, _ = _workers()
        _vanish(job, first)
        taken = farm.claim_one(second)
        match how:
            case "success":
                farm.succeed(second, taken)
            case "failed":
                farm.fail(second, taken, retryable=False)
            case _:
                operations.cancel(job.pk, by=None)
        assert (farm.stored(job).status, farm.stored(job).unconfirmed) == (how, 0)

    def test_is_not_what_a_worker_gives_back_unbegun(self) -> None:
        farm.kind()
        [job] = farm.submit(1)
        [only] = _workers(1)
        _vanish(job, only)
        for _ in range(5):
            taken = farm.claim_one(only)
            assert operations.withdraw(only, [(taken.id, taken.lease)]) == [job.pk]
        assert (farm.stored(job).unconfirmed, len(farm.history(job))) == (1, 1)

    def test_is_not_given_back_as_unbegun_once_its_worker_has_named_it(self) -> None:
        """A handler may have begun: it would run twice."""
        farm.kind()
        [job] = farm.submit(1)
        [only] = _workers(1)
        taken = farm.claim_one(only)
        operations.heartbeat(only, taken.id, taken.lease)
        assert operations.withdraw(only, [(taken.id, taken.lease)]) == []
        assert farm.status(job) == "in_progress"


class TestItIsNamed:
    def test_by_why_and_the_doctor_from_the_second_lease_on(self) -> None:
        farm.kind(backoff=A_MINUTE)
        [job] = farm.submit(1)
        first, second, _ = _workers()
        _vanish(job, first)
        assert "unconfirmed" not in {reason.code for reason in reads.why_not_running(job.pk)}
        assert list(job_health.unconfirmed()) == []
        _vanish(job, second)
        reasons = reads.why_not_running(job.pk)
        assert [reason.code for reason in reasons] == ["unconfirmed", "not_due"]
        assert reasons[0].numbers == {"leases": 2}
        assert "never called again" in reasons[0].sentence
        [finding] = job_health.unconfirmed()
        assert f"#{job.pk} (work)" in finding.sentence

    def test_no_more_once_a_worker_speaks(self) -> None:
        farm.kind(backoff=A_MINUTE)
        [job] = farm.submit(1)
        first, second, third = _workers()
        _vanish(job, first)
        _vanish(job, second)
        farm.make_due(job)
        taken = farm.claim_one(third)
        [reason] = reads.why_not_running(job.pk)
        assert "never called again" in reason.sentence
        operations.heartbeat(third, taken.id, taken.lease)
        [reason] = reads.why_not_running(job.pk)
        assert "never called again" not in reason.sentence
        assert list(job_health.unconfirmed()) == []
