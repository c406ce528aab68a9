"""Concurrency keys: of some jobs so many run at a time, and what is full is in nobody's way."""

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db.models.functions import Now

from jobs import operations
from jobs.errors import KeyIsFull
from jobs.models import ConcurrencyKey, Job, Kind, Lane, Worker
from jobs.queries import gauges, keys, lanes, reads
from postgres import statements
from tests import farm
from tests.explained import explain

pytestmark = pytest.mark.django_db


@pytest.fixture
def worker() -> Worker:
    farm.kind(concurrency=2, concurrency_key="{account}")
    return farm.worker()


def submit(*accounts: str, **options: Any) -> list[int]:
    made = operations.submit_many([farm.new_job(payload={"account": name}, **options) for name in accounts])
    return [one for one in made if isinstance(one, int)]


def accounts(claimed: list[operations.ClaimedJob]) -> Counter[str]:
    return Counter(one.payload["account"] for one in claimed)


def test_no_more_of_a_key_run_than_may_and_what_is_full_blocks_nobody_behind_it(worker: Worker) -> None:
    submit("a", "a", "a", "b", "a", "b", "b", "c")
    assert accounts(operations.claim(worker, limit=20)) == {"a": 2, "b": 2, "c": 1}
    assert operations.claim(worker, limit=20) == []


@pytest.mark.parametrize("fair", ["off", "owner", "key"])
def test_one_by_one_and_together_give_the_same_whatever_the_order_of_the_queue(worker: Worker, fair: str) -> None:
    operations.set_fair("work", fair)
    submit(*"aaabbb", priority=5)
    submit(*"aaabbb")
    got: Counter[str] = Counter()
    for limit in (1, 3, 1, 9):
        got += accounts(operations.claim(worker, limit=limit))
    assert got == {"a": 2, "b": 2}


@pytest.mark.parametrize("how", ["succeeded", "failed", "canceled", "lost", "released", "timed out"])
def test_however_a_run_ends_its_place_is_free(worker: Worker, how: str) -> None:
    submit("a", "a", "a", "a")
    first, _ = operations.claim(worker, limit=2)
    match how:
        case "succeeded":
            farm.succeed(worker, first)
        case "failed":
            farm.fail(worker, first, retryable=False)
        case "canceled":
            operations.cancel(first.id, by=None)
        case "lost":
            farm.lose(first)
        case "released":
            operations.release(worker, first.id, first.lease)
        case _:
            farm.time_out(first)
    assert len(operations.claim(worker, limit=5)) == 1


def test_a_retry_and_a_copy_have_the_key_too(worker: Worker) -> None:
    [job] = submit("a")
    farm.fail(worker, farm.claim_one(worker), retryable=False)
    again = operations.retry(job, by=None)
    assert again.concurrency_key == "a"
    assert Job.objects.whole().get(pk=again.pk).live.key.name == "a"


def test_the_submit_may_name_the_key(worker: Worker) -> None:
    submit("a", concurrency_key="other")
    submit("a", "a", "a")
    assert len(operations.claim(worker, limit=9)) == 3


def test_a_payload_without_the_field_has_the_empty_key_and_a_kind_without_a_template_is_bounded_as_a_whole() -> None:
    farm.kind(concurrency=1, concurrency_key="{options.account}")
    farm.kind("whole", queue="work", concurrency=3)
    worker = farm.worker()
    payloads: list[Any] = [{"options": {"account": 7}}, {"options": {}}, {}, None, [1]]
    for payload in payloads:
        operations.submit("work", payload)
    farm.submit(5, "whole")
    claimed = operations.claim(worker, limit=20)
    assert Counter(one.kind for one in claimed) == {"work": 2, "whole": 3}
    assert set(Job.objects.values_list("concurrency_key", flat=True)) == {"7", ""}


def test_a_kind_from_the_command_line_bounds_keys() -> None:
    call_command("create_kind", "work", concurrency=2, concurrency_key="{account}", on_overflow="refuse")
    [kind] = Kind.objects.values_list("concurrency", "concurrency_key", "on_overflow")
    assert kind == (2, "{account}", "refuse")
    with pytest.raises(CommandError, match="on_overflow is for kinds with a concurrency"):
        call_command("create_kind", "work", on_overflow="refuse")


@pytest.mark.parametrize(
    ("value", "key"),
    [(True, "true"), (False, "false"), (None, ""), (7, "7"), (7.5, "7.5"), ("ü 漢", "ü 漢"), ([1], ""), ({"a": 1}, "")],
)
def test_a_value_of_the_payload_stands_in_a_key_as_json_writes_it(value: Any, key: str) -> None:
    farm.kind(concurrency=1, concurrency_key="{account}")
    assert operations.submit("work", {"account": value}).concurrency_key == key


def test_a_queue_bounds_the_keys_of_kinds_that_have_no_bound_of_their_own() -> None:
    farm.kind(concurrency_key="{account}")
    worker = farm.worker()
    submit(*"aaab")
    operations.bound_keys("work", 1)
    submit("c", "c")
    assert accounts(operations.claim(worker, limit=9)) == {"a": 1, "b": 1, "c": 1}
    operations.bound_keys("work", None)
    assert accounts(operations.claim(worker, limit=9)) == {"a": 2, "c": 1}


def test_a_kind_that_is_given_another_bound_has_it_for_what_waits(worker: Worker) -> None:
    submit(*"aaaa")
    assert len(operations.claim(worker, limit=9)) == 2
    farm.kind(concurrency=3, concurrency_key="{account}")
    assert len(operations.claim(worker, limit=9)) == 1
    farm.kind(concurrency=1, concurrency_key="{account}")
    assert operations.claim(worker, limit=9) == []


def test_a_job_that_moves_to_another_queue_has_its_key_there() -> None:
    farm.kind(concurrency_key="{account}")
    worker = farm.worker("w1", "work", "other")
    operations.bound_keys("other", 1)
    submit(*"aaa")
    Job.objects.update(queue="other")
    assert len(operations.claim(worker, limit=9)) == 1


def test_a_paused_key_gives_nothing_until_it_is_resumed(worker: Worker) -> None:
    submit("a", "b")
    key = ConcurrencyKey.objects.get(name="a").pk
    operations.pause_key(key)
    assert accounts(operations.claim(worker, limit=9)) == {"b": 1}
    [reason] = reads.why_not_running(submit("a")[0])
    assert reason.code == "key_paused"
    operations.resume_key(key)
    assert accounts(operations.claim(worker, limit=9)) == {"a": 2}


def test_why_says_that_the_key_is_full(worker: Worker) -> None:
    submit("a", "a")
    operations.claim(worker, limit=2)
    [job] = submit("a")
    [reason] = reads.why_not_running(job)
    assert reason.code == "key_full"
    assert reason.sentence == 'As many jobs of the concurrency key "a" run as may at a time: 2.'


def test_what_waits_for_its_key_keeps_no_worker_asking(worker: Worker) -> None:
    submit(*"aaa")
    operations.claim(worker, limit=2)
    interest = reads.Interest(queues=("work",), owner_id=None, satisfies=())
    [claimable] = reads.claimable([(interest, 5)], horizon_s=5.0)
    assert claimable.jobs == 0


def test_a_worker_keeps_nothing_ready_that_has_a_key(worker: Worker) -> None:
    farm.kind("plain", queue="work")
    submit("a")
    farm.submit(1, "plain")
    assert [one.has_ceiling for one in operations.claim(worker, limit=2)] == [True, False]


def test_lanes_and_keys_that_nobody_uses_any_more_are_deleted(worker: Worker) -> None:
    submit("a", "b")
    for one in operations.claim(worker, limit=2):
        farm.succeed(worker, one)
    lanes.tidy(limit=10)
    [waiting] = submit("b")
    Lane.objects.update(created_at=Now() - timedelta(days=2))
    ConcurrencyKey.objects.update(used_at=Now() - timedelta(days=3))
    assert (lanes.delete(10, 0), keys.delete_keys(10, 0)) == (1, 1)
    assert ConcurrencyKey.objects.get().name == "b"
    assert farm.claim_one(worker).id == waiting


def test_an_autoscaler_is_asked_for_no_worker_that_would_find_the_key_full(worker: Worker) -> None:
    submit(*"aaaaa")
    operations.claim(worker, limit=2)
    [queue] = gauges.queue_loads(queue="work")
    assert (queue.load.waiting, queue.load.running) == (0, 2)


def test_an_autoscaler_is_asked_for_as_many_as_a_key_has_room_for_in_however_many_lanes(worker: Worker) -> None:
    for priority in range(5):
        submit(*"aab", priority=priority)
    farm.kind("free", queue="work")
    farm.submit(3, "free")
    [queue] = gauges.queue_loads(queue="work")
    assert queue.load.waiting == 2 + 2 + 3
    operations.claim(worker, limit=1)
    [queue] = gauges.queue_loads(queue="work")
    assert (queue.load.waiting, queue.load.running) == (6, 1)


def test_no_more_workers_are_woken_than_a_key_has_room_for_in_however_many_lanes(worker: Worker) -> None:
    for priority in range(5):
        submit(*"aab", priority=priority)
    interest = reads.Interest(queues=("work",))
    [claimable] = reads.claimable([(interest, 9)], horizon_s=5.0)
    assert claimable.jobs == 2 + 2
    operations.claim(worker, limit=1)
    [claimable] = reads.claimable([(interest, 9)], horizon_s=5.0)
    assert claimable.jobs == 3


def test_what_waits_for_keys_is_counted_no_further_than_is_asked_for(worker: Worker) -> None:
    """As by the metrics, which ask for one of each queue."""
    submit(*(f"tenant {n}" for n in range(200)))
    plan = explain(statements.load("jobs", "scale"), {"name": "work", "limit": 1, "queues": 9})["Plan"]
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 300


class TestOverflow:
    def test_refuses(self) -> None:
        farm.kind(concurrency=1, concurrency_key="{account}", on_overflow="refuse")
        submit("a", "b")
        with pytest.raises(KeyIsFull) as refusal:
            submit("a")
        assert refusal.value.http_status == 409
        assert Job.objects.count() == 2

    def test_cancels_the_oldest_that_waits(self) -> None:
        farm.kind(concurrency=1, concurrency_key="{account}", on_overflow="cancel_oldest_waiting")
        worker = farm.worker()
        submit("a")
        farm.claim_one(worker)
        second, third = submit("a"), submit("a")
        assert farm.statuses() == ["in_progress", "canceled", "pending"]
        assert submit("b")
        assert farm.statuses([*second, *third]) == ["canceled", "pending"]

    @pytest.mark.parametrize("how", ["cancel_oldest_waiting", "cancel_running"])
    def test_cancels_nothing_of_anybody_else(self, how: str) -> None:
        """Who names another's key has no power over their jobs: theirs wait, and of them one."""
        farm.kind(concurrency=1, concurrency_key="{account}", on_overflow=how)
        worker, ada, bo = farm.worker(), farm.user("ada"), farm.user("bo")
        submit("a", owner=ada)
        farm.claim_one(worker)
        submit("a", owner=bo)
        assert farm.statuses() == ["in_progress", "pending"]
        submit("a", owner=bo)
        assert farm.statuses() == ["in_progress", "canceled", "pending"]
        submit("a")
        assert farm.statuses() == ["in_progress", "canceled", "pending", "pending"]

    @pytest.mark.parametrize("how", ["cancel_oldest_waiting", "cancel_running"])
    def test_counts_a_job_that_another_became_as_the_newest(self, how: str) -> None:
        farm.kind(concurrency=1, concurrency_key="{account}", on_overflow=how)
        submit("a", unique_key="u")
        submit("b")
        submit("b", unique_key="u", on_conflict="replace")
        assert farm.statuses() == ["pending", "canceled"]

    def test_cancels_what_runs_so_that_the_newest_wins(self) -> None:
        farm.kind(concurrency=2, concurrency_key="{account}", on_overflow="cancel_running")
        worker = farm.worker()
        submit("a", "a")
        operations.claim(worker, limit=2)
        submit("a")
        assert farm.statuses() == ["canceled", "in_progress", "pending"]
        assert len(operations.claim(worker, limit=2)) == 1
        submit("a", "a", "a")
        assert farm.statuses() == ["canceled"] * 4 + ["pending"] * 2
