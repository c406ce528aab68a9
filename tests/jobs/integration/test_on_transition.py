"""`on_transition`: an app hears of each change of its jobs, in the transaction of the change (docs/adr/0026)."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import psycopg
import pytest
from django.contrib.auth.models import Group
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext

from core.backoff import Backoff
from jobs import kinds, operations
from jobs.domain.states import AttemptOutcome, Status
from jobs.models import Job
from jobs.operations import Kind, Move
from tests import farm
from tests.unprintable import Unprintable

pytestmark = pytest.mark.django_db
PENDING, RUNNING = Status.PENDING, Status.IN_PROGRESS


@pytest.fixture(autouse=True)
def _of_this_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "DECLARED", dict(kinds.DECLARED))
    monkeypatch.setattr(kinds, "HOOKS", dict(kinds.HOOKS))


class Calls:
    """An app's hook: notes its moves here, and writes a row for each (a group of that name)."""

    def __init__(self) -> None:
        self.calls: list[list[Move]] = []
        self.fails_for: set[int] = set()
        self.error: Exception = ValueError("the app has a fault")

    def __call__(self, moves: Sequence[Move]) -> None:
        self.calls.append(list(moves))
        for move in moves:
            Group.objects.create(name=f"{len(self.calls)} {move.job_id} {move.to}")
            if move.job_id in self.fails_for:
                raise self.error

    def once(self) -> list[Move]:
        """What the one call since the last time was told."""
        [moves] = self.calls
        self.calls.clear()
        return moves


@pytest.fixture
def calls() -> Calls:
    return Calls()


@pytest.fixture
def kind(calls: Calls) -> Iterator[Callable[..., None]]:
    def declare(**fields: Any) -> None:
        operations.declare(Kind(name="work", **fields), on_transition=calls)
        operations.sync()

    yield declare
    connection.check_constraints()


def _rows() -> list[str]:
    return sorted(name.split(" ", 1)[1] for name in Group.objects.values_list("name", flat=True))


class TestMoved:
    def test_is_told_of_a_success_with_its_result(self, calls: Calls, kind: Callable[..., None]) -> None:
        kind()
        [job], me = farm.submit(1), farm.worker("mo")
        assert calls.calls == []
        claimed = farm.claim_one(me)
        common: dict[str, Any] = {"job_id": job.pk, "kind": "work", "attempt": 1, "worker_name": "mo"}
        assert calls.once() == [Move(**common, from_=PENDING, to=RUNNING)]
        farm.succeed(me, claimed, {"text": "é"})
        assert calls.once() == [Move(**common, from_=RUNNING, to=Status.SUCCESS, result={"text": "é"})]

    def test_is_told_when_a_job_goes_back_and_when_it_has_failed_for_good(
        self, calls: Calls, kind: Callable[..., None]
    ) -> None:
        kind(max_attempts=2, backoff=Backoff(first_s=60))
        [job], me = farm.submit(1), farm.worker()
        farm.fail(me, farm.claim_one(me), "first")
        job.refresh_from_db()
        back = calls.calls[-1]
        common: dict[str, Any] = {"job_id": job.pk, "kind": "work", "worker_name": "w1", "from_": RUNNING}
        assert back == [
            Move(**common, attempt=1, to=PENDING, outcome=AttemptOutcome.FAILED, error="first", run_at=job.run_at)
        ]
        farm.pass_time(job, 120)
        farm.fail(me, farm.claim_one(me), "second")
        assert calls.calls[-1] == [
            Move(**common, attempt=2, to=Status.FAILED, outcome=AttemptOutcome.FAILED, error="second")
        ]

    def test_is_told_of_a_job_that_was_given_back(self, calls: Calls, kind: Callable[..., None]) -> None:
        kind()
        farm.submit(1)
        me = farm.worker()
        claimed = farm.claim_one(me)
        operations.release(me, claimed.id, claimed.lease)
        [move] = calls.calls[-1]
        assert (move.from_, move.to, move.outcome) == (RUNNING, PENDING, AttemptOutcome.RELEASED)
        assert move.run_at == Job.objects.get(pk=claimed.id).run_at

    @pytest.mark.parametrize("runs", [False, True])
    def test_is_told_of_a_cancel(self, calls: Calls, kind: Callable[..., None], *, runs: bool) -> None:
        kind()
        ada = farm.user("ada")
        [job] = farm.submit(1, owner=ada)
        if runs:
            farm.claim_one(farm.worker())
            calls.calls.clear()
        operations.cancel(job.pk, by=ada)
        operations.cancel(job.pk, by=ada)
        [move] = calls.once()
        assert move == Move(
            job_id=job.pk,
            kind="work",
            attempt=int(runs),
            worker_name="w1" if runs else "",
            from_=RUNNING if runs else PENDING,
            to=Status.CANCELED,
            outcome=AttemptOutcome.CANCELED if runs else None,
            error="canceled by ada",
        )

    @pytest.mark.parametrize(("column", "outcome"), [("lease_expires_at", "lost"), ("deadline_at", "timed_out")])
    def test_is_told_by_the_janitor_of_what_timed_out(
        self, calls: Calls, kind: Callable[..., None], column: str, outcome: str
    ) -> None:
        kind(timeout_s=3600, retry_when_lost=False)
        farm.submit(2)
        assert len(operations.claim(farm.worker(), limit=2)) == 2
        farm.alter(Job.objects.all(), confirmed_fence=1, **{column: farm.now()})
        calls.calls.clear()
        assert operations.sweep().taken_back == 2
        moves = calls.once()
        assert [(move.from_, move.to, move.outcome) for move in moves] == [(RUNNING, Status.TIMED_OUT, outcome)] * 2
        assert all(move.error for move in moves)

    def test_is_told_by_the_janitor_of_what_waited_too_long(self, calls: Calls, kind: Callable[..., None]) -> None:
        kind(expires_s=60)
        [job] = farm.submit(1)
        farm.pass_time(job, 61)
        assert operations.sweep().expired == 1
        assert calls.once() == [
            Move(
                job_id=job.pk, kind="work", attempt=0, from_=PENDING, to=Status.TIMED_OUT,
                error="it had not started before it expired",
            )
        ]  # fmt: skip

    def test_is_told_that_an_ended_job_is_tried_again(self, calls: Calls, kind: Callable[..., None]) -> None:
        kind()
        job = farm.ended("failed")
        calls.calls.clear()
        again = operations.retry(job.pk, by=None)
        assert calls.once() == [Move(job_id=again.pk, kind="work", attempt=0, from_=None, to=PENDING, retry_of=job.pk)]

    def test_hears_of_a_batch_in_one_call(self, calls: Calls, kind: Callable[..., None]) -> None:
        kind()
        jobs, me = farm.submit(5), farm.worker()
        claimed = operations.claim(me, limit=5)
        assert [move.job_id for move in calls.once()] == [job.pk for job in jobs]
        operations.finish(
            me, [operations.Finished(job_id=j.id, lease=j.lease, outcome="success", result=j.id) for j in claimed]
        )
        assert sorted((move.job_id, move.result) for move in calls.once()) == [(job.pk, job.pk) for job in jobs]

    def test_is_not_told_of_other_kinds_nor_of_a_lease_that_was_lost(
        self, calls: Calls, kind: Callable[..., None]
    ) -> None:
        kind()
        farm.kind("other")
        me = farm.worker("w1", "work", "other")
        mine, [other] = farm.submit(1), farm.submit(1, "other")
        claimed = operations.claim(me, limit=2)
        assert {job.id for job in claimed} == {mine[0].pk, other.pk}
        assert [move.kind for move in calls.once()] == ["work"]
        farm.time_out(claimed[0])
        calls.calls.clear()
        operations.finish(
            me, [operations.Finished(job_id=job.id, lease=job.lease, outcome="success") for job in claimed]
        )
        assert calls.calls == []


class TestWhatMovedWrites:
    def test_goes_with_the_transaction(self, calls: Calls, kind: Callable[..., None]) -> None:
        kind()
        [job], me = farm.submit(1), farm.worker()
        with farm.rolled_back():
            farm.claim_one(me)
            assert _rows() == [f"{job.pk} in_progress"]
        assert _rows() == []
        assert farm.status(job) == "pending"

    def test_is_rolled_back_alone_when_it_fails_and_the_move_stands(
        self, calls: Calls, kind: Callable[..., None], caplog: pytest.LogCaptureFixture
    ) -> None:
        kind()
        [job], me = farm.submit(1), farm.worker()
        claimed = farm.claim_one(me)
        calls.fails_for = {job.pk}
        assert farm.succeed(me, claimed, {"n": 1}) == "success"
        job.refresh_from_db()
        assert (job.status, job.result) == ("success", {"n": 1})
        assert _rows() == [f"{job.pk} in_progress"]
        assert "the hook of the kind work failed" in caplog.text
        assert "the app has a fault" in caplog.text

    def test_that_raises_what_has_no_text_leaves_the_move_as_it_is(
        self, calls: Calls, kind: Callable[..., None]
    ) -> None:
        kind()
        [job], me = farm.submit(1), farm.worker()
        calls.fails_for, calls.error = {job.pk}, Unprintable()
        assert farm.succeed(me, farm.claim_one(me), {}) == "success"

    def test_of_one_that_fails_leaves_its_neighbours_told(
        self, calls: Calls, kind: Callable[..., None], caplog: pytest.LogCaptureFixture
    ) -> None:
        kind()
        [first, second, third] = farm.submit(3)
        calls.fails_for = {second.pk}
        assert len(operations.claim(farm.worker(), limit=3)) == 3
        assert [len(call) for call in calls.calls] == [3, 1, 1, 1]
        assert _rows() == sorted([f"{first.pk} in_progress", f"{third.pk} in_progress"])
        assert set(farm.statuses()) == {"in_progress"}

    def test_may_break_on_the_database_too(
        self, calls: Calls, kind: Callable[..., None], caplog: pytest.LogCaptureFixture
    ) -> None:
        kind()
        farm.submit(1)
        Group.objects.create(name=f"1 {Job.objects.get().pk} in_progress")  # the name that the hook will take
        claimed = farm.claim_one(farm.worker())
        assert farm.status(claimed) == "in_progress"
        assert "auth_group_name_key" in caplog.text

    def test_and_all_else_is_undone_by_a_collision_that_asks_for_another_try(
        self, calls: Calls, kind: Callable[..., None]
    ) -> None:
        kind()
        [job], me = farm.submit(1), farm.worker()
        claimed = farm.claim_one(me)
        before = farm.everything(job)
        calls.fails_for = {job.pk}
        calls.error = OperationalError("deadlock detected")
        calls.error.__cause__ = psycopg.errors.DeadlockDetected("deadlock detected")
        with pytest.raises(OperationalError):
            farm.succeed(me, claimed)
        assert farm.everything(job) == before


class TestResync:
    def test_tells_how_jobs_stand_now_whatever_was_missed(
        self, calls: Calls, kind: Callable[..., None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        kind()
        jobs, me = farm.submit(5), farm.worker()
        with monkeypatch.context() as patch:
            patch.setattr(kinds, "HOOKS", {})
            done, failed, silent, _running = operations.claim(me, limit=4)
            farm.succeed(me, done, {"n": 0})
            farm.fail(me, failed, "no", retryable=False)
            farm.time_out(silent)
        farm.kind("other")
        [other] = farm.submit(1, "other")
        ids = [job.pk for job in jobs]
        assert operations.resync([*ids, other.pk, 10**12]) == [*ids, other.pk]
        moves = calls.once()
        assert {move.from_ for move in moves} == {None}
        assert [(move.job_id, move.to, move.outcome, move.result) for move in moves] == [
            (ids[0], Status.SUCCESS, None, {"n": 0}),
            (ids[1], Status.FAILED, AttemptOutcome.FAILED, None),
            (ids[2], Status.TIMED_OUT, AttemptOutcome.LOST, None),
            (ids[3], RUNNING, None, None),
            (ids[4], PENDING, None, None),
        ]
        assert moves[1].error == "no"
        assert operations.statuses([*ids[:2], 10**12]) == {ids[0]: Status.SUCCESS, ids[1]: Status.FAILED}


class TestHooks:
    def test_of_a_kind_are_declared_once(self, calls: Calls) -> None:
        operations.declare(Kind(name="work"), on_transition=calls)
        operations.declare(Kind(name="work"), on_transition=calls)
        operations.declare(Kind(name="work"))  # as kinds.py may say too
        with pytest.raises(ValueError, match="'work' is declared twice with different hooks"):
            operations.declare(Kind(name="work"), on_transition=Calls())

    def test_cost_a_savepoint_for_a_batch(self, kind: Callable[..., None]) -> None:
        kind()
        farm.submit(20)
        me = farm.worker()
        with CaptureQueriesContext(connection) as captured:
            operations.claim(me, limit=20)
        statements = [query["sql"].split()[0] for query in captured.captured_queries]
        outer = ["SAVEPOINT", "/*", "RELEASE"]  # this test's own transaction stands around the claim's
        assert statements == [*outer[:2], "SAVEPOINT", *["INSERT"] * 20, "RELEASE", outer[2]]
