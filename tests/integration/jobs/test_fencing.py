"""The lease is the only right to speak for a job: any other call is refused, nothing changes (promise 2)."""

from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.core.files import File
from pytest_django.fixtures import Settings

from jobs import operations
from jobs.errors import LeaseLost
from jobs.models import Job, Worker
from tests import farm

pytestmark = pytest.mark.django_db
Call = Callable[[Worker, operations.Claimed], Any]


def _put_file(worker: Worker, job: operations.Claimed) -> Any:
    return operations.put_file(worker, job.id, job.lease, name="a.png", content=File(BytesIO(b"late")))


def _finish(worker: Worker, job: operations.Claimed, outcome: Any) -> Any:
    [answer] = operations.finish(
        worker, [operations.Finished(job_id=job.id, lease=job.lease, outcome=outcome, result="late")]
    )
    if isinstance(answer, LeaseLost):
        raise answer
    return answer


CALLS: dict[str, Call] = {
    "heartbeat": lambda worker, job: operations.heartbeat(
        worker, job.id, job.lease, progress=0.9, detail="late"
    ),
    "output": lambda worker, job: operations.write_output(worker, job.id, job.lease, seq=1, text="late"),
    "output again": lambda worker, job: operations.write_output(
        worker, job.id, job.lease, seq=0, text="late"
    ),
    "file": _put_file,
    "success": lambda worker, job: _finish(worker, job, "success"),
    "failure": lambda worker, job: _finish(worker, job, "failed"),
    "release": lambda worker, job: operations.release(worker, job.id, job.lease),
}
every_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())


@pytest.fixture(autouse=True)
def _files(settings: Settings, tmp_path: Path) -> Path:
    settings.MEDIA_ROOT = tmp_path
    return tmp_path


def _running(**kind: Any) -> tuple[Worker, operations.Claimed]:
    """A worker in the middle of a job: it reported progress, wrote a piece, and handed in a file."""
    farm.kind(**kind)
    farm.submit(1)
    me = farm.worker()
    claimed = farm.claim_one(me)
    operations.heartbeat(me, claimed.id, claimed.lease, progress=0.5, detail="half way")
    operations.write_output(me, claimed.id, claimed.lease, seq=0, text="so far")
    operations.put_file(me, claimed.id, claimed.lease, name="first.txt", content=File(BytesIO(b"early")))
    return me, claimed


def _is_refused(
    call: Call, worker: Worker, claimed: operations.Claimed, *, job_id: int | None = None
) -> None:
    """The call raises LeaseLost, and no table and no stored file differs afterwards."""
    pk = job_id or claimed.id
    before, files = farm.everything(pk), _stored()
    with pytest.raises(LeaseLost):
        call(worker, claimed)
    assert farm.everything(pk) == before
    assert _stored() == files


def _stored() -> dict[str, bytes]:
    from django.conf import settings

    found = [path for path in Path(settings.MEDIA_ROOT).rglob("*") if path.is_file()]
    return {str(path): path.read_bytes() for path in found}


@every_call
class TestACall:
    def test_with_the_lease_is_taken(self, call: Call) -> None:
        me, claimed = _running()
        before = farm.everything(claimed)
        call(me, claimed)
        assert farm.everything(claimed) != before

    def test_after_the_lease_ran_out_is_refused_before_the_janitor_looked(self, call: Call) -> None:
        me, claimed = _running()
        farm.expire_lease(claimed)
        _is_refused(call, me, claimed)
        assert farm.status(claimed) == "in_progress"

    def test_after_the_janitor_timed_it_out_is_refused(self, call: Call) -> None:
        me, claimed = _running()
        farm.expire_lease(claimed)
        assert operations.sweep().timed_out == 1
        _is_refused(call, me, claimed)
        assert farm.status(claimed) == "timed_out"

    def test_after_its_time_is_over_is_refused_although_it_kept_beating(self, call: Call) -> None:
        me, claimed = _running(timeout_s=30)
        farm.pass_time(claimed, 29)
        operations.heartbeat(me, claimed.id, claimed.lease)
        farm.pass_time(claimed, 2)
        assert Job.objects.get(pk=claimed.id).lease_expires_at is not None
        _is_refused(call, me, claimed)

    def test_with_a_wrong_secret_is_refused(self, call: Call) -> None:
        me, claimed = _running()
        wrong = replace(claimed, lease=replace(claimed.lease, secret=uuid4()))
        _is_refused(call, me, wrong)

    @pytest.mark.parametrize("by", [-1, 1])
    def test_with_another_claim_number_is_refused(self, call: Call, by: int) -> None:
        me, claimed = _running()
        wrong = replace(claimed, lease=replace(claimed.lease, claim_no=claimed.lease.claim_no + by))
        _is_refused(call, me, wrong)

    def test_with_the_lease_of_its_own_earlier_claim_is_refused(self, call: Call) -> None:
        me, first = _running()
        operations.release(me, first.id, first.lease)
        second = farm.claim_one(me)
        assert (second.id, second.attempt) == (first.id, 2)
        _is_refused(call, me, first)
        _is_refused(call, me, replace(first, lease=replace(first.lease, claim_no=2)))
        assert farm.succeed(me, second) == "success"

    def test_with_the_right_lease_and_the_key_of_another_is_refused(self, call: Call) -> None:
        _, claimed = _running()
        _is_refused(call, farm.worker("thief"), claimed)

    def test_with_the_lease_of_another_job_is_refused(self, call: Call) -> None:
        me, claimed = _running()
        [other] = farm.submit(1)
        theirs = farm.claim_one(me)
        before = farm.everything(other)
        _is_refused(call, me, replace(claimed, lease=theirs.lease))
        assert farm.everything(other) == before

    def test_for_a_job_that_nobody_knows_is_refused(self, call: Call) -> None:
        me, claimed = _running()
        _is_refused(call, me, replace(claimed, id=claimed.id + 10**6), job_id=claimed.id)

    @pytest.mark.parametrize("end", ["success", "failed", "canceled"])
    def test_after_the_end_is_refused(self, call: Call, end: str) -> None:
        me, claimed = _running()
        if end == "canceled":
            operations.cancel(claimed.id, by=None)
        elif end == "failed":
            farm.fail(me, claimed, retryable=False)
        else:
            farm.succeed(me, claimed, "in time")
        _is_refused(call, me, claimed)
        assert farm.status(claimed) == end

    def test_after_the_job_went_to_another_is_refused(self, call: Call) -> None:
        me, claimed = _running()
        operations.release(me, claimed.id, claimed.lease)
        other = farm.worker("other")
        theirs = farm.claim_one(other)
        _is_refused(call, me, claimed)
        assert farm.succeed(other, theirs) == "success"


class TestFinishingABatch:
    def test_refuses_only_the_leases_that_are_lost(self) -> None:
        farm.kind()
        farm.submit(4)
        me = farm.worker()
        mine = operations.claim(me, limit=4)
        operations.cancel(mine[1].id, by=None)
        farm.expire_lease(mine[2])
        answers = operations.finish(
            me,
            [operations.Finished(job_id=j.id, lease=j.lease, outcome="success", result=j.id) for j in mine],
        )
        assert [answer if isinstance(answer, str) else type(answer) for answer in answers] == [
            "success", LeaseLost, LeaseLost, "success",
        ]  # fmt: skip
        assert [farm.status(job) for job in mine] == ["success", "canceled", "in_progress", "success"]
