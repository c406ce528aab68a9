"""A call whose answer was lost is made again, and is answered as the first time (promise 2)."""

import uuid
from dataclasses import replace
from typing import Any

import pytest

from core.refusal import CancelVerdict
from jobs import operations
from jobs.domain.leases import Lease
from jobs.errors import LeaseLost
from jobs.models import Attempt, Job, Worker
from tests import farm

pytestmark = pytest.mark.django_db


def _done(claimed: operations.ClaimedJob, outcome: Any = "success", **more: Any) -> operations.Finished:
    return operations.Finished(job_id=claimed.id, lease=claimed.lease, outcome=outcome, **more)


def _another(lease: Lease, what: str) -> Lease:
    """This lease with another secret or number."""
    number = lease.fence + (what == "number")
    return Lease(fence=number, secret=uuid.uuid4() if what == "secret" else lease.secret)


def _leases(jobs: list[operations.ClaimedJob]) -> list[tuple[int, str]]:
    return sorted((job.id, str(job.lease)) for job in jobs)


def _swap(
    me: Worker, *claimed: operations.ClaimedJob, limit: int = 1, name: str | None = None
) -> tuple[list[Any], list[operations.ClaimedJob]]:
    return operations.finish_and_claim(me, [_done(each) for each in claimed], limit=limit, request_id=name)


class TestAFinishAgain:
    def test_gets_the_same_answer_and_the_same_leases(self) -> None:
        farm.kind()
        farm.submit(3)
        me = farm.worker()
        first = farm.claim_one(me)
        answer = _swap(me, first)
        again = _swap(me, first)
        assert (again[0], _leases(again[1])) == (answer[0], _leases(answer[1]))
        assert Job.objects.running().count() == 1

    def test_brings_the_payloads_again(self) -> None:
        farm.kind()
        farm.submit(2)
        me = farm.worker()
        first = farm.claim_one(me)
        [_], [next_] = _swap(me, first)
        [_], [again] = _swap(me, first)
        assert (again.payload, again.attempt, again.kind) == (next_.payload, 1, "work")
        assert again.lease_expires_at > next_.lease_expires_at  # it has a heartbeat interval anew

    def test_leaves_out_what_was_confirmed_since(self) -> None:
        farm.kind()
        farm.submit(3)
        me = farm.worker()
        first = farm.claim_one(me)
        _, [one, two] = _swap(me, first, limit=2)
        operations.heartbeat(me, one.id, one.lease)
        assert _leases(_swap(me, first, limit=2)[1]) == _leases([two])

    def test_leaves_out_what_was_taken_back_and_is_anothers(self) -> None:
        farm.kind()
        farm.submit(2)
        me, other = farm.worker(), farm.worker("other")
        first = farm.claim_one(me)
        _, [next_] = _swap(me, first)
        farm.expire_lease(next_, is_confirmed=False)
        operations.sweep()
        theirs = farm.claim_one(other)
        assert theirs.id == next_.id
        assert _swap(me, first) == (["success"], [])
        assert farm.succeed(other, theirs) == "success"

    def test_takes_nothing_that_it_did_not_take_the_first_time(self) -> None:
        farm.kind()
        farm.submit(1)
        me = farm.worker()
        first = farm.claim_one(me)
        assert _swap(me, first)[1] == []
        farm.submit(1)
        assert _swap(me, first)[1] == []

    def test_of_a_batch_is_known_by_its_leases_or_its_name(self) -> None:
        farm.kind()
        farm.submit(8)
        me = farm.worker()
        held = operations.claim(me, limit=2)
        _, taken = _swap(me, *held, limit=2)
        assert _leases(_swap(me, *reversed(held), limit=2)[1]) == _leases(taken)
        statuses, more = _swap(me, *taken, limit=2, name="n-1")
        assert _leases(_swap(me, *taken, limit=2, name="n-1")[1]) == _leases(more)
        assert _swap(me, *taken, limit=2, name="n-2") == (statuses, [])

    def test_whose_leases_were_all_lost_gets_the_same_jobs(self) -> None:
        farm.kind()
        farm.submit(6)
        me = farm.worker()
        lost = operations.claim(me, limit=2)
        for job in lost:
            operations.cancel(job.id, by=None)
        for name in (None, "n-1"):
            _, taken = _swap(me, *lost, limit=2, name=name)
            assert len(taken) == 2
            assert _leases(_swap(me, *lost, limit=2, name=name)[1]) == _leases(taken)
        assert Job.objects.running().count() == 4

    @pytest.mark.parametrize("retryable", [True, False])
    def test_of_a_failure_gets_the_answer_of_then(self, *, retryable: bool) -> None:
        farm.kind()
        [job] = farm.submit(1)
        me, other = farm.worker(), farm.worker("other")
        first = farm.claim_one(me)
        entry = _done(first, "failed", error="it broke", retryable=retryable)
        [answer] = operations.finish(me, [entry])
        assert operations.finish(me, [entry]) == [answer]
        if retryable:  # whatever became of the job meanwhile
            farm.pass_time(job, 60)
            theirs = farm.claim_one(other)
            assert operations.finish(me, [entry]) == ["pending"]
            assert farm.fail(other, theirs, retryable=False) == "failed"
            assert operations.finish(me, [entry]) == ["pending"]
        assert Attempt.objects.filter(job_id=job.pk, worker_id=me.pk).count() == 1

    @pytest.mark.parametrize("outcome", ["success", "failed"])
    @pytest.mark.parametrize("another", ["worker", "secret", "number"])
    def test_with_another_worker_secret_or_number_is_no_repeat(self, outcome: str, another: str) -> None:
        farm.kind()
        farm.submit(1)
        me, other = farm.worker(), farm.worker("other")
        entry = _done(farm.claim_one(me), outcome, retryable=False)
        assert operations.finish(me, [entry]) == [outcome]
        by = other if another == "worker" else me
        [answer] = operations.finish(by, [replace(entry, lease=_another(entry.lease, another))])
        assert isinstance(answer, LeaseLost)

    def test_after_a_cancel_says_so(self) -> None:
        farm.kind()
        farm.submit(1)
        me = farm.worker()
        first = farm.claim_one(me)
        operations.cancel(first.id, by=None)
        [answer] = operations.finish(me, [_done(first)])
        assert isinstance(answer, LeaseLost)
        assert (answer.numbers, answer.message) == ({"reason": "canceled"}, "Somebody canceled this job.")

    def test_tells_a_members_worker_nothing_of_jobs_out_of_its_scope(self) -> None:
        farm.kind()
        [job] = farm.submit(1)
        farm.succeed(me := farm.worker(), first := farm.claim_one(me))
        stranger = farm.worker("theirs", owner=farm.user("bob"))
        [answer] = operations.finish(stranger, [_done(first)])
        assert isinstance(answer, LeaseLost)
        assert answer.numbers == {"reason": "unknown"}
        assert farm.status(job) == "success"


class TestAClaimAgain:
    def test_with_the_same_name_gets_the_same_leases(self) -> None:
        farm.kind()
        farm.submit(3)
        me = farm.worker()
        taken = operations.claim(me, limit=2, request_id="c-1")
        assert _leases(operations.claim(me, limit=2, request_id="c-1")) == _leases(taken)
        assert len(operations.claim(me, limit=2, request_id="c-2")) == 1

    def test_without_a_name_takes_others(self) -> None:
        farm.kind()
        farm.submit(2)
        me = farm.worker()
        assert operations.claim(me)[0].id != operations.claim(me)[0].id

    def test_under_the_name_that_another_worker_used_is_its_own(self) -> None:
        farm.kind()
        farm.submit(2)
        mine = operations.claim(farm.worker(), request_id="same")
        theirs = operations.claim(farm.worker("other"), request_id="same")
        assert mine[0].id != theirs[0].id

    def test_under_the_name_of_a_finish_is_its_own(self) -> None:
        farm.kind()
        farm.submit(3)
        me = farm.worker()
        first = farm.claim_one(me)
        _, [next_] = _swap(me, first, name="same")
        assert operations.claim(me, request_id="same")[0].id not in {first.id, next_.id}

    def test_when_what_it_took_was_confirmed_or_taken_back_takes_anew(self) -> None:
        farm.kind()
        farm.submit(2)
        me = farm.worker()
        [taken] = operations.claim(me, request_id="c")
        operations.heartbeat(me, taken.id, taken.lease)
        [another] = operations.claim(me, request_id="c")
        assert another.id != taken.id

    def test_waits_for_nobody_who_takes_the_job_back_at_this_moment(self) -> None:
        farm.kind()
        [job] = farm.submit(1)
        me = farm.worker()
        [taken] = operations.claim(me, request_id="c")
        farm.expire_lease(taken, is_confirmed=False)
        operations.sweep()
        [again] = operations.claim(me, request_id="c")
        assert (again.id, again.lease.fence, again.attempt) == (job.pk, 2, 1)


class TestAReleaseAgain:
    def test_changes_nothing(self) -> None:
        farm.kind()
        [job] = farm.submit(1)
        me = farm.worker()
        taken = farm.claim_one(me)
        operations.release(me, taken.id, taken.lease)
        before = farm.everything(job)
        operations.release(me, taken.id, taken.lease)
        assert farm.everything(job) == before

    @pytest.mark.parametrize("another", ["worker", "secret", "number"])
    def test_with_another_worker_secret_or_number_is_refused(self, another: str) -> None:
        farm.kind()
        [job] = farm.submit(1)
        me, other = farm.worker(), farm.worker("other")
        taken = farm.claim_one(me)
        operations.release(me, taken.id, taken.lease)
        before = farm.everything(job)
        with pytest.raises(LeaseLost):
            operations.release(other if another == "worker" else me, taken.id, _another(taken.lease, another))
        assert farm.everything(job) == before

    def test_does_not_touch_the_next_lease_of_the_same_worker(self) -> None:
        farm.kind()
        farm.submit(1)
        me = farm.worker()
        taken = farm.claim_one(me)
        operations.release(me, taken.id, taken.lease)
        again = farm.claim_one(me)
        operations.release(me, taken.id, taken.lease)
        assert farm.succeed(me, again) == "success"

    def test_does_not_touch_the_next_ones_lease(self) -> None:
        farm.kind()
        farm.submit(1)
        me, other = farm.worker(), farm.worker("other")
        taken = farm.claim_one(me)
        operations.release(me, taken.id, taken.lease)
        theirs = farm.claim_one(other)
        operations.release(me, taken.id, taken.lease)
        assert farm.succeed(other, theirs) == "success"


class TestAnUnconfirmedLease:
    def test_runs_out_after_one_heartbeat_interval(self) -> None:
        farm.kind()
        farm.submit(1)
        taken = farm.claim_one(farm.worker())
        left_s = (taken.lease_expires_at - farm.now()).total_seconds()
        assert 10 < left_s <= 20

    def test_costs_nothing_once_but_a_line_in_the_history(self) -> None:
        farm.kind(max_attempts=1)
        [job] = farm.submit(1)
        me = farm.worker()
        farm.claim_one(me)
        farm.pass_time(job, 21)
        assert operations.sweep().taken_back == 1
        stored = Job.objects.get(pk=job.pk)
        assert (stored.status, stored.failures, stored.attempt, stored.confirmed_fence) == ("pending", 0, 0, 0)
        assert (farm.avoided_by(job), stored.run_at, stored.ended_at) == ([], stored.created_at, None)
        [(number, outcome, *_)] = farm.history(job)
        assert (number, outcome, Attempt.objects.get(job_id=job.pk).attempt) == (1, "unconfirmed", None)
        again = farm.claim_one(me)
        assert (again.attempt, again.max_attempts) == (1, 1)
        assert farm.succeed(me, again) == "success"

    @pytest.mark.parametrize("call", ["heartbeat", "output"])
    def test_is_confirmed_and_renewed_by_the_first_call_that_names_it(self, call: str) -> None:
        farm.kind()
        [job] = farm.submit(1)
        me = farm.worker()
        taken = farm.claim_one(me)
        if call == "heartbeat":
            operations.heartbeat(me, taken.id, taken.lease)
        else:
            operations.write_output(me, taken.id, taken.lease, seq=0, text="Hello.")
        stored = Job.objects.get(pk=job.pk)
        assert stored.confirmed_fence == 1
        assert stored.lease_expires_at is not None
        assert 50 < (stored.lease_expires_at - farm.now()).total_seconds() <= 60

    def test_canceled_after_it_went_back_was_never_started(self) -> None:
        farm.kind()
        [job] = farm.submit(1)
        farm.claim_one(farm.worker())
        farm.pass_time(job, 21)
        operations.sweep()
        assert operations.cancel(job.pk, by=None).verdict is CancelVerdict.BEFORE_START

    def test_whose_worker_is_gone_before_it_got_it_is_withdrawn_at_once(self) -> None:
        farm.kind()
        farm.submit(2)
        me = farm.worker()
        got, lost = operations.claim(me, limit=2)
        operations.heartbeat(me, got.id, got.lease)
        operations.withdraw(me, [(got.id, got.lease), (lost.id, lost.lease)])
        assert [farm.status(job) for job in (got, lost)] == ["in_progress", "pending"]
        assert Attempt.objects.count() == 0
