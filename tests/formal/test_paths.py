"""What the statements did with each job is a path of the formal model; a step that is none is named."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from jobs import operations
from jobs.models import Worker
from tests import farm
from tests.formal import paths
from tests.hammer import recording
from tests.histories.history import Call, History, Move
from tests.jobs.flows.test_signals import suspend
from tests.schedules import planted

KINDS: Final = {
    "claims", "confirms", "finishes", "releases", "withdraws", "suspends", "loses", "expires", "cancels", "repeats",
}  # fmt: skip


class Callers:
    """Two workers, and what their calls and the owner's were answered."""

    def __init__(self) -> None:
        farm.kind(max_attempts=2)
        self.one, self.two = farm.worker("one"), farm.worker("two")
        self.calls: list[Call] = []

    def claim(self, worker: Worker, **options: Any) -> operations.ClaimedJob:
        [job] = operations.claim(worker, limit=1, **options)
        self.note("claim", job, worker)
        return job

    def submit_and_claim(self, worker: Worker) -> operations.ClaimedJob:
        farm.submit(1)
        return self.claim(worker)

    def note(self, call: str, job: operations.ClaimedJob, worker: Worker, answer: Any = None, **more: Any) -> None:
        fence = job.lease.fence
        self.calls.append(Call(call=call, job=job.id, fence=fence, worker=worker.pk, answer=answer, more=more))

    def heartbeat(self, worker: Worker, job: operations.ClaimedJob) -> None:
        operations.heartbeat(worker, job.id, job.lease)
        self.note("report", job, worker)

    def finish(self, worker: Worker, job: operations.ClaimedJob, outcome: Any = "success") -> None:
        done = operations.Finished(job_id=job.id, lease=job.lease, outcome=outcome)
        [answer] = operations.finish(worker, [done])
        self.note("finish", job, worker, str(answer))

    def suspend(self, worker: Worker, job: operations.ClaimedJob) -> None:
        suspend(worker, job, signal="approved")
        self.note("finish", job, worker, "pending", waits={str(job.id): {"signal": "approved"}})

    def release(self, worker: Worker, job: operations.ClaimedJob) -> None:
        operations.release(worker, job.id, job.lease)
        self.note("release", job, worker)

    def cancel(self, job_id: int) -> None:
        self.calls.append(Call(call="cancel", job=job_id, answer=str(operations.cancel(job_id, by=None).verdict)))


def _repeats(callers: Callers) -> None:
    """A claim and an end whose answers were lost are asked for again."""
    farm.submit(1)
    for _ in range(2):
        job = callers.claim(callers.one, request_id="request")
    callers.heartbeat(callers.one, job)
    callers.finish(callers.one, job)
    callers.finish(callers.one, job)
    callers.cancel(job.id)


def _is_lost_until_its_attempts_are_used_up(callers: Callers) -> None:
    job = callers.submit_and_claim(callers.one)
    farm.expire_lease(job, is_confirmed=False)
    for worker in (callers.one, callers.two):
        operations.sweep()
        farm.forgive(job)
        farm.make_due(job)
        job = callers.claim(worker)
        callers.heartbeat(worker, job)
        farm.expire_lease(job)
    operations.sweep()
    assert farm.status(job) == "timed_out"


def _fails_for_good(callers: Callers) -> None:
    job = callers.submit_and_claim(callers.one)
    callers.finish(callers.one, job, "failed")
    farm.forgive(job)
    farm.make_due(job)
    callers.finish(callers.one, callers.claim(callers.one), "failed")
    assert farm.status(job) == "failed"


def _waits_for_a_signal(callers: Callers) -> None:
    job = callers.submit_and_claim(callers.one)
    callers.suspend(callers.one, job)
    operations.signal(job.id, "approved", 7, by=None)
    callers.finish(callers.two, callers.claim(callers.two))


def _is_canceled(callers: Callers) -> None:
    for how in (callers.release, callers.suspend, callers.heartbeat):
        job = callers.submit_and_claim(callers.one)
        how(callers.one, job)
        callers.cancel(job.id)
    callers.cancel(farm.submit(1)[0].pk)


def _is_given_back_and_expires(callers: Callers) -> None:
    job = callers.submit_and_claim(callers.one)
    assert operations.withdraw(callers.one, [(job.id, job.lease)]) == [job.id]
    callers.note("withdraw", job, callers.one, "withdrawn")
    farm.alter(job, expires_at=farm.now() - timedelta(seconds=1))
    operations.sweep()


@pytest.fixture
def _recorded(transactional_db: None) -> Iterator[None]:
    recording.install()
    yield
    recording.remove()


@pytest.mark.usefixtures("_recorded")
def test_what_the_statements_did_is_a_path_of_the_model(tmp_path: Path) -> None:
    callers = Callers()
    stories: list[Callable[[Callers], None]] = [
        _repeats, _is_lost_until_its_attempts_are_used_up, _fails_for_good, _waits_for_a_signal, _is_canceled,
        _is_given_back_and_expires,
    ]  # fmt: skip
    for story in stories:
        story(callers)
    history = History(moves=recording.moves(), calls=callers.calls)
    assert {step.kind for _, way in paths._ways(history) for step in way} == KINDS
    assert paths.faults(history, tmp_path) == []


@pytest.mark.usefixtures("_recorded")
def test_an_end_that_does_not_compare_the_claim_is_no_step_of_the_model(tmp_path: Path) -> None:
    callers = Callers()
    old = callers.submit_and_claim(callers.one)
    callers.heartbeat(callers.one, old)
    callers.release(callers.one, old)
    callers.heartbeat(callers.one, callers.claim(callers.one))
    with planted.statement_without("succeed", *planted.CLAIM_OF_AN_END):
        callers.finish(callers.one, old)
    assert farm.status(old) == "success"
    [fault] = paths.faults(History(moves=recording.moves(), calls=callers.calls), tmp_path)
    assert "kind='repeats'" in fault
    assert fault.endswith("what='success') is no step of the model after claims, confirms, releases")


def _moves(*rows: tuple[str, int, int]) -> list[Move]:
    """Moves through these statuses, each with its fences; a claim is of the worker of its number."""
    before, moves = None, list[Move]()
    for status, fence, confirmed in (("pending", 0, 0), *rows):
        moves.append(Move(0, before, status, fence, confirmed, fence, 0.0))
        before = status
    return moves


def _call(call: str, fence: int | None, answer: str | None = None) -> Call:
    return Call(call=call, job=0, fence=fence, worker=fence, answer=answer)


RUNS, BEGUN, BACK = ("in_progress", 1, 0), ("in_progress", 1, 1), ("pending", 1, 1)
LIES: Final[list[tuple[list[Move], list[Call], int]]] = [  # and how many steps are true
    (_moves(("in_progress", 2, 0)), [], 0),  # a claim that leaves out a number
    (_moves(("in_progress", 1, 1)), [], 0),  # confirmed before anybody named it
    (_moves(RUNS, ("in_progress", 2, 0)), [], 1),  # claimed while somebody has it
    (_moves(RUNS, BEGUN, BACK, ("success", 1, 1)), [], 3),  # ended while nobody had it
    (_moves(RUNS, BEGUN, ("success", 1, 1), BACK), [], 3),  # goes on after its end
    (_moves(RUNS, BEGUN, ("success", 1, 1), ("canceled", 1, 1)), [], 3),  # canceled after it
    (_moves(RUNS, BEGUN, ("pending", 0, 0)), [], 2),  # a number that gets smaller
    (_moves(RUNS, BEGUN, BACK, ("timed_out", 1, 1)), [], 3),  # expired after it had begun
    (_moves(RUNS, BEGUN, BACK), [_call("withdraw", 1, "withdrawn")], 2),  # given back as never begun
    (_moves(RUNS, ("pending", 1, 0)), [_call("release", 1)], 1),  # a call that named it, and left it unnamed
    (_moves(RUNS, ("pending", 1, 0), ("in_progress", 2, 1)), [], 2),  # the claim before is confirmed
    (_moves(RUNS, BEGUN, BACK, ("canceled", 1, 1)), [_call("cancel", None, "canceled_before_start")], 3),
    (_moves(RUNS, BEGUN, ("canceled", 1, 1)), [_call("cancel", None, "canceled_before_retry")], 2),
    (_moves(RUNS, BEGUN, BACK, ("canceled", 1, 1)), [_call("cancel", None, "canceled_while_running")], 3),
    (_moves(RUNS, ("canceled", 1, 1)), [_call("cancel", None, "canceled_while_suspended")], 1),
    (_moves(RUNS), [_call("cancel", None, "too_late")], 1),  # it has not ended
    (_moves(RUNS, ("success", 1, 1)), [_call("finish", 1, "success"), _call("finish", 1, "failed")], 2),
    (_moves(RUNS, ("pending", 1, 0)), [_call("report", 1)], 2),  # heard, and counted as never heard
    (_moves(RUNS, BEGUN, BACK, ("in_progress", 2, 1)), [_call("finish", 1, "success")], 4),
    (_moves(RUNS, BEGUN, BACK, ("in_progress", 2, 1)), [_call("finish", 3, "success")], 4),
]


def test_each_lie_is_named_where_it_begins(tmp_path: Path) -> None:
    ways = [paths.way_of(moves, calls) for moves, calls, _ in LIES]
    found = paths.followed(set(ways), tmp_path)
    assert [found[way] for way in ways] == [true for *_, true in LIES]
    assert all(len(way) > true for way, (*_, true) in zip(ways, LIES, strict=True))


def test_a_fault_says_the_first_step_that_is_none(tmp_path: Path) -> None:
    moves = [Move(7, *move[1:]) for move in map(_as_row, _moves(RUNS, BEGUN, BACK, ("success", 1, 1)))]
    [fault] = paths.faults(History(moves=moves), tmp_path)
    assert "job 7: " in fault
    assert "kind='finishes', status='success'" in fault
    assert fault.endswith("no step of the model after claims, confirms, loses")


def _as_row(move: Move) -> tuple[Any, ...]:
    return move.job, move.was, move.becomes, move.fence, move.confirmed, move.worker, move.at
