"""A newer submit of a unique_key takes the place of the job that waits, and of no other."""

from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.files import File
from django.db import connection, transaction
from django.db.utils import IntegrityError
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from accounts import operations as accounts
from jobs import operations
from jobs.errors import InvalidValue, NotUnique, TooManyWaiting
from jobs.models import Input, Job, Tag
from jobs.operations import quotas
from tests import farm
from tests.jobs.conflicts.sample import KEY, is_sound, payload, push, pushed, run_all
from tests.jobs.limits.integration import sample as limited

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _kind() -> None:
    quotas.WAITING.forget()
    farm.kind()


class TestTheWaitingTwin:
    def test_becomes_what_the_newest_submit_says(self) -> None:
        later = farm.now() + timedelta(hours=1)
        team = Group.objects.create(name="team")
        first = push(1, "replace")
        newest = push(
            2, "replace", priority=7, run_at=later, max_attempts=9, timeout_s=5.0, group=team, requires={"vram": ">=8"}
        )
        assert first.pk == newest.pk
        job = Job.objects.select_related("requirement", "live").whole().get()
        assert (job.payload, job.priority, job.run_at, job.max_attempts, job.timeout_s) == ({"n": 2}, 7, later, 9, 5.0)
        assert job.requirement is not None
        assert (job.requirement.requires, job.group, job.unique_key) == ({"vram": ">=8"}, team, KEY)
        assert (job.live.timeout_s, job.live.group_id) == (5.0, team.pk)
        assert job.replaced_at is not None
        assert job.replaced_at > job.created_at == first.created_at
        assert is_sound()

    def test_is_what_a_claim_gets_and_once(self) -> None:
        push(1, "replace")
        push(2, "replace")
        assert run_all() == [2]

    def test_keeps_its_place_in_the_queue_unless_the_newest_says_when(self) -> None:
        first = push(1, "replace")
        farm.submit(1)
        again = push(2, "replace")
        assert first.run_at == again.run_at
        later = push(3, "replace", run_at=farm.now() + timedelta(hours=1))
        assert push(4, "replace").run_at < later.run_at

    def test_is_woken_in_the_lane_that_it_goes_to(self) -> None:
        push(1, "replace", run_at=farm.now() + timedelta(hours=1))
        push(2, "replace", priority=50)
        assert is_sound()
        assert run_all() == [2]

    def test_that_was_given_back_before_anybody_began_it_is_replaced_too(self) -> None:
        job, me = push(1, "replace"), farm.worker()
        claimed = farm.claim_one(me)
        operations.withdraw(me, [(claimed.id, claimed.lease)])
        assert push(2, "replace").pk == job.pk
        assert run_all() == [2]

    def test_of_a_refusing_submit_is_replaced_and_one_that_refuses_is_refused(self) -> None:
        job = push(1, None)
        assert push(2, "replace").pk == job.pk
        refused = pushed(3, "refuse")
        assert isinstance(refused, NotUnique)
        assert (refused.job, refused.body.get("reason")) == (job.pk, None)

    def test_is_one_of_the_same_owner(self) -> None:
        ada, bob = farm.user("ada"), farm.user("bob")
        assert len({push(1, "replace", owner=one).pk for one in (ada, bob, None)}) == 3

    def test_is_gone_once_it_ended(self) -> None:
        job = push(1, "replace")
        operations.cancel(job.pk, by=None)
        assert push(2, "replace").pk != job.pk

    def test_is_replaced_by_nine_statements(self) -> None:
        push(1, "replace")
        with CaptureQueriesContext(connection) as queries:
            push(2, "replace")
        assert len([one for one in queries if "SAVEPOINT" not in one["sql"]]) <= 9


class TestAJobThatWasBegun:
    def test_refuses_a_replacement_and_says_why(self) -> None:
        job, me = push(1, "replace"), farm.worker()
        claimed = farm.claim_one(me)
        running = pushed(2, "replace")
        farm.fail(me, claimed)
        retrying = pushed(3, "replace")
        assert isinstance(running, NotUnique)
        assert isinstance(retrying, NotUnique)
        assert [(one.job, one.reason) for one in (running, retrying)] == [
            (job.pk, "in_progress"), (job.pk, "waits_for_retry")
        ]  # fmt: skip
        assert payload(job.pk) == 1

    def test_never_changes_its_payload_whoever_writes(self) -> None:
        job, me = push(1, "replace"), farm.worker()
        for _ in range(2):  # as it waits it takes more than a new payload; once it runs nothing does
            with pytest.raises(IntegrityError, match="a payload is never changed"), transaction.atomic():
                Job.objects.filter(pk=job.pk).update(payload={"n": 9})
            if operations.claim(me):
                with pytest.raises(IntegrityError, match="a payload is never changed"), transaction.atomic():
                    Job.objects.filter(pk=job.pk).update(payload={"n": 9}, replaced_at=farm.now())
        assert payload(job.pk) == 1

    def test_without_a_key_never_changes_either(self) -> None:
        [job] = farm.submit(1)
        with pytest.raises(IntegrityError, match="a payload is never changed"), transaction.atomic():
            Job.objects.filter(pk=job.pk).update(payload={"n": 9}, replaced_at=farm.now())


class TestABulk:
    def test_answers_each_of_one_key_with_the_job_that_the_last_became(self) -> None:
        old = push(0, "replace")
        new = [
            farm.new_job("work", {"n": n}, unique_key=key, on_conflict=how)
            for n, (key, how) in enumerate(
                [(KEY, "replace"), ("b", "after"), (None, None), ("b", "after"), ("c", None)]
            )
        ]
        first, *others = operations.submit_many(new)
        assert first == old.pk
        assert others[0] == others[2] != others[1]
        assert isinstance(others[0], int)
        assert payload(others[0]) == 3
        assert sorted(run_all()) == [0, 2, 3, 4]

    def test_of_one_key_that_differs_about_it_is_refused(self) -> None:
        new = [farm.new_job("work", {}, unique_key=KEY, on_conflict=how) for how in ("replace", "after")]
        with pytest.raises(InvalidValue):
            operations.submit_many(new)
        assert Job.objects.count() == 0


class TestThatIsRefused:
    @pytest.mark.parametrize(
        "options",
        [
            {"on_conflict": "replace"},
            {"debounce": {"quiet": 1, "at_most": 2}},
            {"on_conflict": "last", "unique_key": "k"},
            {"debounce": {"quiet": 1, "at_most": 2}, "unique_key": "k", "run_at": "later"},
        ],
        ids=["no key", "no key to debounce", "another word", "two times"],
    )
    def test_is_what_says_nothing(self, options: dict[str, Any]) -> None:
        if "run_at" in options:
            options["run_at"] = farm.now()
        with pytest.raises(InvalidValue):
            operations.submit("work", {}, **options)

    def test_is_a_token_that_may_not_cancel_the_job_of_another(self) -> None:
        ada = farm.user("ada")
        mine, other = (accounts.create_token(ada, name=name, scopes=["submit"])[0].pk for name in ("mine", "other"))
        job = push(1, "replace", owner=ada, token_id=mine, may_cancel=False)
        assert push(2, "replace", owner=ada, token_id=mine, may_cancel=False).pk == job.pk
        refused = pushed(3, "replace", owner=ada, token_id=other, may_cancel=False)
        assert isinstance(refused, NotUnique)
        assert (refused.job, refused.reason, payload(job.pk)) == (job.pk, "of_another_token", 2)


class TestWhatAJobTakes:
    def test_of_its_limit_is_taken_once(self) -> None:
        farm.kind("limited", limit=limited.PLENTY)
        for n in range(3):
            operations.submit("limited", n, unique_key="k", on_conflict="replace", limit_count=10 + n)
        assert limited.left(limited.PLENTY) == 988
        operations.cancel(Job.objects.get().pk, by=None)
        assert limited.left(limited.PLENTY) == 1000

    def test_of_the_quota_of_waiting_jobs_is_one_and_a_follower_takes_another(self, settings: Settings) -> None:
        settings.JOBFARM = {**settings.JOBFARM, "WAITING_JOBS_PER_OWNER": 2}
        ada, me = farm.user("ada"), farm.worker()
        push(1, "replace", owner=ada)
        farm.submit(1, owner=ada)
        push(2, "replace", owner=ada)
        assert quotas.used(ada.pk)[0].used == 2
        farm.claim_one(me)
        push(3, "after", owner=ada)
        quotas.WAITING.forget()
        push(4, "after", owner=ada)
        with pytest.raises(TooManyWaiting):
            farm.submit(1, owner=ada)

    def test_of_uploads_is_what_the_newest_names(self, settings: Settings, tmp_path: Path) -> None:
        settings.MEDIA_ROOT = tmp_path
        old, new = (
            operations.upload(f"{name}.ogg", File(BytesIO(b"OggS"), name="x"), owner=None) for name in ("old", "new")
        )
        job = push(1, "replace", files={"audio": str(old.pk), "more": str(old.pk)})
        push(2, "replace", files={"audio": str(new.pk)})
        assert [*Input.objects.values_list("job_id", "name", "upload_id")] == [(job.pk, "audio", new.pk)]
        inputs = Job.objects.whole().get().inputs
        assert [file["filename"] for file in inputs or ()] == ["new.ogg"]

    def test_without_uploads_lets_go_of_the_earlier_ones(self, settings: Settings, tmp_path: Path) -> None:
        settings.MEDIA_ROOT = tmp_path
        old = operations.upload("old.ogg", File(BytesIO(b"OggS"), name="x"), owner=None)
        job = push(1, "replace", files={"audio": str(old.pk)})
        push(2, "replace")
        assert not Input.objects.exists()
        assert Job.objects.get(pk=job.pk).inputs is None

    def test_of_tags_is_what_the_newest_names(self) -> None:
        job = push(1, "replace", tags=["old", "both"])
        push(2, "replace", tags=["both", "new"])
        assert Job.objects.get().tags == ["both", "new"]
        assert {*Tag.objects.values_list("tag", "job_id")} == {("both", job.pk), ("new", job.pk)}
        push(3, "replace")
        assert not Tag.objects.exists()
