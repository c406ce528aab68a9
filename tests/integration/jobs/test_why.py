"""Why is this job not running? Each reason from the rows that cause it."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db.models.functions import Now

from jobs import operations
from jobs.models import Job, Worker
from jobs.queries import reads
from tests import farm

pytestmark = pytest.mark.django_db


def _codes(job: Job) -> list[str]:
    return [reason.code for reason in reads.why_not_running(job.pk)]


class TestWhy:
    def test_nothing_is_in_the_way_of_the_next_one(self) -> None:
        farm.kind()
        farm.worker()
        first, second = farm.submit(2)
        assert (_codes(first), _codes(second)) == (["next"], ["ahead"])

    def test_it_is_not_due(self) -> None:
        farm.kind()
        farm.worker()
        [job] = farm.submit(1, run_at=farm.now() + timedelta(hours=2))
        [reason] = reads.why_not_running(job.pk)
        assert (reason.code, reason.numbers["run_at"]) == ("not_due", job.run_at)
        assert 7190 < reason.numbers["seconds"] <= 7200

    def test_its_queue_is_paused(self) -> None:
        farm.kind()
        farm.worker()
        [job] = farm.submit(1)
        operations.pause("work")
        assert _codes(job) == ["queue_paused"]
        operations.resume("work")
        assert _codes(job) == ["next"]

    def test_its_queue_is_full_and_by_whom(self) -> None:
        farm.kind()
        me = farm.worker()
        operations.set_ceiling("work", 2)
        first, second, third = farm.submit(3)
        running = operations.claim(me, limit=3)
        [reason] = reads.why_not_running(third.pk)
        assert (reason.code, reason.numbers) == (
            "queue_full",
            {"ceiling": 2, "running": [first.pk, second.pk]},
        )
        farm.succeed(me, running[0])
        assert _codes(third) == ["next"]

    @pytest.mark.parametrize(
        ("worker", "serves"),
        [
            ({}, True),
            ({"queues": ["else"]}, False),
            ({"queues": ["else"], "steals": ["work"]}, True),
            ({"queues": ["else"], "steals": ["*"]}, True),
            ({"owner": "ada"}, True),
            ({"owner": "bob"}, True),
            ({"owner": "eve"}, False),
            ({"silent_s": 91}, False),
            ({"revoked": True}, False),
        ],
        ids=str,
    )
    def test_no_live_worker_serves_it(self, worker: dict[str, Any], serves: bool) -> None:
        farm.kind()
        club = Group.objects.create(name="club")
        people = {
            name: farm.user(name, groups=[] if name == "eve" else [club]) for name in ("ada", "bob", "eve")
        }
        made = farm.worker(
            "w1", *worker.get("queues", ["work"]), steals=worker.get("steals", []),
            owner=people.get(worker.get("owner", "")),
        )  # fmt: skip
        if "silent_s" in worker:
            Worker.objects.update(last_seen_at=Now() - timedelta(seconds=worker["silent_s"]))
        if worker.get("revoked"):
            operations.revoke(made)
        [job] = farm.submit(1, owner=people["ada"], group=club)
        assert _codes(job) == (["next"] if serves else ["no_worker"])

    def test_everyone_eligible_failed_it(self) -> None:
        farm.kind()
        me, other = farm.worker("me"), farm.worker("other")
        [job] = farm.submit(1)
        Job.objects.update(shy_of=[me.pk, other.pk], shy_until=Now() + timedelta(seconds=20))
        [reason] = reads.why_not_running(job.pk)
        job.refresh_from_db()
        assert (reason.code, reason.numbers) == ("all_failed_it", {"workers": 2, "until": job.shy_until})
        farm.worker("third")
        assert _codes(job) == ["next"]

    def test_so_many_are_ahead_of_it_by_priority_and_then_by_time(self) -> None:
        farm.kind()
        farm.kind("other")
        farm.worker()
        jobs = farm.submit(3)
        farm.submit(5, priority=1)
        farm.submit(7, priority=-1)
        farm.submit(9, "other")
        farm.submit(11, run_at=farm.now() + timedelta(hours=1))
        assert [reads.why_not_running(job.pk)[0].numbers["jobs"] for job in jobs] == [5, 6, 7]

    def test_counts_what_is_ahead_no_further_than_a_thousand(self) -> None:
        farm.kind()
        farm.worker()
        farm.submit(1001, priority=1)
        [job] = farm.submit(1)
        [reason] = reads.why_not_running(job.pk)
        assert (reason.numbers, reason.sentence) == ({"jobs": 1000}, "1,000 or more jobs are ahead of it.")

    def test_gives_every_reason_the_weightiest_first(self) -> None:
        farm.kind()
        farm.submit(1)
        [job] = farm.submit(1)
        operations.pause("work")
        assert _codes(job) == ["queue_paused", "no_worker", "ahead"]

    @pytest.mark.parametrize("state", ["in_progress", "success", "failed", "canceled", "timed_out"])
    def test_does_not_apply_to_one_that_does_not_wait(self, state: str) -> None:
        farm.kind()
        if state == "in_progress":
            [job] = farm.submit(1)
            farm.claim_one(farm.worker())
        else:
            job = farm.ended(state)
        assert _codes(job) == ["not_waiting"]

    def test_has_no_answer_for_what_is_no_job(self) -> None:
        assert reads.why_not_running(10**9) == []

    def test_is_one_statement(self, django_assert_num_queries: Any) -> None:
        farm.kind()
        [job] = farm.submit(1)
        with django_assert_num_queries(1):
            reads.why_not_running(job.pk)
