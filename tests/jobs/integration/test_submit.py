"""Submitting: what is stored, what is refused, and what a twin is (promises 1 and 9)."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import transaction

from jobs import operations
from jobs.errors import (
    InvalidJson,
    InvalidValue,
    NotAllowed,
    NotAMember,
    NotEnded,
    NotFound,
    NotUnique,
    PayloadTooLarge,
    UnknownKind,
    UnknownQueue,
)
from jobs.models import Job, Live
from jobs.operations.submit import job_of
from jobs.queries import submits
from tests import farm
from tests.looped import looped

pytestmark = pytest.mark.django_db
LATER = datetime(2100, 1, 1, tzinfo=UTC)


class TestSubmit:
    def test_stores_what_was_given_and_takes_the_rest_from_the_kind(self) -> None:
        farm.kind(queue="gpu", max_attempts=5, timeout_s=60, expires_s=3600, retry_on_timeout=True, priority=7)
        ada = farm.user("ada")
        job = operations.submit("work", {"n": [1, "é"]}, owner=ada, unique_key="k")
        stored = Job.objects.get(pk=job.pk)
        assert {name: getattr(stored, name) for name in (
            "queue", "status", "priority", "owner_id", "group_id", "unique_key", "max_attempts", "timeout_s",
            "retry_on_timeout", "failures", "fence", "counted_in", "ended_at", "retry_of_id",
        )} == {
            "queue": "gpu", "status": "pending", "priority": 7, "owner_id": ada.pk, "group_id": None,
            "unique_key": "k", "max_attempts": 5, "timeout_s": 60.0, "retry_on_timeout": True, "failures": 0,
            "fence": 0, "counted_in": None, "ended_at": None, "retry_of_id": None,
        }  # fmt: skip
        assert stored.run_at == stored.created_at
        assert stored.expires_at == stored.created_at + timedelta(hours=1)
        assert stored.payload == {"n": [1, "é"]}
        assert {f.attname: getattr(job, f.attname) for f in Job._meta.concrete_fields} == {
            f.attname: getattr(stored, f.attname) for f in Job._meta.concrete_fields
        }

    def test_takes_what_is_given_over_what_the_kind_says(self) -> None:
        farm.kind(priority=7, max_attempts=5, timeout_s=60, expires_s=3600)
        farm.kind("other")
        job = operations.submit(
            "work", None, queue="other", priority=-100, max_attempts=1, timeout_s=0.5, run_at=LATER,
            expires_at=LATER + timedelta(days=1),
        )  # fmt: skip
        assert (job.queue, job.priority, job.max_attempts, job.timeout_s) == ("other", -100, 1, 0.5)
        assert (job.run_at, job.expires_at) == (LATER, LATER + timedelta(days=1))

    def test_counts_the_wait_from_when_it_is_due(self) -> None:
        farm.kind(expires_s=60)
        assert operations.submit("work", 1, run_at=LATER).expires_at == LATER + timedelta(seconds=60)
        past = operations.submit("work", 1, run_at=datetime(2001, 1, 1, tzinfo=UTC))
        assert past.expires_at == past.created_at + timedelta(seconds=60)

    @looped(
        ("options", "refusal"),
        [
            ({"kind": "nothing"}, UnknownKind),
            ({"kind": "a\x00"}, UnknownKind),
            ({"queue": "nowhere"}, UnknownQueue),
            ({"payload": float("nan")}, InvalidJson),
            ({"payload": "x" * 1_000_000}, PayloadTooLarge),
            ({"priority": 101}, InvalidValue),
            ({"priority": -101}, InvalidValue),
            ({"max_attempts": 0}, InvalidValue),
            ({"max_attempts": 1001}, InvalidValue),
            ({"timeout_s": 0}, InvalidValue),
            ({"timeout_s": float("inf")}, InvalidValue),
            ({"unique_key": ""}, InvalidValue),
            ({"unique_key": "x" * 201}, InvalidValue),
            ({"unique_key": "a\x00"}, InvalidValue),
            ({"unique_key": "a\ud800"}, InvalidValue),
            ({"run_at": datetime(2030, 1, 1)}, InvalidValue),
            ({"run_at": datetime(1999, 1, 1, tzinfo=UTC)}, InvalidValue),
            ({"expires_at": datetime(9999, 1, 1, tzinfo=UTC)}, InvalidValue),
        ],
        ids=str,
        rolled_back=True,
    )
    def test_refuses_what_cannot_be_and_stores_nothing(self, options: dict[str, Any], refusal: type) -> None:
        farm.kind()
        good = operations.NewJob(kind="work", payload=1)
        bad = farm.new_job(**{"payload": 1, **options})
        with pytest.raises(refusal):
            operations.submit_many([good, bad])
        assert not Job.objects.exists()
        assert not Job.objects.exists()

    def test_has_no_other_options_and_a_misspelt_one_is_no_default(self) -> None:
        farm.kind()
        for call in (operations.submit, operations.check_submit):
            misspelt: Any = {"prioritty": 5}
            with pytest.raises(TypeError, match="no option 'prioritty'"):
                call("work", {}, **misspelt)
        assert not Job.objects.exists()

    def test_takes_a_payload_of_exactly_a_megabyte(self) -> None:
        farm.kind()
        job = operations.submit("work", "x" * 999_998)
        assert len(Job.objects.get(pk=job.pk).payload) == 999_998

    def test_shares_only_with_a_group_of_ones_own(self) -> None:
        farm.kind()
        club = Group.objects.create(name="club")
        member, stranger = farm.user("ada", groups=[club]), farm.user("bob")
        assert operations.submit("work", 1, owner=member, group=club).group_id == club.pk
        with pytest.raises(NotAMember):
            operations.submit("work", 1, owner=stranger, group=club)

    def test_of_nothing_is_nothing(self) -> None:
        assert operations.submit_many([]) == []


class TestManyAtOnce:
    def test_are_answered_in_their_order_whatever_the_order_of_their_keys(self) -> None:
        farm.kind()
        farm.kind("other")
        keys = ["m", None, "a", "z", None, "b"]
        kinds = ["work", "other"] * 3
        answers = operations.submit_many(
            [
                operations.NewJob(kind=k, payload=n, unique_key=key)
                for n, (k, key) in enumerate(zip(kinds, keys, strict=True))
            ]
        )
        assert [(job.kind, job.unique_key, job.payload) for job in farm.stored_jobs(answers)] == [
            (kind, key, n) for n, (kind, key) in enumerate(zip(kinds, keys, strict=True))
        ]
        assert all(isinstance(answer, int) for answer in answers)
        assert [job.pk for job in Job.objects.order_by("pk")] == answers

    def test_leave_out_twins_within_the_call_and_in_the_table(self) -> None:
        farm.kind()
        old = operations.submit("work", "old", unique_key="a")
        answers = operations.submit_many(
            [operations.NewJob(kind="work", payload=n, unique_key=key) for n, key in enumerate("abbc")]
        )
        assert [isinstance(a, NotUnique) for a in answers] == [True, False, True, False]
        stored = Job.objects.exclude(pk=old.pk).order_by("pk").values_list("unique_key", "payload")
        assert list(stored) == [("b", 1), ("c", 3)]
        assert Job.objects.count() == Job.objects.count() == 3


class TestALargeBulk:
    """It is copied where a small one is inserted (jobs.queries.submits): what is stored must not tell."""

    AWKWARD = (
        "\\",
        "\\N",
        "\\.",
        "a\tb\nc\rd",
        "\u2028 \x7f \x01",
        "é 🎨",
        '"',
        "{}",
        None,
        {"\t": ["\\t", 0.1, True]},
    )

    def test_stores_what_a_small_one_stores(self) -> None:
        farm.kind(queue="gpu", max_attempts=5, timeout_s=60.5, expires_s=3600, priority=-7)
        farm.kind("other", retry_on_timeout=True)
        club = Group.objects.create(name="club")
        ada = farm.user("ada", groups=[club])
        new = [
            farm.new_job(kind, payload, **more)
            for payload in self.AWKWARD
            for kind, more in (
                ("work", {}),
                ("other", {"owner": ada, "group": club, "queue": "gpu", "priority": 3}),
                ("work", {"run_at": LATER.astimezone(timezone(timedelta(hours=5, minutes=45)))}),
                ("work", {"run_at": LATER, "expires_at": LATER + timedelta(days=1), "timeout_s": 0.5}),
                ("other", {"max_attempts": 1}),
                ("work", {"run_at": LATER - timedelta(days=36500)}),
            )
        ]
        assert len(new) >= submits.COPIED_FROM
        inserted = [job for n in range(0, len(new), 10) for job in operations.submit_many(new[n : n + 10])]
        copied = operations.submit_many(new)
        assert self._stored(inserted) == self._stored(copied)

    def test_is_answered_as_it_was_stored(self) -> None:
        farm.kind(expires_s=60)
        answers = operations.store([operations.NewJob(kind="work", payload=n) for n in range(submits.COPIED_FROM)])
        stored = sorted(Job.objects.whole(), key=lambda job: job.run_at)
        assert [self._columns(job) for job in stored] == [self._columns(job_of(answer)) for answer in answers]
        assert [job.payload for job in stored] == list(range(submits.COPIED_FROM))
        assert {later.run_at - job.run_at for job, later in pairwise(stored)} == {timedelta(microseconds=1)}

    def test_is_part_of_the_transaction_around_it(self) -> None:
        farm.kind()
        with farm.rolled_back():
            operations.submit_many([operations.NewJob(kind="work", payload=n) for n in range(100)])
            assert Job.objects.count() == Live.objects.count() == 100
        assert not Job.objects.exists()
        assert not Job.objects.exists()

    def test_with_one_twin_leaves_it_out(self) -> None:
        farm.kind()
        operations.submit("work", "old", unique_key="k")
        many = [operations.NewJob(kind="work", payload=n) for n in range(100)]
        many[42] = operations.NewJob(kind="work", payload=42, unique_key="k")
        answers = operations.submit_many(many)
        assert [n for n, answer in enumerate(answers) if isinstance(answer, NotUnique)] == [42]
        assert Job.objects.count() == 100

    def _stored(self, jobs: Sequence[Any]) -> list[dict[str, Any]]:
        """As rows; times count from the submit, but for the microseconds between one and the next."""
        return [self._relative(job) for job in farm.stored_jobs(jobs)]

    def _relative(self, job: Job) -> dict[str, Any]:
        since = {
            name: None
            if moment is None or moment.year in {2000, 2100}
            else round((moment - job.created_at).total_seconds(), 2)
            for name in ("run_at", "expires_at")
            for moment in (getattr(job, name),)
        }
        columns = self._columns(job) | since | {"payload": job.payload, "trace": job.traceparent}
        return {name: value for name, value in columns.items() if name not in {"id", "created_at"}} | {
            "absolute": [str(m) for m in (job.run_at, job.expires_at) if m is not None and m.year in {2000, 2100}]
        }

    def _columns(self, job: Any) -> dict[str, Any]:
        return {field.attname: getattr(job, field.attname) for field in Job._meta.concrete_fields}


class TestTransactions:
    def test_rolled_back_leave_nothing(self) -> None:
        farm.kind()
        with farm.rolled_back():
            operations.submit("work", 1, unique_key="k")
            assert Job.objects.count() == 1
        assert not Job.objects.exists()
        assert not Job.objects.exists()
        assert operations.submit("work", 1, unique_key="k").status == "pending"


class TestAUniqueKey:
    """Each state, and each move, against the rule that at most one live job of a kind has a key."""

    def _twin(self) -> bool:
        """Whether a twin would be taken now; it is taken back again."""
        with transaction.atomic():
            try:
                operations.submit("work", "twin", unique_key="k")
            except NotUnique:
                return False
            transaction.set_rollback(True)
            return True

    def test_keeps_a_twin_out_until_the_job_has_ended(self) -> None:
        farm.kind()
        me = farm.worker()
        job = operations.submit("work", 1, unique_key="k")
        seen = {"pending": self._twin()}
        claimed = farm.claim_one(me)
        seen["in_progress"] = self._twin()
        farm.fail(me, claimed)
        seen["waiting for a retry"] = self._twin()
        farm.pass_time(job, 60)
        claimed = farm.claim_one(me)
        operations.release(me, claimed.id, claimed.lease)
        seen["released"] = self._twin()
        claimed = farm.claim_one(me)
        farm.succeed(me, claimed)
        seen["success"] = self._twin()
        assert seen == {
            "pending": False, "in_progress": False, "waiting for a retry": False, "released": False,
            "success": True,
        }  # fmt: skip

    @pytest.mark.parametrize("end", ["success", "failed", "canceled", "timed_out"])
    def test_is_free_again_after_every_end(self, end: str) -> None:
        farm.kind()
        farm.ended(end, unique_key="k")
        assert self._twin()

    def test_belongs_to_its_kind(self) -> None:
        farm.kind()
        farm.kind("other")
        operations.submit("work", 1, unique_key="k")
        assert operations.submit("other", 1, unique_key="k").pk

    @pytest.mark.parametrize("end", ["success", "failed", "canceled", "timed_out"])
    def test_of_an_ended_job_can_be_used_by_every_move_of_the_newer_one(self, end: str) -> None:
        """No move of one can hit the other: only live rows are in the index, and an ended row never moves."""
        farm.kind()
        old = farm.ended(end, unique_key="k")
        before = farm.everything(old)
        new = operations.submit("work", 2, unique_key="k")
        me = farm.worker()
        claimed = farm.claim_one(me)
        assert farm.fail(me, claimed) == "pending"
        farm.pass_time(new, 60)
        farm.time_out(farm.claim_one(farm.worker("other")))
        assert (farm.status(new), farm.everything(old)) == ("timed_out", before)


class TestRetryingByHand:
    @pytest.mark.parametrize("end", ["success", "failed", "canceled", "timed_out"])
    def test_makes_a_new_job_that_points_at_the_old_one(self, end: str) -> None:
        farm.kind(max_attempts=4)
        club = Group.objects.create(name="club")
        ada = farm.user("ada", groups=[club])
        old = farm.ended(end, owner=ada, group=club, priority=-9, unique_key="k", timeout_s=30.0)
        before = farm.everything(old)
        new = operations.retry(old.pk, by=ada)
        same = ("kind", "queue", "priority", "owner_id", "group_id", "unique_key", "max_attempts", "timeout_s")
        assert {name: getattr(new, name) for name in same} == {name: getattr(old, name) for name in same}
        assert (new.retry_of_id, new.status, new.fence, new.failures) == (old.pk, "pending", 0, 0)
        assert new.payload == old.payload
        assert new.result is None
        assert farm.everything(old) == before

    def test_is_refused_while_a_twin_lives(self) -> None:
        farm.kind()
        old = farm.ended("failed", unique_key="k")
        newer = operations.submit("work", 1, unique_key="k")
        with pytest.raises(NotUnique):
            operations.retry(old.pk, by=None)
        assert (Job.objects.count(), farm.status(old), farm.status(newer)) == (2, "failed", "pending")

    def test_is_refused_while_it_waits_or_runs(self) -> None:
        farm.kind()
        [job] = farm.submit(1)
        me = farm.worker()
        with pytest.raises(NotEnded):
            operations.retry(job.pk, by=None)
        farm.claim_one(me)
        with pytest.raises(NotEnded):
            operations.retry(job.pk, by=None)

    @pytest.mark.parametrize("do", [operations.retry, operations.cancel], ids=["retry", "cancel"])
    def test_and_canceling_are_for_the_owner_and_for_operators(self, do: Any) -> None:
        farm.kind()
        club = Group.objects.create(name="club")
        owner, fellow = farm.user("ada", groups=[club]), farm.user("bob", groups=[club])
        stranger, chief = farm.user("eve"), farm.user("chief", is_staff=True, is_superuser=True)
        for person, refusal in [(stranger, NotFound), (fellow, NotAllowed), (owner, None), (chief, None)]:
            job = farm.ended("failed", owner=owner, group=club)
            if refusal is None:
                assert do(job.pk, by=person)
            else:
                with pytest.raises(refusal):
                    do(job.pk, by=person)
            for leftover in Job.objects.waiting():
                operations.cancel(leftover.pk, by=None)

    @pytest.mark.parametrize("job_id", [-1, 0, 10**9, 2**63, 2**80])
    def test_of_what_is_no_job_is_refused(self, job_id: int) -> None:
        with pytest.raises(NotFound):
            operations.retry(job_id, by=None)
        with pytest.raises(NotFound):
            operations.cancel(job_id, by=None)
