"""Owners whose jobs are paused: nothing of theirs is claimed, whatever becomes of it."""

from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, User

from jobs import operations
from jobs.models import Job, Lane, Live, Mark, PausedOwner, Worker
from jobs.operations import lanes as moving
from jobs.queries import fleet, lanes, pages, reads
from tests import farm

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada() -> User:
    return farm.user("ada")


@pytest.fixture
def worker() -> Worker:
    farm.kind()
    return farm.worker()


def owners(worker: Worker, limit: int = 50) -> list[str | None]:
    ids = [one.id for one in operations.claim(worker, limit=limit)]
    return [job.owner and job.owner.username for job in Job.objects.filter(pk__in=ids).order_by("pk")]


def check() -> None:
    """Every job is where the farm finds it, or its owner is paused."""
    assert operations.broken_jobs(most=10) == []


def test_a_paused_owners_jobs_wait_and_all_others_go_on(worker: Worker, ada: User) -> None:
    farm.submit(3, owner=ada)
    operations.pause_owner(ada)
    farm.submit(2, owner=ada)
    farm.submit(2)
    assert owners(worker) == [None, None]
    [left] = reads.claimable([(reads.Interest(queues=("work",)), 9)], horizon_s=1)
    assert left.jobs == 0
    check()


def test_resumed_they_go_at_once(worker: Worker, ada: User) -> None:
    farm.submit(3, owner=ada)
    operations.pause_owner(ada)
    farm.submit(2, owner=ada)
    operations.resume_owner(ada)
    assert owners(worker) == ["ada"] * 5
    check()


def test_what_is_paused_again_waits_again_in_the_lanes_of_the_first_time(worker: Worker, ada: User) -> None:
    farm.submit(3, owner=ada)
    operations.pause_owner(ada)
    operations.resume_owner(ada)
    farm.submit(1, owner=ada)
    operations.pause_owner(ada)
    assert owners(worker) == []
    assert set(Live.objects.values_list("lane__held_for", flat=True)) == {ada.pk}
    operations.resume_owner(ada)
    assert owners(worker) == ["ada"] * 4
    check()


@pytest.mark.parametrize("how", ["failed", "lost", "released", "never confirmed"])
def test_what_runs_goes_on_and_what_is_tried_again_waits(worker: Worker, ada: User, how: str) -> None:
    farm.submit(2, owner=ada)
    first, other = operations.claim(worker, limit=2)
    operations.pause_owner(ada)
    match how:
        case "failed":
            farm.fail(worker, first)
        case "lost":
            farm.lose(first)
        case "released":
            operations.release(worker, first.id, first.lease)
        case _:
            farm.expire_lease(first, is_confirmed=False)
            assert operations.sweep().taken_back == 1
    farm.make_due(first)
    assert owners(worker) == []
    assert farm.succeed(worker, other) == "success"
    check()
    operations.resume_owner(ada)
    assert owners(farm.worker("w2")) == ["ada"]


@pytest.mark.parametrize("change", ["queue", "priority", "owner", "run_at"])
def test_what_people_change_of_a_waiting_job_keeps_it_waiting(worker: Worker, ada: User, change: str) -> None:
    [job] = farm.submit(1, owner=farm.user("bo") if change == "owner" else ada)
    operations.pause_owner(ada)
    farm.kind("other")
    new: dict[str, Any] = {"queue": {"queue": "other"}, "priority": {"priority": 7}, "owner": {"owner": ada}}
    if change in new:
        Job.objects.filter(pk=job.pk).update(**new[change])
    else:
        farm.make_due(job)
    assert owners(farm.worker("w2", "work", "other")) == []
    check()
    Job.objects.filter(pk=job.pk).update(owner=None)
    assert owners(farm.worker("w3", "work", "other")) == [None]


@pytest.mark.parametrize("fair", ["owner", "group"])
def test_with_fair_share_members_workers_and_keys_it_is_the_same(ada: User, fair: str) -> None:
    farm.kind(concurrency=1, concurrency_key="{n}")
    operations.set_fair("work", fair)
    mine, worker = farm.worker("mine", owner=ada), farm.worker()
    farm.submit(3, owner=ada)
    farm.submit(1)
    operations.pause_owner(ada)
    assert operations.claim(mine, limit=9) == []
    assert owners(worker) == [None]
    farm.submit(1, owner=ada)
    operations.resume_owner(ada)
    operations.tend_lanes()
    assert len(operations.claim(mine, limit=2)) == 2
    check()


def test_jobs_of_a_group_are_their_owners(worker: Worker, ada: User) -> None:
    team = Group.objects.create(name="team")
    bo = farm.user("bo", groups=[team])
    ada.groups.add(team)
    operations.pause_owner(ada)
    farm.submit(1, owner=ada, group=team)
    farm.submit(1, owner=bo, group=team)
    assert owners(worker) == ["bo"]


def test_a_bulk_is_paused_with_the_rest(worker: Worker, ada: User) -> None:
    operations.pause_owner(ada)
    farm.submit(120, owner=ada)
    assert owners(worker) == []
    operations.tend_lanes()
    assert owners(worker) == []
    operations.resume_owner(ada)
    assert len(operations.claim(worker, limit=200)) == 120


def test_what_came_in_at_the_moment_of_the_pause_is_moved_by_the_janitor(worker: Worker, ada: User) -> None:
    farm.submit(3, owner=ada)
    PausedOwner.objects.create(owner=ada)  # as a submit that was under way did not see it
    operations.tend_lanes()
    assert owners(worker) == []
    check()


def test_what_came_in_at_the_moment_of_the_resumption_is_woken_by_the_janitor(worker: Worker, ada: User) -> None:
    operations.pause_owner(ada)
    farm.submit(3, owner=ada)
    PausedOwner.objects.all().delete()
    assert owners(worker) == []
    operations.tend_lanes()
    assert owners(worker) == ["ada"] * 3


def test_no_more_than_so_many_are_moved_by_the_call_and_the_janitor_does_the_rest(
    worker: Worker, ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "MOVED", 2)
    monkeypatch.setattr("jobs.operations.queues.MOST_PARTED", 4)
    farm.submit(9, owner=ada)
    operations.pause_owner(ada)
    assert len(operations.claim(worker, limit=3)) == 3
    operations.tend_lanes()
    assert operations.claim(worker, limit=9) == []


def test_a_person_who_is_deleted_leaves_jobs_of_nobodys_that_go_on(worker: Worker, ada: User) -> None:
    operations.pause_owner(ada)
    farm.submit(2, owner=ada)
    ada.delete()
    assert owners(worker) == [None, None]
    check()


def test_lanes_of_a_pause_are_deleted_once_they_are_empty(worker: Worker, ada: User) -> None:
    operations.pause_owner(ada)
    farm.submit(1, owner=ada)
    Lane.objects.update(created_at="2026-01-01T00:00:00Z")
    assert lanes.delete(10, 0) == 0
    operations.resume_owner(ada)
    assert len(operations.claim(worker)) == 1
    operations.tend_lanes()
    assert lanes.delete(10, 0) == 1


def test_a_queue_still_says_how_many_wait(worker: Worker, ada: User) -> None:
    operations.pause_owner(ada)
    farm.submit(3, owner=ada)
    farm.submit(1)
    [row] = fleet.queue_rows(viewer=pages.EVERYBODY, name="work")
    assert row.pending == 4


def test_a_held_lane_has_no_mark(worker: Worker, ada: User) -> None:
    farm.submit(3, owner=ada)
    operations.pause_owner(ada)
    farm.submit(3, owner=ada)
    operations.tend_lanes()
    assert not Mark.objects.exists()


def test_why_says_who_paused_them_and_since_when(worker: Worker, ada: User) -> None:
    boss = farm.user("boss", is_staff=True)
    [job] = farm.submit(1, owner=ada)
    operations.pause_owner(ada, by=boss)
    reason = reads.why_not_running(job.pk)[0]
    since = PausedOwner.objects.get().paused_at
    assert reason.code == "owner_paused"
    assert reason.sentence.startswith("The jobs of ada have been paused since ")
    assert reason.numbers == {"owner": "ada", "since": since, "by": "boss"}
    assert [remedy.label for remedy in reason.remedies] == ["Resume the jobs of ada", "Cancel the job"]


def test_in_a_fair_queue_nobody_waits_for_who_is_paused(worker: Worker, ada: User) -> None:
    operations.set_fair("work", "owner")
    farm.submit(5, owner=ada)
    [job] = farm.submit(1, owner=farm.user("bo"))
    assert [reason.code for reason in reads.why_not_running(job.pk)] == ["share"]
    operations.pause_owner(ada)
    assert [reason.code for reason in reads.why_not_running(job.pk)] == ["next"]


def test_who_did_it_is_in_the_log_and_twice_is_once(worker: Worker, ada: User) -> None:
    boss = farm.user("boss", is_staff=True)
    for change in (operations.pause_owner, operations.pause_owner, operations.resume_owner, operations.resume_owner):
        change(ada, by=boss)
    assert list(LogEntry.objects.order_by("pk").values_list("user__username", "object_repr", "change_message")) == [
        ("boss", "ada", "jobs paused"), ("boss", "ada", "jobs resumed"),
    ]  # fmt: skip
