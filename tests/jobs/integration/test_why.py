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
        assert (reason.code, reason.numbers) == ("queue_full", {"ceiling": 2, "running": [first.pk, second.pk]})
        farm.succeed(me, running[0])
        assert _codes(third) == ["next"]

    @pytest.mark.parametrize(
        ("worker", "code"),
        [
            ({}, "next"),
            ({"queues": ["else"]}, "no_worker"),
            ({"queues": ["else"], "steals": ["work"]}, "next"),
            ({"queues": ["else"], "steals": ["*"]}, "next"),
            ({"owner": "ada"}, "next"),
            ({"owner": "bob"}, "next"),
            ({"owner": "eve"}, "out_of_scope"),
            ({"owner": "gone"}, "no_worker"),
            ({"silent_s": 91}, "no_worker"),
            ({"revoked": True}, "no_worker"),
        ],
        ids=str,
    )
    def test_no_live_worker_serves_it(self, worker: dict[str, Any], code: str) -> None:
        farm.kind()
        club = Group.objects.create(name="club")
        people = {
            name: farm.user(name, groups=[] if name == "eve" else [club], is_active=name != "gone")
            for name in ("ada", "bob", "eve", "gone")
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
        assert _codes(job) == [code]

    def test_everyone_eligible_failed_it(self) -> None:
        farm.kind()
        me, other = farm.worker("me"), farm.worker("other")
        [job] = farm.submit(1)
        farm.avoid([job], me, other, ago_s=10)
        [reason] = reads.why_not_running(job.pk)
        until = farm.stored(job).run_at + timedelta(seconds=30)
        assert (reason.code, reason.numbers) == ("all_failed_it", {"workers": 2, "until": until})
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
        assert _codes(job) == ["queue_paused", "no_worker"]
        farm.worker()
        assert _codes(job) == ["queue_paused", "ahead"]

    def test_it_waited_too_long_and_the_janitor_is_about_to_end_it(self) -> None:
        farm.kind()
        farm.worker()
        [job] = farm.submit(1, expires_at=farm.now() - timedelta(seconds=1))
        assert _codes(job) == ["expired"]
        operations.sweep()
        assert _codes(job) == ["not_waiting"]

    def test_the_only_live_worker_asks_for_other_queues(self) -> None:
        farm.kind()
        farm.kind("else")
        me = farm.worker("me", "work", "else")
        [job] = farm.submit(1)
        operations.claim(me, queues=["else"])
        [reason] = reads.why_not_running(job.pk)
        assert (reason.code, reason.numbers) == ("not_asked", {"workers": 1})
        assert [remedy.code for remedy in reason.remedies] == ["ask_for_queue", "add_worker"]
        farm.worker("other")
        assert _codes(job) == ["next"]

    def test_only_a_worker_that_steals_and_holds_a_job_could_take_it(self) -> None:
        farm.kind()
        farm.kind("home")
        me = farm.worker("me", "home", steals=["*"])
        farm.submit(1, "home")
        held = farm.claim_one(me)
        [job] = farm.submit(1)
        [reason] = reads.why_not_running(job.pk)
        assert (reason.code, reason.numbers) == ("stealers_busy", {"workers": 1, "busy": 1})
        farm.succeed(me, held)
        assert _codes(job) == ["next"]

    def test_only_a_worker_that_steals_and_has_work_at_home_could_take_it(self) -> None:
        farm.kind()
        farm.kind("home")
        me = farm.worker("me", "home", steals=["*"])
        farm.submit(1, "home")
        [job] = farm.submit(1)
        assert _codes(job) == ["stealers_busy"]
        farm.succeed(me, farm.claim_one(me))
        assert _codes(job) == ["next"]

    def test_its_worker_looks_at_another_queue_first(self) -> None:
        farm.kind()
        farm.kind("sooner")
        farm.worker("me", "sooner", "work")
        farm.submit(1, "sooner")
        [job] = farm.submit(1)
        [reason] = reads.why_not_running(job.pk)
        assert (reason.code, reason.numbers) == ("ahead", {"jobs": 0, "queues": ["sooner"]})

    def test_counts_once_what_is_both_its_owners_and_its_groups(self) -> None:
        farm.kind()
        club = Group.objects.create(name="club")
        ada = farm.user("ada", groups=[club])
        farm.worker("hers", owner=ada)
        farm.submit(2, owner=ada, group=club)
        [job] = farm.submit(1, owner=ada)
        assert reads.why_not_running(job.pk)[0].numbers == {"jobs": 2}

    def test_is_no_nearer_by_a_worker_that_failed_it(self) -> None:
        """That one would have it next; the other, which may take it, has another queue before."""
        farm.kind()
        farm.kind("sooner")
        me = farm.worker("me")
        farm.worker("other", "sooner", "work")
        farm.submit(1, "sooner")
        [job] = farm.submit(1)
        farm.avoid([job], me, ago_s=10)
        [reason] = reads.why_not_running(job.pk)
        assert (reason.code, reason.numbers) == ("ahead", {"jobs": 0, "queues": ["sooner"]})

    def test_is_no_nearer_by_a_worker_that_steals_and_holds_a_job(self) -> None:
        farm.kind()
        farm.kind("sooner")
        thief = farm.worker("thief", "else", steals=["work"])
        farm.submit(1)
        farm.claim_one(thief)
        farm.worker("other", "sooner", "work")
        farm.submit(1, "sooner")
        [job] = farm.submit(1)
        [reason] = reads.why_not_running(job.pk)
        assert (reason.code, reason.numbers) == ("ahead", {"jobs": 0, "queues": ["sooner"]})

    def test_does_not_count_what_the_same_workers_may_not_take(self) -> None:
        farm.kind()
        ada, bob = farm.user("ada"), farm.user("bob")
        mine = farm.worker("hers", owner=ada)
        farm.worker("his", owner=bob)
        farm.submit(3, owner=bob)
        [excluded] = farm.submit(1, owner=ada)
        farm.avoid([excluded], mine, ago_s=10)
        farm.submit(1, owner=ada, expires_at=farm.now() - timedelta(seconds=1))
        [job] = farm.submit(1, owner=ada)
        assert _codes(job) == ["next"]

    def test_it_is_next_for_workers_that_all_hold_a_job(self) -> None:
        farm.kind()
        me = farm.worker()
        farm.submit(1)
        farm.claim_one(me)
        [job] = farm.submit(1)
        [reason] = reads.why_not_running(job.pk)
        assert reason.code == "next"
        assert "is busy" in reason.sentence

    def test_its_queue_is_paused_by_somebody_since_some_moment(self) -> None:
        farm.kind()
        farm.worker()
        boss = farm.user("boss")
        [job] = farm.submit(1)
        operations.pause("work", by=boss)
        [reason] = reads.why_not_running(job.pk)
        assert reason.numbers["by"] == "boss"
        assert abs((reason.numbers["since"] - farm.now()).total_seconds()) < 60
        operations.resume("work")
        operations.pause("work")
        assert reads.why_not_running(job.pk)[0].numbers["by"] is None

    @pytest.mark.parametrize("state", ["in_progress", "success", "failed", "canceled", "timed_out"])
    def test_does_not_apply_to_one_that_does_not_wait(self, state: str) -> None:
        farm.kind()
        if state == "in_progress":
            [job] = farm.submit(1)
            farm.claim_one(farm.worker())
        else:
            job = farm.ended(state)
        assert _codes(job) == ["not_waiting"]

    def test_it_was_claimed_and_nobody_has_confirmed_that(self) -> None:
        farm.kind()
        [job] = farm.submit(1)
        me = farm.worker()
        claimed = farm.claim_one(me)
        assert "has not confirmed" in reads.why_not_running(job.pk)[0].sentence
        operations.heartbeat(me, claimed.id, claimed.lease)
        assert reads.why_not_running(job.pk)[0].sentence == "It is not waiting: it is in progress."

    def test_has_no_answer_for_what_is_no_job(self) -> None:
        assert reads.why_not_running(10**9) == []

    def test_is_one_statement(self, django_assert_num_queries: Any) -> None:
        farm.kind()
        [job] = farm.submit(1)
        with django_assert_num_queries(1):
            reads.why_not_running(job.pk)
