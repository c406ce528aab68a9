"""What follows a failure, a time-out and a release: when it is retried, by whom (promises 5 and 6)."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User

from core.backoff import Backoff
from core.refusal import CancelVerdict
from jobs import operations
from jobs.models import Job, Worker
from tests import farm

pytestmark = pytest.mark.django_db


class TestBackoff:
    @pytest.mark.parametrize(("failures", "wait_s"), [(1, 4.0), (2, 12.0), (3, 36.0), (4, 60.0), (5, 60.0)])
    def test_is_stored_to_the_second_without_jitter(self, failures: int, wait_s: float) -> None:
        farm.kind(max_attempts=9)
        backoff = Backoff(first_s=4, base=3, cap_s=60, jitter=0)
        _with_backoff(backoff)
        [job] = farm.submit(1)
        me = farm.worker()
        for _ in range(failures):
            farm.make_due(job)
            assert farm.fail(me, farm.claim_one(me)) == "pending"
        assert farm.stored(job).failures == failures
        assert farm.stored(job).run_at - farm.last_attempt_ended_at(job) == timedelta(seconds=wait_s)

    def test_with_jitter_is_spread_between_half_and_one_and_a_half(self) -> None:
        farm.kind(backoff=Backoff(first_s=100, cap_s=120))
        jobs = farm.submit(60)
        me = farm.worker()
        for claimed in operations.claim(me, limit=60):
            farm.fail(me, claimed)
        waits = [(farm.stored(job).run_at - farm.last_attempt_ended_at(job)).total_seconds() for job in jobs]
        assert 50 <= min(waits) < 75
        assert 105 < max(waits) <= 120
        assert len(set(waits)) > 30

    def test_hides_the_job_until_it_is_over(self) -> None:
        farm.kind()
        [job] = farm.submit(1)
        me = farm.worker()
        farm.fail(me, farm.claim_one(me))
        assert operations.claim(me) == []
        farm.make_due(job)
        assert farm.claim_one(me).attempt == 2


def _with_backoff(backoff: Backoff) -> None:
    """Jitter has no column of its own: a kind declared in code says it."""
    from jobs import kinds

    kinds.DECLARED["work"] = operations.Kind(name="work", max_attempts=9, backoff=backoff)


@pytest.fixture(autouse=True)
def _kinds_of_this_test(monkeypatch: pytest.MonkeyPatch) -> None:
    from jobs import kinds

    monkeypatch.setattr(kinds, "DECLARED", dict(kinds.DECLARED))


class TestFailing:
    def test_goes_on_until_the_attempts_are_used_up_and_keeps_each_of_them(self) -> None:
        farm.kind(max_attempts=3)
        [job] = farm.submit(1)
        me = farm.worker()
        answers = []
        for n in range(3):
            farm.make_due(job)
            answers.append(farm.fail(me, farm.claim_one(me), f"broke {n}"))
        stored = farm.stored(job)
        assert answers == ["pending", "pending", "failed"]
        assert (stored.status, stored.failures, stored.fence) == ("failed", 3, 3)
        assert stored.ended_at == farm.last_attempt_ended_at(job)
        assert farm.history(job) == [(n + 1, "failed", "w1", f"broke {n}") for n in range(3)]
        assert (stored.lease_secret, stored.lease_expires_at, stored.deadline_at) == (None, None, None)

    def test_that_cannot_be_retried_ends_it_at_once(self) -> None:
        farm.kind(max_attempts=3)
        [job] = farm.submit(1)
        me = farm.worker()
        assert farm.fail(me, farm.claim_one(me), "no such picture", retryable=False) == "failed"
        assert (farm.stored(job).failures, farm.history(job)) == (1, [(1, "failed", "w1", "no such picture")])

    def test_once_and_then_succeeding_keeps_the_failed_attempt_and_the_result(self) -> None:
        farm.kind()
        [job] = farm.submit(1)
        me, other = farm.worker("me"), farm.worker("other")
        farm.fail(me, farm.claim_one(me))
        farm.make_due(job)
        assert farm.succeed(other, farm.claim_one(other), {"answer": 42}) == "success"
        stored = farm.stored(job)
        assert (stored.failures, stored.fence, stored.worker_name, stored.progress) == (1, 2, "other", 1.0)
        assert stored.result == {"answer": 42}
        assert farm.history(job) == [(1, "failed", "me", "it broke")]

    def test_stores_what_a_worker_says_whatever_it_holds(self) -> None:
        farm.kind()
        [job] = farm.submit(1)
        me = farm.worker()
        farm.fail(me, farm.claim_one(me), "a\x00b\ud800c" + "x" * 200_000)
        [(_, _, _, error)] = farm.history(job)
        assert error.startswith("a\ufffdb?c")
        assert len(error) == 100_000


class TestWhoGetsAFailedJob:
    def _failed_by(self, *workers: Worker, **options: Any) -> Job:
        [job] = farm.submit(1, max_attempts=20, **options)
        for worker in workers:
            farm.make_due(job)
            assert farm.fail(worker, farm.claim_one(worker)) == "pending"
        farm.make_due(job)
        return job

    def test_is_another_worker(self) -> None:
        farm.kind()
        me, other = farm.worker("me"), farm.worker("other")
        job = self._failed_by(me)
        assert farm.avoided_by(job) == [me.pk]
        assert operations.claim(me) == []
        assert farm.claim_one(other).id == job.pk

    def test_is_hidden_for_the_backoff_and_the_grace(self) -> None:
        farm.kind()
        _with_backoff(Backoff(first_s=7, jitter=0))
        me, _ = farm.worker("me"), farm.worker("other")
        [job] = farm.submit(1)
        farm.fail(me, farm.claim_one(me))
        assert farm.stored(job).run_at - farm.last_attempt_ended_at(job) == timedelta(seconds=7)
        farm.pass_time(job, 35)
        assert operations.claim(me) == []
        farm.pass_time(job, 3)
        assert farm.claim_one(me).id == job.pk

    def test_is_the_same_worker_where_there_is_no_other(self) -> None:
        farm.kind()
        me = farm.worker("me")
        job = self._failed_by(me)
        assert farm.avoided_by(job) == []
        assert farm.claim_one(me).id == job.pk

    def test_is_the_same_worker_after_the_grace(self) -> None:
        farm.kind()
        me, _ = farm.worker("me"), farm.worker("other")
        job = self._failed_by(me)
        farm.pass_time(job, 29)
        assert operations.claim(me) == []
        farm.pass_time(job, 2)
        assert farm.claim_one(me).id == job.pk

    def test_is_anybody_once_all_of_them_failed_it(self) -> None:
        farm.kind()
        workers = [farm.worker(f"w{n}") for n in range(3)]
        job = self._failed_by(*workers)
        assert farm.avoided_by(job) == []
        assert farm.claim_one(workers[0]).id == job.pk

    @pytest.mark.parametrize(
        ("other", "counts"),
        [
            ({"name": "home"}, True),
            ({"name": "elsewhere", "queues": ["else"]}, False),
            ({"name": "thief", "queues": ["else"], "steals": ["work"]}, True),
            ({"name": "star", "queues": ["else"], "steals": ["*"]}, True),
            ({"name": "thief of another", "queues": ["else"], "steals": ["third"]}, False),
            ({"name": "revoked", "revoked": True}, False),
            ({"name": "dead", "silent_s": 91}, False),
            ({"name": "quiet", "silent_s": 80}, True),
            ({"name": "never heard of", "silent_s": None}, False),
            ({"name": "of its owner", "owner": "ada"}, True),
            ({"name": "of the group", "owner": "bob"}, True),
            ({"name": "of a stranger", "owner": "eve"}, False),
            ({"name": "of one who is switched off", "owner": "gone"}, False),
            ({"name": "that asks for it", "queues": ["else", "work"], "asks": ["work"]}, True),
            ({"name": "that asks for another queue", "queues": ["else", "work"], "asks": ["else"]}, False),
            ({"name": "that asks for all", "queues": ["else", "work"], "asks": ["else", "work"]}, True),
            ({"name": "thief that asks for another", "queues": ["else"], "steals": ["*"], "asks": ["else"]}, False),
        ],
        ids=lambda value: value["name"] if isinstance(value, dict) else "",
    )
    def test_is_hidden_only_while_another_live_worker_could_take_it(self, other: dict[str, Any], counts: bool) -> None:
        farm.kind()
        club = Group.objects.create(name="club")
        people = {
            name: farm.user(name, groups=[] if name == "eve" else [club]) for name in ("ada", "bob", "eve", "gone")
        }
        me = farm.worker("me")
        self._other(**{**other, "owner": people.get(other.get("owner", ""))})
        User.objects.filter(username="gone").update(is_active=False)
        job = self._failed_by(me, owner=people["ada"], group=club)
        assert farm.avoided_by(job) == ([me.pk] if counts else [])
        assert bool(operations.claim(me)) is not counts

    def _other(self, *, owner: Any, queues: Any = ("work",), steals: Any = (), **other: Any) -> None:
        made = farm.worker(other["name"], *queues, steals=steals, owner=owner)
        if "asks" in other:
            assert operations.claim(made, queues=other["asks"]) == []
        if other.get("revoked"):
            operations.revoke(made)
        if "silent_s" in other:
            silent = other["silent_s"]
            assert made.last_seen_at is not None
            at = None if silent is None else made.last_seen_at - timedelta(seconds=silent)
            Worker.objects.filter(pk=made.pk).update(last_seen_at=at)

    def test_does_not_matter_to_the_jobs_behind_it(self) -> None:
        """One nobody can run, at the head of the queue, does not block the rest."""
        farm.kind()
        me, other = farm.worker("me"), farm.worker("other")
        poison = self._failed_by(me, priority=50)
        farm.fail(other, farm.claim_one(other))
        farm.make_due(poison)
        behind = {job.pk for job in farm.submit(5)}
        farm.avoid([poison], me, other)
        assert {job.id for job in operations.claim(me, limit=9)} == behind

    def test_counts_the_time_outs_of_a_kind_that_retries_them(self) -> None:
        farm.kind(retry_on_timeout=True)
        me, other = farm.worker("me"), farm.worker("other")
        [job] = farm.submit(1)
        farm.expire_lease(farm.claim_one(me))
        operations.sweep()
        farm.make_due(job)
        assert farm.avoided_by(job) == [me.pk]
        assert (operations.claim(me), farm.claim_one(other).attempt) == ([], 2)


class TestCancel:
    def test_before_anybody_ran_it_says_so(self) -> None:
        farm.kind()
        [job] = farm.submit(1)
        answer = operations.cancel(job.pk, by=None)
        assert (answer.verdict, answer.status) == (CancelVerdict.BEFORE_START, "canceled")
        assert (farm.history(job), operations.claim(farm.worker())) == ([], [])

    @pytest.mark.parametrize("end", ["failed", "released"])
    def test_of_one_that_ran_before_says_that_no_further_attempt_comes(self, end: str) -> None:
        farm.kind()
        [job] = farm.submit(1)
        me = farm.worker()
        claimed = farm.claim_one(me)
        if end == "failed":
            farm.fail(me, claimed)
        else:
            operations.release(me, claimed.id, claimed.lease)
        answer = operations.cancel(job.pk, by=None)
        assert (answer.verdict, answer.status) == (CancelVerdict.BEFORE_RETRY, "canceled")
        assert [row[1] for row in farm.history(job)] == [end]

    def test_of_a_running_one_names_who_did_it_and_ends_it_now(self) -> None:
        farm.kind()
        ada = farm.user("ada")
        [job] = farm.submit(1, owner=ada)
        me = farm.worker()
        claimed = farm.claim_one(me)
        operations.heartbeat(me, claimed.id, claimed.lease, progress=0.3, detail="painting")
        answer = operations.cancel(job.pk, by=ada)
        stored = farm.stored(job)
        assert (answer.verdict, answer.status) == (CancelVerdict.WHILE_RUNNING, "canceled")
        assert (stored.status, stored.progress, stored.detail, stored.failures) == ("canceled", 0.3, "painting", 0)
        assert stored.attempt == 1
        assert farm.history(job) == [(1, "canceled", "w1", "canceled by ada")]

    @pytest.mark.parametrize("end", ["success", "failed", "timed_out", "canceled"])
    def test_of_an_ended_one_says_how_it_ended(self, end: str) -> None:
        farm.kind()
        job = farm.ended(end)
        before = farm.everything(job)
        answer = operations.cancel(job.pk, by=None)
        assert (answer.verdict, answer.status) == (CancelVerdict.TOO_LATE, end)
        assert farm.everything(job) == before
