"""What a process writes down of the calls of workers: every sort of call, and what cannot have been is noticed."""

import gzip
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jobs import operations
from jobs.domain.outputs import Piece
from jobs.errors import LeaseLost, UnknownKind
from tests import farm
from tests.histories import checking, farm_calls, recorder
from tests.histories.history import Call

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the calls of this process are written until the end of the test."""
    for name in recorder._CALLS:
        monkeypatch.setattr(operations, name, getattr(operations, name))
    path = tmp_path / "history.gz"
    with path.open("ab") as opened:
        recorder.record(opened.fileno())
        yield path


def _finished(claimed: operations.ClaimedJob, **more: Any) -> operations.Finished:
    return operations.Finished(job_id=claimed.id, lease=claimed.lease, outcome="success", **more)


def _facts(calls: list[Call]) -> list[tuple[str, str, int | None, int | None, str | None]]:
    return [(call.call, call.outcome, call.job, call.fence, call.answer) for call in calls]


def test_each_call_is_there_with_its_jobs_claims_and_answers_and_nothing_of_their_content(file: Path) -> None:
    farm.kind()
    ids = [job.pk for job in farm.submit(5)]
    me, other = farm.worker(), farm.worker("w2")
    one, two = operations.claim(me, limit=2)
    operations.heartbeat(me, one.id, one.lease, detail="secret")
    operations.heartbeats(me, [operations.Beat(job_id=two.id, lease=two.lease)])
    operations.checkpoint(me, one.id, one.lease, {"the": "secret"})
    operations.write_outputs(me, [Piece(job_id=one.id, lease=one.lease, seq=3, text="secret")])
    child = operations.submit_child(me, one.id, one.lease, farm.new_job(payload="secret"), position=0)
    _, [three] = operations.finish_and_claim(me, [_finished(one, result="secret")], limit=1)
    assert operations.withdraw(me, [(three.id, three.lease)]) == [three.id]
    operations.release(me, two.id, two.lease)
    with pytest.raises(LeaseLost):
        operations.release(other, one.id, one.lease)
    [lost] = operations.finish(me, [_finished(two)])
    assert isinstance(lost, LeaseLost)
    operations.cancel(ids[4], by=None)
    written = farm_calls.read(file)
    assert checking.faults(written) == []
    assert _facts(written.calls)[1:] == [
        ("claim", "ok", ids[0], 1, None), ("claim", "ok", ids[1], 1, None),
        ("report", "ok", ids[0], 1, None), ("report", "ok", ids[1], 1, None), ("report", "ok", ids[0], 1, None),
        ("report", "failed", ids[0], 1, "output_gap"), ("report", "ok", ids[0], 1, None),
        ("finish", "ok", ids[0], 1, "success"), ("claim", "ok", three.id, 1, None),
        ("withdraw", "ok", three.id, 1, "withdrawn"), ("release", "ok", ids[1], 1, "released"),
        ("release", "failed", ids[0], 1, "lease_lost"), ("finish", "failed", ids[1], 1, "lease_lost"),
        ("cancel", "ok", ids[4], None, "canceled_before_start"),
    ]  # fmt: skip
    assert child not in ids
    assert "secret" not in gzip.decompress(file.read_bytes()).decode()


def test_a_job_is_claimed_by_nobody_before_it_is_submitted(file: Path) -> None:
    farm.kind()
    ada, me = farm.user(), farm.worker()
    held = {"payload": "secret", "unique_key": "one", "on_conflict": "replace"}
    for _ in range(2):  # the second time the job is there
        [stored] = operations.store([farm.new_job(**held)], by=ada)
    assert isinstance(stored, operations.Stored)
    claimed = farm.claim_one(me)
    other = operations.store_recent(farm.new_job(payload="secret"), by=ada, versions=None)
    with pytest.raises(UnknownKind):
        operations.store([farm.new_job("nobody's")], by=ada)
    written = farm_calls.read(file)
    assert _facts(written.calls)[1:] == [
        ("submit", "ok", stored.id, None, None), ("claim", "ok", claimed.id, 1, None),
        ("submit", "ok", other.id, None, None),
    ]  # fmt: skip
    assert checking.faults(written) == []
    assert "secret" not in gzip.decompress(file.read_bytes()).decode()

    [submit, claim] = written.calls[1:3]
    written.calls[1] = replace(submit, began=claim.over + 1, ended=claim.over + 2)
    [fault] = checking.faults(written)
    assert f"job {claimed.id}: in no order can these have happened" in fault


def test_a_process_that_is_killed_leaves_whole_lines_and_calls_that_nobody_knows_of(file: Path) -> None:
    farm.kind()
    farm.submit(1)
    me = farm.worker()
    claimed = farm.claim_one(me)
    lines = gzip.decompress(file.read_bytes()).decode().splitlines()
    begun = {**json.loads(lines[0]), "id": 99, "args": [me.pk, claimed.id, claimed.lease.fence]}
    with file.open("ab") as cut:
        cut.write(gzip.compress(f"{json.dumps({**begun, 'operation': 'release'})}\n".encode()))
    assert _facts(farm_calls.read(file).calls)[1:] == [
        ("claim", "ok", claimed.id, 1, None), ("release", "unknown", claimed.id, 1, None)
    ]  # fmt: skip
    assert begun["process"] == str(os.getpid())


def test_a_call_that_is_answered_under_a_claim_that_is_over_is_noticed(file: Path) -> None:
    farm.kind()
    farm.submit(1)
    first, second = farm.worker(), farm.worker("w2")
    lost = farm.claim_one(first)
    farm.lose(lost)
    farm.make_due(lost)
    farm.forgive(lost)
    operations.heartbeat(second, lost.id, farm.claim_one(second).lease)
    assert checking.faults(farm_calls.read(file)) == []
    recorder._recorded(lambda *_: None, "heartbeat", os.open(file, os.O_WRONLY | os.O_APPEND))(
        first, lost.id, lost.lease
    )
    [fault] = checking.faults(farm_calls.read(file))
    assert f"job {lost.id}: in no order can these have happened" in fault
    assert "report of claim 1" in fault
