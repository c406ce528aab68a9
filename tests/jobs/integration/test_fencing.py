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
from jobs.models import Worker
from tests import farm

pytestmark = pytest.mark.django_db
Call = Callable[[Worker, operations.ClaimedJob], Any]


def _put_file(worker: Worker, job: operations.ClaimedJob) -> Any:
    return operations.put_file(worker, job.id, job.lease, name="a.png", content=File(BytesIO(b"late")))


def _finish(worker: Worker, job: operations.ClaimedJob, outcome: Any) -> Any:
    [answer] = operations.finish(
        worker, [operations.Finished(job_id=job.id, lease=job.lease, outcome=outcome, result="late")]
    )
    if isinstance(answer, LeaseLost):
        raise answer
    return answer


CALLS: dict[str, Call] = {
    "heartbeat": lambda worker, job: operations.heartbeat(worker, job.id, job.lease, progress=0.9, detail="late"),
    "output": lambda worker, job: operations.write_output(worker, job.id, job.lease, seq=1, text="late"),
    "output again": lambda worker, job: operations.write_output(worker, job.id, job.lease, seq=0, text="late"),
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


def _running(**kind: Any) -> tuple[Worker, operations.ClaimedJob]:
    """A worker in the middle of a job: it reported progress, wrote a piece, and handed in a file."""
    farm.kind(**kind)
    farm.submit(1)
    me = farm.worker()
    claimed = farm.claim_one(me)
    operations.heartbeat(me, claimed.id, claimed.lease, progress=0.5, detail="half way")
    operations.write_output(me, claimed.id, claimed.lease, seq=0, text="so far")
    operations.put_file(me, claimed.id, claimed.lease, name="first.txt", content=File(BytesIO(b"early")))
    return me, claimed


def _is_refused(call: Call, worker: Worker, claimed: operations.ClaimedJob, *, job_id: int | None = None) -> LeaseLost:
    """The call raises LeaseLost, and no table and no stored file differs afterwards."""
    pk = job_id or claimed.id
    before, files = farm.everything(pk), _stored()
    with pytest.raises(LeaseLost) as refusal:
        call(worker, claimed)
    assert farm.everything(pk) == before
    assert _stored() == files
    return refusal.value


def _changes_nothing(call: Call, worker: Worker, claimed: operations.ClaimedJob) -> Any:
    before, files = farm.everything(claimed), _stored()
    answer = call(worker, claimed)
    assert (farm.everything(claimed), _stored()) == (before, files)
    return answer


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

    def test_after_the_lease_ran_out_is_taken_until_the_janitor_takes_the_job_back(self, call: Call) -> None:
        """The silence may have been the farm's: whoever is heard in time has not lost anything."""
        me, claimed = _running()
        farm.expire_lease(claimed)
        call(me, claimed)
        assert operations.sweep().taken_back == 0

    def test_after_the_janitor_took_it_back_is_refused(self, call: Call) -> None:
        me, claimed = _running()
        farm.lose(claimed)
        assert _is_refused(call, me, claimed).numbers == {"reason": "taken_back"}
        assert farm.status(claimed) == "pending"

    def test_after_the_janitor_timed_it_out_is_refused(self, call: Call) -> None:
        me, claimed = _running()
        farm.time_out(claimed)
        refusal = _is_refused(call, me, claimed)
        assert refusal.numbers == {"reason": "ended", "job_status": "timed_out"}

    def test_after_its_time_was_over_is_refused_so_though_it_is_tried_again(self, call: Call) -> None:
        me, claimed = _running(timeout_s=30, retry_on_timeout=True)
        farm.pass_time(claimed, 31)
        operations.heartbeat(me, claimed.id, claimed.lease)
        assert operations.sweep().taken_back == 1
        assert farm.status(claimed) == "pending"
        assert _is_refused(call, me, claimed).numbers == {"reason": "timed_out"}

    def test_after_its_time_was_over_is_refused_although_it_kept_beating(self, call: Call) -> None:
        me, claimed = _running(timeout_s=30)
        farm.pass_time(claimed, 29)
        operations.heartbeat(me, claimed.id, claimed.lease)
        farm.pass_time(claimed, 2)
        assert operations.sweep().taken_back == 1
        _is_refused(call, me, claimed)

    def test_with_a_wrong_secret_is_refused(self, call: Call) -> None:
        me, claimed = _running()
        wrong = replace(claimed, lease=replace(claimed.lease, secret=uuid4()))
        _is_refused(call, me, wrong)

    @pytest.mark.parametrize("by", [-1, 1])
    def test_with_another_claim_number_is_refused(self, call: Call, by: int) -> None:
        me, claimed = _running()
        wrong = replace(claimed, lease=replace(claimed.lease, fence=claimed.lease.fence + by))
        _is_refused(call, me, wrong)

    def test_with_the_lease_of_its_own_earlier_claim_is_refused(self, call: Call) -> None:
        me, first = _running()
        farm.lose(first)
        second = farm.claim_one(me)
        assert (second.id, second.attempt) == (first.id, 2)
        assert _is_refused(call, me, first).numbers == {"reason": "taken_over"}
        _is_refused(call, me, replace(first, lease=replace(first.lease, fence=2)))
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

    def test_after_a_cancel_is_refused(self, call: Call) -> None:
        me, claimed = _running()
        operations.cancel(claimed.id, by=None)
        assert _is_refused(call, me, claimed).numbers == {"reason": "canceled"}

    @pytest.mark.parametrize("end", ["success", "failed"])
    def test_after_its_own_finish_changes_nothing(self, call: Call, end: str) -> None:
        me, claimed = _running()
        farm.fail(me, claimed, retryable=False) if end == "failed" else farm.succeed(me, claimed, "in time")
        if call in (CALLS["success"], CALLS["failure"]):  # it may be that finish once more
            assert _changes_nothing(call, me, claimed) == end
        else:
            assert _is_refused(call, me, claimed).numbers == {"reason": "ended", "job_status": end}

    def test_after_the_job_went_to_another_is_refused(self, call: Call) -> None:
        me, claimed = _running()
        other = farm.worker("other")
        farm.lose(claimed)
        theirs = farm.claim_one(other)
        assert _is_refused(call, me, claimed).numbers == {"reason": "taken_over"}
        assert farm.succeed(other, theirs) == "success"


class TestFinishingABatch:
    def test_refuses_only_the_leases_that_are_lost(self) -> None:
        farm.kind()
        farm.submit(4)
        me = farm.worker()
        mine = operations.claim(me, limit=4)
        operations.cancel(mine[1].id, by=None)
        farm.time_out(mine[2])
        answers = operations.finish(
            me, [operations.Finished(job_id=j.id, lease=j.lease, outcome="success", result=j.id) for j in mine]
        )
        assert [answer if isinstance(answer, str) else answer.numbers for answer in answers] == [
            "success", {"reason": "canceled"}, {"reason": "ended", "job_status": "timed_out"}, "success",
        ]  # fmt: skip
        assert [farm.status(job) for job in mine] == ["success", "canceled", "timed_out", "success"]
