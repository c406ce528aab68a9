"""A kind's own limit: jobs wait for their tokens, and give back what they never used."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from jobs import kinds, operations
from jobs.errors import InvalidValue, NotUnique
from jobs.models import Job, Kind
from jobs.queries import reads
from ratelimits import operations as limits
from ratelimits.errors import CountExceedsLimit, RateLimited, UnknownLimit
from tests import farm
from tests.jobs.limits.integration import sample
from tests.jobs.limits.integration.sample import FAR, NO_DEBT, SLOW, SOME_DEBT, TEN, WINDOWS, left, used, waits_s

pytestmark = pytest.mark.django_db(transaction=True)


def codes(job: Job) -> list[str]:
    """Why a job does not run, as codes."""
    return [reason.code for reason in reads.why_not_running(job.pk)]


class TestSubmit:
    def test_gives_each_job_of_a_bulk_the_moment_it_reserved(self) -> None:
        sample.kind()
        jobs = farm.submit(25)
        waits = waits_s(jobs)
        assert waits[:10] == [0.0] * 10
        for nth, wait in enumerate(waits[10:], start=1):
            assert 6 * nth - 0.01 <= wait <= 6 * nth + min(0.6 * nth, 5) + 0.01
        assert {(job.limit_name, job.limit_key, job.limit_count) for job in jobs} == {(TEN, None, 1.0)}
        assert [job.limit_until for job in jobs[:10]] == [None] * 10
        assert all(job.limit_until == job.run_at for job in jobs[10:])

    def test_waits_for_whole_windows_where_the_limit_has_such(self) -> None:
        sample.kind(limit=WINDOWS)
        waits = waits_s(farm.submit(9))
        assert waits[:3] == [0.0] * 3
        first, second = waits[3:6], waits[6:]
        assert max(first) - min(first) <= 5.01
        assert all(3594 <= late - early <= 3606 for early, late in zip(first, second, strict=True))

    def test_takes_what_the_kind_says(self) -> None:
        sample.kind(limit=SLOW, limit_count=2.5)
        farm.submit(2)
        assert left(SLOW) == pytest.approx(5, abs=0.01)

    def test_makes_kinds_of_the_same_limit_share_it(self) -> None:
        sample.kind("chat-large", limit=SLOW, limit_count=4)
        sample.kind("chat-small", limit=SLOW)
        new = [operations.NewJob(kind=name, payload={}) for name in ("chat-large", "chat-small")]
        operations.submit_many(new)
        assert used(SLOW) == {"": 5.0}

    def test_gives_each_owner_as_many_where_the_kind_says_so(self) -> None:
        sample.kind(limit=SLOW, limit_key="owner")
        ada, bob = farm.user("ada"), farm.user("bob")
        farm.submit(3, owner=ada)
        [job] = farm.submit(1, owner=bob)
        farm.submit(1)
        assert used(SLOW) == {f"owner:{ada.pk}": 3.0, f"owner:{bob.pk}": 1.0, "owner:none": 1.0}
        assert job.limit_key == f"owner:{bob.pk}"

    def test_keeps_a_later_moment_that_was_asked_for(self) -> None:
        sample.kind()
        farm.submit(10)
        later = farm.now() + timedelta(hours=1)
        [job] = farm.submit(1, run_at=later)
        assert job.run_at == later
        assert job.limit_until is not None
        assert job.limit_until < later

    def test_counts_the_longest_wait_from_the_moment_it_may_start(self) -> None:
        sample.kind(expires_s=100)
        job = farm.submit(20)[-1]
        assert job.expires_at is not None
        assert (job.expires_at - job.run_at).total_seconds() == pytest.approx(100, abs=0.001)

    def test_is_refused_where_nobody_may_be_in_debt_and_stores_nothing(self) -> None:
        sample.kind(limit=NO_DEBT)
        farm.submit(2)
        with pytest.raises(RateLimited) as refused:
            farm.submit(1)
        assert refused.value.retry_after > timedelta(days=499)
        assert (Job.objects.count(), left(NO_DEBT)) == (2, 0)

    def test_is_refused_as_a_whole_where_a_bulk_is_too_far_ahead(self) -> None:
        sample.kind(limit=SLOW)
        sample.kind("other", limit=SOME_DEBT)
        farm.submit(1, "other")
        new = [operations.NewJob(kind="work", payload={}), *[operations.NewJob(kind="other", payload={})] * 5]
        with pytest.raises(RateLimited):
            operations.submit_many(new)
        assert (Job.objects.count(), used(SLOW), used(SOME_DEBT)) == (1, {}, {"": 1.0})

    def test_says_so_where_it_will_never_be_granted(self) -> None:
        sample.kind(limit=SOME_DEBT)
        with pytest.raises(CountExceedsLimit):
            farm.submit(6)
        assert Job.objects.count() == 0

    def test_lets_nobody_wait_longer_than_five_years(self) -> None:
        sample.kind(limit=FAR)
        farm.submit(1)
        with pytest.raises(RateLimited):
            farm.submit(1)
        assert (Job.objects.count(), used(FAR)) == (1, {"": 1.0})

    def test_gives_back_what_a_twin_would_have_taken(self) -> None:
        sample.kind(limit=SLOW)
        farm.submit(1, unique_key="same")
        with pytest.raises(NotUnique):
            operations.submit("work", {}, unique_key="same")
        again = [operations.NewJob(kind="work", payload={}, unique_key=key) for key in ("same", "new", "new")]
        assert [isinstance(answer, int) for answer in operations.submit_many(again)] == [False, True, False]
        assert used(SLOW) == {"": 2.0}

    def test_rolls_back_with_the_callers_transaction(self) -> None:
        sample.kind(limit=SLOW)
        with farm.rolled_back():
            farm.submit(3)
        assert (Job.objects.count(), used(SLOW)) == (0, {})

    def test_asks_once_for_each_limit_and_not_at_all_for_a_kind_without_one(self) -> None:
        sample.kind()
        sample.kind("other", limit=SLOW)
        farm.kind("plain")
        for new, expected in (("plain",), 0), (("work", "other"), 2):
            jobs = [operations.NewJob(kind=name, payload={}) for name in new for _ in range(5)]
            with CaptureQueriesContext(connection) as captured:
                operations.submit_many(jobs)
            executed = [query["sql"] for query in captured.captured_queries]
            assert sum("ratelimits.take" in sql for sql in executed) == expected
            assert sum("jobs.submit" in sql for sql in executed) == 1
            assert expected or not any("ratelimits" in sql for sql in executed)

    def test_fails_loudly_where_the_limit_of_a_kind_is_declared_no_more(self) -> None:
        sample.kind()
        Kind.objects.update(limit="gone")
        with pytest.raises(UnknownLimit):
            farm.submit(1)


class TestWhyNotRunning:
    def test_says_that_it_waits_for_its_limit_and_until_when(self) -> None:
        sample.kind()
        farm.worker()
        job = farm.submit(12)[-1]
        [reason] = reads.why_not_running(job.pk)
        assert reason.code == "waiting_for_limit"
        assert reason.sentence.startswith(f"It is waiting for the limit {TEN} until ")
        assert (reason.numbers["limit"], reason.numbers["until"]) == (TEN, job.limit_until)

    def test_says_both_where_a_later_moment_was_asked_for(self) -> None:
        sample.kind()
        farm.worker()
        farm.submit(10)
        [job] = farm.submit(1, run_at=farm.now() + timedelta(hours=1))
        assert codes(job) == ["waiting_for_limit", "not_due"]

    def test_says_nothing_of_the_limit_once_its_tokens_came_in(self) -> None:
        sample.kind()
        me = farm.worker()
        job = farm.submit(11)[-1]
        operations.claim(me, limit=10)
        farm.alter(job, limit_until=farm.now(), run_at=farm.now())
        assert codes(job) == ["next"]


class TestGivingBack:
    def test_is_done_by_a_cancel_before_the_start(self) -> None:
        sample.kind(limit=SLOW, limit_count=3)
        [job] = farm.submit(1)
        operations.cancel(job.pk, by=None)
        operations.cancel(job.pk, by=None)  # too late: it gives nothing twice
        assert left(SLOW) == 10
        assert used(SLOW) == {"": 0.0}

    def test_is_not_done_once_a_worker_had_the_job(self) -> None:
        sample.kind(limit=SLOW)
        me = farm.worker()
        running, released, failed = farm.submit(3)
        claims = {claimed.id: claimed for claimed in operations.claim(me, limit=3)}
        operations.release(me, released.pk, claims[released.pk].lease)
        farm.fail(me, claims[failed.pk])
        for job in (running, released, failed):
            operations.cancel(job.pk, by=None)
        assert used(SLOW) == {"": 3.0}

    def test_is_done_by_the_janitor_for_what_expired_unstarted(self) -> None:
        sample.kind(limit=SLOW, expires_s=60)
        me = farm.worker()
        jobs = farm.submit(4)
        claimed = farm.claim_one(me)
        operations.release(me, claimed.id, claimed.lease)
        for job in jobs:
            farm.pass_time(job, 61)
        assert operations.sweep().expired == 3  # a worker had the other one in time
        assert [farm.status(job) for job in jobs].count("timed_out") == 3
        assert used(SLOW) == {"": 1.0}

    def test_takes_no_job_from_its_end_where_the_limit_is_declared_no_more(self) -> None:
        sample.kind()
        [job] = farm.submit(1)
        Job.objects.filter(pk=job.pk).update(limit_name="gone")
        assert operations.cancel(job.pk, by=None).status == "canceled"


class TestTryingAgain:
    def test_by_itself_takes_nothing(self) -> None:
        sample.kind(limit=SLOW)
        me = farm.worker()
        farm.submit(1)
        farm.fail(me, farm.claim_one(me))
        assert used(SLOW) == {"": 1.0}

    def test_by_hand_takes_anew_for_the_same_owner(self) -> None:
        sample.kind(limit=SLOW, limit_key="owner")
        ada = farm.user("ada")
        old = farm.ended("failed", owner=ada)
        new = operations.retry(old.pk, by=None)
        assert (new.limit_name, new.limit_key) == (SLOW, f"owner:{ada.pk}")
        assert used(SLOW) == {f"owner:{ada.pk}": 2.0}


class TestAKind:
    def test_may_be_declared_with_a_limit_that_is_declared(self) -> None:
        with pytest.raises(InvalidValue, match="No limit is called 'nobody'"):
            kinds.declare(operations.Kind(name="dubious", limit="nobody"))
        assert "dubious" not in kinds.DECLARED

    @pytest.mark.parametrize(
        "fields", [{"limit": "nobody"}, {"limit": NO_DEBT, "limit_count": 2.1}, {"limit": SOME_DEBT, "limit_count": 6}]
    )
    def test_is_refused_where_its_limit_is_unknown_or_too_small(self, fields: dict[str, Any]) -> None:
        with pytest.raises(InvalidValue):
            operations.create_kind(operations.Kind(name="work", **fields))
        assert not Kind.objects.exists()

    @pytest.mark.parametrize("fields", [{"limit_count": 0}, {"limit_count": float("inf")}, {"limit_key": "user"}])
    def test_takes_a_positive_number_of_everybodys_or_the_owners(self, fields: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match="limit_"):
            operations.Kind(name="work", limit=TEN, **fields)

    def test_is_made_from_the_command_line(self) -> None:
        call_command("create_kind", "work", limit=TEN, limit_count=2.0, limit_key="owner")
        [kind] = Kind.objects.values_list("limit", "limit_count", "limit_key")
        assert kind == (TEN, 2.0, "owner")
        with pytest.raises(CommandError, match=r"No limit is called .*the call\.$"):
            call_command("create_kind", "work", limit="nobody")


class TestAnEndedJob:
    def test_keeps_what_it_took(self) -> None:
        sample.kind(limit=SLOW)
        job = farm.ended("success")
        with pytest.raises(IntegrityError, match="an ended job is never changed"), transaction.atomic():
            Job.objects.filter(pk=job.pk).update(limit_count=7)


class TestCodeOfTheSite:
    def test_submits_without_counting(self) -> None:
        farm.kind("plain")
        operations.submit("plain", {}, owner=User.objects.create_user("ada"))
        assert used("submit/user") == used("submit/token") == {}
        assert limits.get_value("submit/user", key="user:1").value == 4000
