"""What a job has found out so far outlives its attempts: whoever claims it next gets it."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection

from jobs import operations
from jobs.errors import InvalidJson, LeaseLost, PayloadTooLarge
from jobs.models import Checkpoint, Job, Live, Worker
from jobs.queries import moves
from tests import farm, wire

pytestmark = pytest.mark.django_db


@pytest.fixture
def mine() -> tuple[Worker, operations.ClaimedJob]:
    """A worker and the job that it holds."""
    farm.kind()
    farm.submit(1)
    me = farm.worker()
    return me, farm.claim_one(me)


def kept(job: operations.ClaimedJob | Job) -> Any:
    """What is stored of a job."""
    return Job.objects.whole().get(pk=job.id).checkpoint


def lose(_: Worker, claimed: operations.ClaimedJob) -> None:
    """Let its lease run out, and the janitor see it."""
    farm.lose(claimed)


def time_out(_: Worker, claimed: operations.ClaimedJob) -> None:
    """Let it run too long, of a kind that tries again then."""
    farm.alter(claimed, retry_on_timeout=True, deadline_at=farm.now())
    operations.sweep()


def release(me: Worker, claimed: operations.ClaimedJob) -> None:
    """Give it back."""
    operations.release(me, claimed.id, claimed.lease)


class TestTheNextClaim:
    @pytest.mark.parametrize("end", [lose, time_out, release, farm.fail])
    def test_brings_what_was_kept_however_the_attempt_ended(
        self, mine: Any, end: Callable[[Worker, operations.ClaimedJob], Any]
    ) -> None:
        me, claimed = mine
        operations.checkpoint(me, claimed.id, claimed.lease, {"pages": 40})
        end(me, claimed)
        assert farm.status(claimed) == "pending"
        farm.pass_time(Job.objects.get(pk=claimed.id), 7200)
        again = farm.claim_one(farm.worker("other"))
        assert (again.id, again.fence, again.checkpoint) == (claimed.id, 2, {"pages": 40})

    def test_brings_the_last_one_of_several(self, mine: Any) -> None:
        me, claimed = mine
        for pages in (1, 2, 3):
            operations.checkpoint(me, claimed.id, claimed.lease, {"pages": pages})
        release(me, claimed)
        again = farm.claim_one(me)
        operations.checkpoint(me, again.id, again.lease, [4])
        release(me, again)
        assert (farm.claim_one(me).checkpoint, Checkpoint.objects.get().fence) == ([4], 2)

    def test_brings_nothing_after_null(self, mine: Any) -> None:
        me, claimed = mine
        operations.checkpoint(me, claimed.id, claimed.lease, 1)
        operations.checkpoint(me, claimed.id, claimed.lease, None)
        release(me, claimed)
        assert farm.claim_one(me).checkpoint is None
        assert not Checkpoint.objects.exists()

    @pytest.mark.parametrize("value", [0, False, "", [], {}])
    def test_brings_what_is_empty_as_it_was(self, mine: Any, value: Any) -> None:
        me, claimed = mine
        operations.checkpoint(me, claimed.id, claimed.lease, value)
        release(me, claimed)
        assert farm.claim_one(me).checkpoint == value

    def test_that_is_repeated_brings_it_again(self, mine: Any) -> None:
        me, claimed = mine
        operations.checkpoint(me, claimed.id, claimed.lease, "half")
        release(me, claimed)
        first, repeat = (operations.claim(me, request_id="the same") for _ in range(2))
        assert [(one.lease, one.checkpoint) for one in first] == [(one.lease, one.checkpoint) for one in repeat]
        assert first[0].checkpoint == "half"

    def test_that_comes_with_a_finish_brings_it_too(self, mine: Any) -> None:
        me, claimed = mine
        operations.checkpoint(me, claimed.id, claimed.lease, "half")
        release(me, claimed)
        farm.submit(1)
        [other] = [one for one in operations.claim(me, limit=2) if one.id != claimed.id]
        operations.withdraw(me, [(job.pk, lease_of(job)) for job in Job.objects.running() if job.pk == claimed.id])
        finished = operations.Finished(job_id=other.id, lease=other.lease, outcome="success")
        _, [again] = operations.finish_and_claim(me, [finished], limit=1)
        assert (again.id, again.checkpoint) == (claimed.id, "half")

    def test_after_a_transaction_that_was_rolled_back_brings_what_was_before(self, mine: Any) -> None:
        me, claimed = mine
        operations.checkpoint(me, claimed.id, claimed.lease, "before")
        with connection.cursor() as cursor:
            cursor.execute("SAVEPOINT before_it")
            operations.checkpoint(me, claimed.id, claimed.lease, "never")
            cursor.execute("ROLLBACK TO before_it")
        release(me, claimed)
        assert farm.claim_one(me).checkpoint == "before"


def lease_of(job: Job) -> operations.Lease:
    """The lease that holds this job."""
    assert job.lease_secret is not None
    return operations.Lease(fence=job.fence, secret=job.lease_secret)


class TestACheckpoint:
    def test_is_a_sign_of_life_and_confirms_the_lease(self, mine: Any) -> None:
        me, claimed = mine
        expires_at = operations.checkpoint(me, claimed.id, claimed.lease, 1)
        job = Job.objects.get(pk=claimed.id)
        assert (job.confirmed_fence, job.lease_expires_at) == (1, expires_at)
        assert expires_at > claimed.lease_expires_at

    def test_that_is_too_long_is_refused_with_its_size_and_changes_nothing(self, mine: Any) -> None:
        me, claimed = mine
        operations.checkpoint(me, claimed.id, claimed.lease, "x" * 63_998)
        before = farm.everything(claimed)
        with pytest.raises(PayloadTooLarge) as refused:
            operations.checkpoint(me, claimed.id, claimed.lease, "x" * 63_999)
        assert refused.value.message == "The checkpoint has 64001 bytes; at most 64000 are allowed."
        assert farm.everything(claimed) == before

    def test_that_no_database_can_hold_is_refused(self, mine: Any) -> None:
        me, claimed = mine
        with pytest.raises(InvalidJson, match="checkpoint"):
            operations.checkpoint(me, claimed.id, claimed.lease, {"a": "\x00"})

    @pytest.mark.parametrize("value", ["late", None])
    def test_of_a_lease_that_is_lost_changes_nothing(self, mine: Any, value: Any) -> None:
        me, claimed = mine
        operations.checkpoint(me, claimed.id, claimed.lease, "mine")
        lose(me, claimed)
        farm.pass_time(Job.objects.get(pk=claimed.id), 7200)
        other = farm.worker("other")
        again = farm.claim_one(other)
        operations.checkpoint(other, again.id, again.lease, "newer")
        before = farm.everything(claimed)
        with pytest.raises(LeaseLost) as lost:
            operations.checkpoint(me, claimed.id, claimed.lease, value)
        assert lost.value.reason == "taken_over"
        assert (farm.everything(claimed), kept(claimed)) == (before, "newer")

    def test_of_an_earlier_lease_of_the_same_worker_changes_nothing(self, mine: Any) -> None:
        me, claimed = mine
        release(me, claimed)
        again = farm.claim_one(me)
        operations.checkpoint(me, again.id, again.lease, "newer")
        before = farm.everything(claimed)
        with pytest.raises(LeaseLost):
            operations.checkpoint(me, claimed.id, claimed.lease, "older")
        assert farm.everything(claimed) == before

    def test_of_another_worker_with_the_right_lease_changes_nothing(self, mine: Any) -> None:
        _, claimed = mine
        before = farm.everything(claimed)
        with pytest.raises(LeaseLost):
            operations.checkpoint(farm.worker("thief"), claimed.id, claimed.lease, 1)
        assert farm.everything(claimed) == before

    def test_stays_with_an_ended_job_until_that_is_deleted(self, mine: Any) -> None:
        me, claimed = mine
        operations.checkpoint(me, claimed.id, claimed.lease, "half")
        assert farm.succeed(me, claimed) == "success"
        assert kept(claimed) == "half"
        moves.retain(age_s=0, limit=10)
        assert not Checkpoint.objects.exists()


class TestARetryByHand:
    @pytest.mark.parametrize("retryable", [False])
    def test_begins_with_what_the_job_had_kept(self, mine: Any, retryable: bool) -> None:
        me, claimed = mine
        operations.checkpoint(me, claimed.id, claimed.lease, "half")
        assert farm.fail(me, claimed, retryable=retryable) == "failed"
        new = operations.retry(claimed.id, by=None)
        again = farm.claim_one(farm.worker("other"))
        assert (again.id, again.checkpoint, kept(claimed)) == (new.pk, "half", "half")

    def test_of_a_success_begins_anew(self, mine: Any) -> None:
        me, claimed = mine
        operations.checkpoint(me, claimed.id, claimed.lease, "half")
        farm.succeed(me, claimed)
        operations.retry(claimed.id, by=None)
        assert farm.claim_one(me).checkpoint is None

    def test_that_is_replaced_by_another_payload_begins_anew(self, mine: Any, ada: User) -> None:
        me, _ = mine
        same: dict[str, Any] = {"owner": ada, "unique_key": "news"}
        operations.submit("work", "old", **same)
        claimed = farm.claim_one(me)
        operations.checkpoint(me, claimed.id, claimed.lease, "half of the old")
        farm.fail(me, claimed, retryable=False)
        new = operations.retry(claimed.id, by=None)
        operations.submit("work", "new", **same, on_conflict="replace")
        again = farm.claim_one(farm.worker("other"))
        assert (again.id, again.payload, again.checkpoint) == (new.pk, "new", None)


class TestAFarmWithoutCheckpoints:
    def test_reads_nothing_more_for_a_claim(self, mine: Any) -> None:
        me, claimed = mine
        farm.submit(2)
        release(me, farm.claim_one(me))  # of what was claimed before it is asked whether it was suspended
        with wire.traced() as without:
            assert len(operations.claim(me, limit=2)) == 2
        farm.submit(1)
        operations.checkpoint(me, claimed.id, claimed.lease, 1)
        release(me, claimed)
        with wire.traced() as one_with:
            assert [job.checkpoint for job in operations.claim(me, limit=2)] in ([None, 1], [1, None])
        assert one_with.round_trips - without.round_trips == 1
        assert not Live.objects.filter(has_checkpoint=True).exclude(pk=claimed.id).exists()
