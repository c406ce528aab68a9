"""How an attempt ends that its worker did not finish: given back, lost, or longer than it may take."""

from datetime import timedelta

import pytest

from core.backoff import Backoff
from jobs import operations
from tests import farm

pytestmark = pytest.mark.django_db


class TestRelease:
    def test_gives_the_job_back_at_once_and_is_no_failure(self) -> None:
        farm.kind()
        [job] = farm.submit(1)
        run_at = farm.stored(job).run_at
        me, _ = farm.worker("me"), farm.worker("other")
        claimed = farm.claim_one(me)
        operations.heartbeat(me, claimed.id, claimed.lease, progress=0.4, detail="half")
        operations.release(me, claimed.id, claimed.lease)
        stored = farm.stored(job)
        assert (stored.status, stored.failures, stored.run_at, farm.avoided_by(job)) == ("pending", 0, run_at, [])
        assert (stored.progress, stored.detail, stored.lease_secret) == (None, None, None)
        assert farm.history(job) == [(1, "released", "me", "given back by the worker")]
        again = farm.claim_one(me)
        assert (again.attempt, again.lease.fence) == (1, 2)

    def test_keeps_it_hidden_from_those_who_failed_it_before(self) -> None:
        farm.kind()
        me, other = farm.worker("me"), farm.worker("other")
        [job] = farm.submit(1)
        farm.fail(me, farm.claim_one(me))
        farm.make_due(job)
        claimed = farm.claim_one(other)
        operations.release(other, claimed.id, claimed.lease)
        assert (farm.stored(job).failures, farm.avoided_by(job)) == (1, [me.pk])
        assert operations.claim(me) == []

    def test_by_a_worker_whose_grace_was_over_starts_no_other_grace(self) -> None:
        farm.kind()
        me, _ = farm.worker("me"), farm.worker("other")
        [job] = farm.submit(1)
        farm.fail(me, farm.claim_one(me))
        farm.make_due(job)
        farm.pass_time(job, 31)
        claimed = farm.claim_one(me)
        operations.release(me, claimed.id, claimed.lease)
        assert farm.claim_one(me).id == job.pk

    def test_as_often_as_one_likes_uses_up_no_attempt(self) -> None:
        farm.kind(max_attempts=1)
        [job] = farm.submit(1)
        me = farm.worker()
        for _ in range(5):
            farm.make_due(job)
            claimed = farm.claim_one(me)
            assert claimed.attempt == 1
            operations.release(me, claimed.id, claimed.lease)
        farm.make_due(job)
        assert farm.succeed(me, farm.claim_one(me)) == "success"
        assert (farm.stored(job).fence, farm.stored(job).attempt) == (6, 1)

    def test_is_at_once_three_times_in_a_row_and_then_waits_longer_and_longer(self) -> None:
        farm.kind(backoff=Backoff(first_s=10))
        [job] = farm.submit(1)
        me = farm.worker()
        waits = []
        for _ in range(5):
            farm.make_due(job)
            claimed = farm.claim_one(me)
            before = farm.now()
            operations.release(me, claimed.id, claimed.lease)
            waits.append((farm.stored(job).run_at - before).total_seconds())
        assert max(waits[:3]) <= 0
        assert (5 <= waits[3] <= 15, 10 <= waits[4] <= 30) == (True, True)  # 10 and 20 s, with their jitter

    def test_after_an_attempt_is_at_once_again(self) -> None:
        farm.kind(backoff=Backoff(first_s=10))
        [job] = farm.submit(1)
        me = farm.worker()
        for act in (*[operations.release] * 4, farm.fail, operations.release):
            farm.make_due(job)
            claimed = farm.claim_one(me)
            act(me, claimed) if act is farm.fail else operations.release(me, claimed.id, claimed.lease)
        assert (farm.stored(job).releases, operations.claim(me)[0].id) == (1, job.pk)


class TestLosing:
    def test_gives_the_job_of_a_silent_worker_to_another_at_once(self) -> None:
        farm.kind(max_attempts=3)
        [job] = farm.submit(1)
        me, other = farm.worker(), farm.worker("other")
        first = farm.claim_one(me)
        operations.heartbeat(me, first.id, first.lease, progress=0.5)
        farm.pass_time(job, 70)
        assert operations.sweep().taken_back == 1
        assert (farm.stored(job).status, farm.stored(job).failures, farm.stored(job).attempt) == ("pending", 1, 1)
        assert farm.history(job) == [(1, "lost", "w1", "lost: it last called 70 s ago")]
        assert operations.claim(me) == []  # it leaves the job to the other for a while
        second = farm.claim_one(other)
        assert (second.attempt, second.max_attempts) == (2, 3)
        assert farm.succeed(other, second) == "success"

    def test_gives_it_to_the_same_worker_if_there_is_no_other(self) -> None:
        farm.kind()
        [job] = farm.submit(1)
        me = farm.worker()
        farm.lose(farm.claim_one(me))
        assert farm.claim_one(me).id == job.pk

    def test_ends_it_as_timed_out_when_its_attempts_are_used_up(self) -> None:
        farm.kind(max_attempts=2)
        [job] = farm.submit(1)
        me = farm.worker()
        for status in ("pending", "timed_out"):
            farm.lose(farm.claim_one(me))
            assert farm.stored(job).status == status
        assert [row[:2] for row in farm.history(job)] == [(1, "lost"), (2, "lost")]

    def test_ends_one_that_must_not_run_twice(self) -> None:
        farm.kind(retry_when_lost=False, retry_on_timeout=True)
        [job] = farm.submit(1)
        farm.lose(farm.claim_one(farm.worker()))
        assert (farm.stored(job).status, farm.stored(job).failures) == ("timed_out", 1)


class TestTimingOut:
    def test_ends_a_run_that_took_too_long_whatever_its_worker_says(self) -> None:
        farm.kind(timeout_s=100)
        [job] = farm.submit(1)
        me = farm.worker()
        claimed = farm.claim_one(me)
        stored = farm.stored(job)
        assert stored.claimed_at is not None
        assert stored.deadline_at == stored.claimed_at + timedelta(seconds=100)
        for _ in range(2):
            farm.pass_time(job, 49.9)
            operations.heartbeat(me, claimed.id, claimed.lease)
        assert operations.sweep().taken_back == 0
        farm.pass_time(job, 1)
        assert operations.sweep().taken_back == 1
        assert farm.history(job) == [(1, "timed_out", "w1", "the run took longer than allowed")]
        assert farm.stored(job).status == "timed_out"

    def test_of_a_kind_that_retries_it_goes_back_and_counts_as_a_failure(self) -> None:
        farm.kind(timeout_s=100, retry_on_timeout=True, max_attempts=2)
        [job] = farm.submit(1)
        me = farm.worker()
        for expected in ("pending", "timed_out"):
            farm.make_due(job)
            claimed = farm.claim_one(me)
            farm.pass_time(claimed, 19)
            operations.heartbeat(me, claimed.id, claimed.lease)
            farm.pass_time(claimed, 59)
            operations.heartbeat(me, claimed.id, claimed.lease)
            farm.pass_time(claimed, 42)
            assert operations.sweep().taken_back == 1
            assert farm.stored(job).status == expected
        assert [row[:2] for row in farm.history(job)] == [(1, "timed_out"), (2, "timed_out")]
        assert (farm.stored(job).failures, operations.claim(me)) == (2, [])

    def test_goes_by_backoff_like_any_failure(self) -> None:
        farm.kind(retry_on_timeout=True, timeout_s=10)
        [job] = farm.submit(1)
        me = farm.worker()
        claimed = farm.claim_one(me)
        operations.heartbeat(me, claimed.id, claimed.lease)
        farm.pass_time(job, 11)
        operations.sweep()
        assert 0.5 <= (farm.stored(job).run_at - farm.last_attempt_ended_at(job)).total_seconds() <= 1.5
