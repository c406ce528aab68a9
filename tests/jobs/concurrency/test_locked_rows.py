"""A job's row that somebody holds locked for long, as who froze while canceling it: the worker's other jobs go on."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from django.core.files.base import ContentFile
from django.db import OperationalError, connection, transaction
from django.db.models import F
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from jobs import operations
from jobs.domain.outputs import Piece
from jobs.errors import LeaseLost, RowLocked
from jobs.models import ALL_JOBS, Job, Live
from jobs.operations import quotas
from jobs.queries import flows
from postgres import connections
from tests import farm

pytestmark = pytest.mark.django_db(transaction=True)


@contextmanager
def locked(job: operations.ClaimedJob | int) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """The row is locked by another session, which ends its transaction with the block."""
    with psycopg.connect(connections.conninfo()) as other:
        other.execute("SELECT FROM jobs_live WHERE job_id = %s FOR UPDATE", [job if isinstance(job, int) else job.id])
        yield other


def beat(job: operations.ClaimedJob, *, progress: float | None = None) -> operations.Beat:
    return operations.Beat(job_id=job.id, lease=job.lease, progress=progress)


def test_keeps_no_other_job_of_its_worker_from_its_heartbeat() -> None:
    farm.kind()
    me = farm.worker()
    farm.submit(3)
    first, second, third = operations.claim(me, limit=3)
    operations.heartbeat(me, first.id, first.lease)
    operations.cancel(third.id, by=None)
    for job in (first, second):
        farm.pass_time(job, 30)
    was = farm.stored(first).lease_expires_at
    with locked(first), connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '20s'")
        ends = operations.heartbeats(me, [beat(first, progress=0.5), beat(second, progress=0.5), beat(third)])
        cursor.execute("RESET lock_timeout")

    assert ends[0] == was, "as long as its lease holds, not renewed"
    renewed = farm.stored(second).lease_expires_at
    assert was is not None
    assert renewed is not None
    assert ends[1] == renewed > was
    assert isinstance(ends[2], LeaseLost)
    assert [farm.stored(job).progress for job in (first, second)] == [None, 0.5]

    assert operations.heartbeat(me, first.id, first.lease) > was


def test_that_is_let_go_soon_is_waited_for_so_that_no_progress_is_lost() -> None:
    farm.kind()
    me = farm.worker()
    farm.submit(1)
    job = farm.claim_one(me)
    farm.meanwhile(
        lambda: Live.objects.select_for_update().get(pk=job.id),
        lambda: operations.heartbeat(me, job.id, job.lease, progress=0.7, detail="packing"),
    )
    assert (farm.stored(job).progress, farm.stored(job).detail) == (0.7, "packing")


def test_of_a_lease_that_was_taken_says_so_after_the_wait() -> None:
    farm.kind()
    me = farm.worker()
    farm.submit(1)
    job = farm.claim_one(me)
    _, [answer] = farm.meanwhile(
        lambda: Live.objects.filter(pk=job.id).update(fence=F("fence") + 1),
        lambda: operations.heartbeats(me, [beat(job)]),
    )
    assert isinstance(answer, LeaseLost)


def test_confirms_no_lease_so_that_no_worker_begins_what_another_one_may_get() -> None:
    farm.kind(retry_when_lost=False)
    me = farm.worker()
    farm.submit(2)
    first, second = operations.claim(me, limit=2)
    was = farm.stored(second).lease_expires_at
    with locked(first), pytest.raises(OperationalError):
        operations.heartbeats(me, [beat(first), beat(second)])
    renewed = farm.stored(second).lease_expires_at
    assert was is not None
    assert renewed is not None
    assert renewed > was, "the others are renewed"
    assert farm.stored(first).confirmed_fence == 0

    operations.heartbeat(me, first.id, first.lease)
    assert farm.stored(first).confirmed_fence == first.lease.fence


def test_keeps_no_other_job_of_its_worker_from_storing_output() -> None:
    farm.kind()
    me = farm.worker()
    farm.submit(2)
    first, second = operations.claim(me, limit=2)
    pieces = [Piece(job_id=job.id, lease=job.lease, seq=0, text="Once") for job in (first, second)]
    with locked(first), connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '20s'")
        with pytest.raises(OperationalError):
            operations.write_outputs(me, pieces)
        cursor.execute("RESET lock_timeout")
    assert [farm.stored(job).next_seq for job in (first, second)] == [0, 1]
    assert operations.write_outputs(me, pieces) == [1, 1]


@pytest.mark.parametrize("outcome", ["success", "failed"])
def test_refuses_what_is_handed_in_with_it_and_changes_nothing(outcome: Any) -> None:
    farm.kind()
    operations.set_fair("work", "owner")  # so that it is noted first how long they ran
    me = farm.worker()
    farm.submit(3)
    first, second = operations.claim(me, limit=2)
    one, other = (operations.Finished(job_id=job.id, lease=job.lease, outcome=outcome) for job in (first, second))
    with locked(first), connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = '10s'")
        for finished in ([one], [replace(one, ran_s=1.0)], [one, other]):
            with pytest.raises(RowLocked):
                operations.finish_and_claim(me, finished, limit=1)
        assert [*farm.statuses()] == ["in_progress", "in_progress", "pending"]
        [ended], [third] = operations.finish_and_claim(me, [other], limit=1)
        cursor.execute("RESET statement_timeout")
    assert ended == ("pending" if outcome == "failed" else outcome)
    assert third.id not in {first.id, second.id}
    assert operations.finish_and_claim(me, [one, other], limit=1) == ([ended, ended], [])


def test_costs_a_failure_no_statement_more_to_bound_the_wait_for() -> None:
    farm.kind()
    me = farm.worker()
    farm.submit(1)
    job = farm.claim_one(me)
    with CaptureQueriesContext(connection) as run:
        farm.fail(me, job)
    assert [each["sql"] for each in run if each["sql"].startswith("SELECT current_setting(")] == []
    assert len([each for each in run if "lock_timeout" in each["sql"]]) == 1


def test_refuses_whatever_else_its_worker_asks_after_half_a_second_and_changes_nothing() -> None:
    farm.kind()
    me = farm.worker()
    farm.submit(1)
    job = farm.claim_one(me)
    operations.heartbeat(me, job.id, job.lease)
    before = farm.everything(job)
    has_twin = farm.new_job(payload={}, unique_key="same")
    calls: list[Callable[[], Any]] = [
        lambda: operations.release(me, job.id, job.lease),
        lambda: operations.checkpoint(me, job.id, job.lease, {"page": 4}),
        lambda: operations.submit_child(me, job.id, job.lease, has_twin, position=0),
        lambda: operations.put_file(me, job.id, job.lease, name="a.txt", content=ContentFile(b"a")),
    ]
    row = "SELECT FROM jobs_live FOR UPDATE"
    twin = "INSERT INTO jobs_uniquekey (job_id, kind, unique_key) VALUES (0, 'work', 'same')"
    for locking, call in [*((row, each) for each in calls), (twin, calls[2])]:
        with psycopg.connect(connections.conninfo()) as other, connection.cursor() as cursor:
            other.execute(locking)
            cursor.execute("SET statement_timeout = '10s'")
            with pytest.raises(RowLocked):
                call()
            cursor.execute("RESET statement_timeout")
            other.rollback()
        assert farm.everything(job) == before
    for call in calls[::-1]:
        call()
    assert [farm.status(job), Job.objects.count()] == ["pending", 2]


def test_keeps_no_other_job_from_being_given_back_that_its_worker_has_not_begun() -> None:
    farm.kind()
    me = farm.worker()
    farm.submit(3)
    first, *others = operations.claim(me, limit=3)
    leases = [(job.id, job.lease) for job in (first, *others)]
    with locked(first), connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = '10s'")
        assert operations.withdraw(me, leases) == [job.id for job in others]
        cursor.execute("RESET statement_timeout")
    assert operations.withdraw(me, leases) == [first.id]
    assert farm.statuses() == ["pending"] * 3


def test_by_the_first_sending_of_a_hand_in_is_answered_once_that_is_over_and_nothing_is_done_twice_or_lost() -> None:
    """What came with the first answer, which nobody got, goes back by itself; the whole sent again would bring it."""
    farm.kind()
    me = farm.worker()
    farm.submit(5)
    ended = [
        operations.Finished(job_id=job.id, lease=job.lease, outcome="success") for job in operations.claim(me, limit=2)
    ]

    def refused() -> None:
        for finished in (ended, ended[:1], ended[1:]):  # as a worker does: together, then one by one
            with pytest.raises(RowLocked):
                operations.finish_and_claim(me, finished, limit=1)

    with transaction.atomic():
        _, [first] = operations.finish_and_claim(me, ended, limit=1)
        farm.at_once(refused)
    came = [operations.finish_and_claim(me, [each], limit=1, unless_lost=True) for each in ended]
    assert [statuses for statuses, _ in came] == [["success"], ["success"]]
    assert [job for _, jobs in came for job in jobs] == [], "they claimed nothing the first time either"
    assert [job.lease for job in operations.finish_and_claim(me, ended, limit=1)[1]] == [first.lease]
    farm.expire_lease(first, is_confirmed=False)
    operations.sweep()
    assert [*farm.statuses(), farm.stored(first).failures] == ["success"] * 2 + ["pending"] * 3 + [0]


def test_of_a_step_keeps_nobody_waiting_whose_end_it_comes_after(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ends are committed; what they could not look after is the janitor's, once the row is free."""
    monkeypatch.setattr(flows, "AT_ONCE", 1)
    farm.kind()
    me = farm.worker()
    firsts = farm.submit(2)
    later, other = (operations.submit("work", 2, after=[first.pk]) for first in firsts)
    jobs = operations.claim(me, limit=2)
    with locked(later.pk), connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = '10s'")
        ended = [operations.Finished(job_id=job.id, lease=job.lease, outcome="success") for job in jobs]
        assert operations.finish(me, ended) == ["success", "success"]
        assert farm.claim_one(me).id == other.pk
        cursor.execute("RESET statement_timeout")
    operations.tend_lanes()
    assert farm.claim_one(me).id == later.pk


def test_that_is_let_go_soon_is_waited_for_by_a_hand_in() -> None:
    farm.kind()
    me = farm.worker()
    farm.submit(1)
    job = farm.claim_one(me)
    _, answer = farm.meanwhile(lambda: Live.objects.select_for_update().get(pk=job.id), lambda: farm.succeed(me, job))
    assert answer == "success"


def test_that_is_let_go_soon_gets_its_output_after_the_wait() -> None:
    farm.kind()
    me = farm.worker()
    farm.submit(1)
    job = farm.claim_one(me)
    _, seq = farm.meanwhile(
        lambda: Live.objects.select_for_update().get(pk=job.id),
        lambda: operations.write_output(me, job.id, job.lease, seq=0, text="Once"),
    )
    assert seq == 1


def test_is_not_said_to_be_lost_where_it_is_locked_as_its_output_is_tried_again(settings: Settings) -> None:
    """What the process knows of an owner's room may be too little: then the piece is tried once more."""
    settings.JOBFARM = {**settings.JOBFARM, "OUTPUT_BYTES_IN_ALL": 10}
    farm.kind()
    me = farm.worker()
    farm.submit(1)
    job = farm.claim_one(me)
    quotas.OUTPUT.forget()
    quotas.OUTPUT.read(ALL_JOBS, 10, now_s=time.monotonic())
    tries: list[str] = []
    with psycopg.connect(connections.conninfo()) as other:

        def lock_before_the_second(execute: Callable[..., object], sql: str, *more: Any) -> object:
            if "write_output" in sql:
                tries.append(sql)
                if len(tries) == 2:
                    other.execute("SELECT FROM jobs_live WHERE job_id = %s FOR UPDATE", [job.id])
            return execute(sql, *more)

        with connection.execute_wrapper(lock_before_the_second), pytest.raises(OperationalError):
            operations.write_output(me, job.id, job.lease, seq=0, text="Once")
    assert operations.write_output(me, job.id, job.lease, seq=0, text="Once") == 1


def test_gets_one_child_of_a_submit_that_is_repeated_while_the_first_is_slow() -> None:
    farm.kind()
    me = farm.worker()
    farm.submit(1)
    job = farm.claim_one(me)
    operations.heartbeat(me, job.id, job.lease)
    new = operations.NewJob(kind="work", payload={})

    def submit() -> int:
        return operations.submit_child(me, job.id, job.lease, new, position=0)

    def again() -> int:
        with pytest.raises(RowLocked):  # after half a second, in which no heartbeat passed it
            submit()
        return 0

    with transaction.atomic():
        child_id = submit()
        assert farm.at_once(again) == [0]
    assert submit() == child_id
    assert Job.objects.count() == 2
