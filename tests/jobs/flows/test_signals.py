"""Jobs that wait for a moment, for a signal, or for jobs of their own for so long at most."""

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from django.db import transaction

from jobs import operations
from jobs.domain.bulks import BulkAction
from jobs.domain.filters import Filters
from jobs.errors import InvalidValue, JobHasEnded, NotAllowed, NotFound, PayloadTooLarge, WaitsForSignal
from jobs.models import Edge, Job, Signal, Suspension, Worker
from jobs.operations import waits
from jobs.queries import reads, waits as queries
from tests import farm
from tests.effort import share
from tests.jobs.flows.test_api import call
from tests.jobs.flows.test_children import child_of, parent_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def worker() -> Worker:
    farm.kind()
    return farm.worker()


def suspend(worker: Worker, job: operations.ClaimedJob, **wait: Any) -> Any:
    """Hand it in as suspended for this; its new status."""
    finished = operations.Finished(job_id=job.id, lease=job.lease, outcome="suspended", wait=operations.Wait(**wait))
    return operations.finish(worker, [finished])[0]


def waiting(worker: Worker, **wait: Any) -> operations.ClaimedJob:
    """A job that waits for the signal "approved", as it was claimed before."""
    job = parent_of(worker)
    assert suspend(worker, job, signal="approved", **wait) == "pending"
    return job


def run_out(job: operations.ClaimedJob) -> None:
    """Let the time of its wait be over, and the janitor come by."""
    assert Suspension.objects.filter(pk=job.id, until__gt=farm.now()).update(until=farm.now()) == 1
    assert operations.sweep().expired == 1


def came(worker: Worker) -> tuple[str | None, Any, bool] | None:
    """What its claim brings of the wait."""
    signal = farm.claim_one(worker).signal
    return None if signal is None else (signal.name, signal.data, signal.timed_out)


class TestASleep:
    def test_is_over_at_its_moment(self, worker: Worker) -> None:
        job = parent_of(worker)
        suspend(worker, job, until=farm.now() + timedelta(hours=1))
        assert reads.why_not_running(job.id)[0].code == "not_due"
        assert operations.claim(worker) == []
        farm.pass_time(Job.objects.get(pk=job.id), 3600)
        again = farm.claim_one(worker)
        assert (again.id, again.attempt, again.signal) == (job.id, 1, None)

    def test_of_a_moment_that_has_passed_is_none(self, worker: Worker) -> None:
        suspend(worker, parent_of(worker), until=farm.now() - timedelta(hours=1))
        assert came(worker) is None


class TestASignal:
    def test_lets_go_who_waits_for_it_and_no_other(self, worker: Worker) -> None:
        job = waiting(worker)
        [reason] = [one for one in reads.why_not_running(job.id) if one.code == "waits_for_signal"]
        assert reason.sentence == "It is suspended until the signal approved comes."
        with pytest.raises(WaitsForSignal):
            operations.run_now(job.id, by=None)
        assert operations.broken_jobs(most=9) == []
        assert operations.signal(job.id, "denied", by=None)
        assert operations.claim(worker) == []
        assert operations.signal(job.id, "approved", {"by": "ada"}, by=None)
        assert operations.broken_jobs(most=9) == []
        assert came(worker) == ("approved", {"by": "ada"}, False)

    def test_is_waited_for_by_a_job_that_many_are_to_run_now_with(self, worker: Worker) -> None:
        ada = farm.user("ada")
        job = parent_of(worker, owner=ada)
        suspend(worker, job, signal="approved")
        later = operations.submit("work", {}, owner=ada, run_at=farm.now() + timedelta(hours=1)).pk
        bulk = operations.bulk.begin(operations.bulk.create(BulkAction.RUN_NOW, by=ada, filters=Filters()).pk, by=ada)
        operations.bulk.step(bulk_id=bulk.pk)
        bulk.refresh_from_db()
        assert bulk.results == {"run now": 1, "wait for their limit, budget, signal or another job": 1}
        assert [one.id for one in operations.claim(worker, limit=9)] == [later]
        operations.signal(job.id, "approved", by=ada)
        assert came(worker) == ("approved", None, False)

    def test_that_came_before_is_kept_for_the_wait_the_first_first(self, worker: Worker) -> None:
        job = parent_of(worker)
        for n in range(2):
            operations.signal(job.id, "approved", n, by=None)
        for n in range(2):
            suspend(worker, job, signal="approved", timeout_s=60)
            job = farm.claim_one(worker)
            assert job.signal is not None
            assert (job.signal.data, job.signal.timed_out) == (n, False)
        suspend(worker, job, signal="approved")
        assert operations.claim(worker) == []

    def test_with_the_same_id_is_one(self, worker: Worker) -> None:
        job = waiting(worker)
        assert [operations.signal(job.id, "approved", n, by=None, key="mail-7") for n in range(3)] == [
            True,
            False,
            False,
        ]
        assert came(worker) == ("approved", 0, False)
        assert Signal.objects.count() == 1

    def test_is_brought_to_each_attempt_until_the_next_wait(self, worker: Worker) -> None:
        job = waiting(worker)
        operations.signal(job.id, "approved", 7, by=None)
        farm.fail(worker, farm.claim_one(worker))
        farm.pass_time(Job.objects.get(pk=job.id), 7200)
        again = farm.claim_one(worker)
        assert again.signal is not None
        assert again.signal.data == 7
        suspend(worker, again)
        assert came(worker) is None

    def test_is_for_those_who_may_operate_the_job(self, worker: Worker) -> None:
        ada, eve = farm.user("ada"), farm.user("eve")
        job = parent_of(worker, owner=ada)
        suspend(worker, job, signal="approved")
        with pytest.raises((NotFound, NotAllowed)):
            operations.signal(job.id, "approved", by=eve)
        assert operations.signal(job.id, "approved", by=ada)

    def test_that_cannot_be_one_is_refused(self, worker: Worker) -> None:
        job = parent_of(worker)
        for name, data, key, refusal in [
            ("", 1, None, InvalidValue), ("x" * 101, 1, None, InvalidValue), ("a", "x" * 64_000, None, PayloadTooLarge),
            ("a", 1, "with space", InvalidValue), ("a", 1, "x" * 65, InvalidValue),
        ]:  # fmt: skip
            with pytest.raises(refusal):
                operations.signal(job.id, name, data, by=None, key=key)
        farm.succeed(worker, job)
        with pytest.raises(JobHasEnded):
            operations.signal(job.id, "a", by=None)

    def test_that_comes_again_after_the_end_is_the_one_that_it_took(self, worker: Worker) -> None:
        """Its answer was lost, and the job went on by it, and ended, before it was sent again."""
        job = waiting(worker)
        assert operations.signal(job.id, "approved", by=None, key="k")
        farm.succeed(worker, farm.claim_one(worker))
        assert not operations.signal(job.id, "approved", by=None, key="k")


LETTER: dict[str, Any] = {
    "properties": {
        "verdict": {"enum": ["send it", 1]}, "note": {"type": "string"}, "pages": {"type": "integer"},
        "share": {"type": "number"}, "urgent": {"type": "boolean"},
    },
    "required": ["verdict"],
}  # fmt: skip


class TestASchema:
    @pytest.mark.parametrize(
        ("data", "why"),
        [
            (None, "an object with the fields"), ([1], "an object with"), ({"note": "x"}, "verdict is missing"),
            ({"verdict": "no"}, 'verdict is one of ["send it", 1]'), ({"verdict": True}, "verdict is one of"),
            ({"verdict": 1, "note": None}, "note is of the type string"),
            ({"verdict": 1, "pages": 1.5}, "pages is of the type integer"),
            ({"verdict": 1, "share": "1"}, "share is of the type number"),
            ({"verdict": 1, "urgent": 0}, "urgent is of the type boolean"),
        ],
    )  # fmt: skip
    def test_refuses_what_its_form_could_not_send(self, worker: Worker, data: Any, why: str) -> None:
        job = waiting(worker, schema=LETTER)
        with pytest.raises(InvalidValue, match="data: ") as refused:
            operations.signal(job.id, "approved", data, by=None, key="mail-7")
        assert why in str(refused.value)
        assert not Signal.objects.exists()
        good = {"verdict": 1, "note": "", "pages": 2.0, "share": 1, "urgent": False, "more": [1]}
        assert operations.signal(job.id, "approved", good, by=None, key="mail-7")
        assert not operations.signal(job.id, "approved", data, by=None, key="mail-7")
        assert came(worker) == ("approved", good, False)

    def test_says_so_to_callers(self, worker: Worker) -> None:
        root = farm.user("root", is_superuser=True, is_staff=True)
        job = waiting(worker, schema=LETTER)
        answer = call(root, f"jobs/{job.id}/signals", {"name": "approved", "data": {"verdict": "no"}})
        assert (answer.status_code, answer.json()["error"]) == (422, "invalid")
        assert 'data: verdict is one of ["send it", 1]' in str(answer.json())

    def test_asks_nothing_of_a_signal_of_another_name_or_that_came_before(self, worker: Worker) -> None:
        """Nobody is there any more to be told, and a job that passed it over would wait for good."""
        job = parent_of(worker)
        operations.signal(job.id, "approved", "yes", by=None)
        suspend(worker, job, signal="approved", schema=LETTER)
        job = farm.claim_one(worker)
        assert job.signal is not None
        assert job.signal.data == "yes"
        suspend(worker, job, signal="approved", schema=LETTER)
        assert operations.signal(job.id, "denied", "yes", by=None)

    def test_that_is_no_form_takes_any_data(self, worker: Worker) -> None:
        waiting(worker, schema={"properties": {"list": {"type": "array"}}, "required": ["list"]})
        job = Job.objects.get()
        assert operations.signal(job.pk, "approved", 7, by=None)


class TestACancel:
    @pytest.mark.parametrize("wait", [{"signal": "approved"}, {"until": datetime(2100, 1, 1, tzinfo=UTC)}])
    def test_of_a_suspended_job_says_so(self, worker: Worker, wait: dict[str, Any]) -> None:
        job = parent_of(worker)
        suspend(worker, job, **wait)
        assert operations.cancel(job.id, by=None).verdict == "canceled_while_suspended"

    def test_of_one_that_went_on_and_failed_says_that_no_further_attempt_is_made(self, worker: Worker) -> None:
        job = waiting(worker)
        operations.signal(job.id, "approved", by=None)
        farm.fail(worker, farm.claim_one(worker))
        assert operations.cancel(job.id, by=None).verdict == "canceled_before_retry"


class TestATimeout:
    def test_lets_go_without_the_signal_which_is_kept_for_the_next_wait(self, worker: Worker) -> None:
        job = waiting(worker, timeout_s=60)
        run_out(job)
        operations.signal(job.id, "approved", 1, by=None)
        again = farm.claim_one(worker)
        assert again.signal is not None
        assert (again.signal.name, again.signal.timed_out) == ("approved", True)
        suspend(worker, again, signal="approved")
        assert came(worker) == ("approved", 1, False)

    def test_lets_go_without_the_jobs_which_may_be_waited_for_again(self, worker: Worker) -> None:
        job = parent_of(worker)
        children = [child_of(worker, job, n) for n in range(2)]
        suspend(worker, job, children=children, timeout_s=60)
        jobs = {one.id: one for one in operations.claim(worker, limit=9)}
        farm.succeed(worker, jobs[children[0]])
        run_out(job)
        assert operations.broken_jobs(most=9) == []
        again = farm.claim_one(worker)
        assert again.signal is not None
        assert (again.signal.name, again.signal.timed_out) == (None, True)
        assert [one.id for one in again.after or ()] == children[:1]
        suspend(worker, again, children=children)
        assert operations.claim(worker) == []
        farm.succeed(worker, jobs[children[1]])
        last = farm.claim_one(worker)
        assert ([one.id for one in last.after or ()], last.signal) == (children, None)

    def test_that_was_found_before_the_job_began_another_wait_lets_that_be(self, worker: Worker) -> None:
        job = waiting(worker, timeout_s=60)
        Suspension.objects.update(until=farm.now())
        [found] = queries.lock_timed_out(9)
        operations.signal(job.id, "approved", by=None)
        suspend(worker, farm.claim_one(worker), signal="approved", timeout_s=60)
        with transaction.atomic():
            waits.time_out([found])
        assert Suspension.objects.get().timed_out is False
        assert operations.claim(worker) == []

    def test_of_what_came_in_time_changes_nothing(self, worker: Worker) -> None:
        job = parent_of(worker)
        child = child_of(worker, job, 0)
        suspend(worker, job, children=[child], timeout_s=60)
        farm.succeed(worker, farm.claim_one(worker))
        again = farm.claim_one(worker)
        Suspension.objects.filter(pk=job.id).update(until=farm.now())
        operations.sweep()
        assert (again.signal, farm.status(job)) == (None, "in_progress")
        assert not Suspension.objects.filter(until__isnull=False).exists()

    def test_of_one_that_was_canceled_is_forgotten(self, worker: Worker) -> None:
        job = waiting(worker, timeout_s=60)
        operations.cancel(job.id, by=None)
        Suspension.objects.update(until=farm.now())
        operations.sweep()
        assert not Suspension.objects.filter(until__isnull=False).exists()


@pytest.mark.parametrize("wait", [
    {"signal": "a", "until": datetime(2100, 1, 1, tzinfo=UTC)}, {"timeout_s": 5.0}, {"schema": {}}, {"signal": ""},
    {"signal": "a", "children": [1]}, {"signal": "a", "timeout_s": 0.0}, {"until": datetime(2100, 1, 1)},
])  # fmt: skip
def test_what_cannot_be_waited_for_is_refused(wait: Any) -> None:
    with pytest.raises(InvalidValue):
        operations.Wait(**wait)


class TestAtTheSameMoment:
    def test_a_signal_and_the_wait_for_it_meet(self, worker: Worker) -> None:
        for n in range(share(200, of=40)):
            job = parent_of(worker)
            farm.at_once(
                partial(suspend, worker, job, signal="approved"),
                partial(operations.signal, job.id, "approved", n, by=None),
            )
            again = farm.claim_one(worker)
            assert again.signal is not None
            assert (again.id, again.signal.data) == (job.id, n)
            farm.succeed(worker, again)

    def test_a_signal_and_the_end_of_its_time_are_one_of_both(self, worker: Worker) -> None:
        for n in range(share(200, of=40)):
            job = waiting(worker, timeout_s=60)
            Suspension.objects.update(until=farm.now())
            farm.at_once(partial(operations.signal, job.id, "approved", n, by=None), operations.sweep)
            again = farm.claim_one(worker)
            assert again.signal is not None
            assert (again.signal.data == n) != again.signal.timed_out
            assert Signal.objects.filter(job=job.id, taken_at=None).exists() == again.signal.timed_out
            farm.succeed(worker, again)

    def test_the_end_of_a_child_and_of_the_time_let_go_once(self, worker: Worker) -> None:
        for _ in range(share(400, of=40)):
            job = parent_of(worker)
            child = child_of(worker, job, 0)
            suspend(worker, job, children=[child], timeout_s=60)
            part = farm.claim_one(worker)
            Suspension.objects.update(until=farm.now())
            end: Any = partial(farm.succeed, worker, part)
            farm.at_once(end, operations.sweep)
            assert farm.claim_one(worker).id == job.id
            assert operations.claim(worker) == []
            operations.cancel(job.id, by=None)
        assert not Edge.objects.filter(open_of__isnull=False).exists()

    def test_a_signal_against_a_cancel(self, worker: Worker) -> None:
        for _ in range(share(400, of=60)):
            job = waiting(worker)

            def sent(job_id: int = job.id) -> bool | None:
                try:
                    return operations.signal(job_id, "approved", by=None)
                except JobHasEnded:
                    return None

            farm.at_once(sent, partial(operations.cancel, job.id, by=None))
            assert farm.status(job) == "canceled"


SCHEMA = {
    "properties": {
        "by": {"type": "string", "title": "Who"}, "pages": {"type": "integer"}, "share": {"type": "number"},
        "again": {"type": "boolean"}, "how": {"enum": ["well", 7, None]},
    },
    "required": ["by", "how"],
}  # fmt: skip
