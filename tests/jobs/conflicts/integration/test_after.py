"""A job that waits behind another of its unique_key starts when that has ended, however it did."""

from datetime import timedelta

import pytest

from jobs import operations
from jobs.domain.records import BEHIND
from jobs.errors import WaitsBehind
from jobs.models import Job, UniqueKey
from jobs.queries import reads
from tests import farm
from tests.jobs.conflicts.sample import is_sound, payload, push, run_all

pytestmark = pytest.mark.django_db
ENDS = ("success", "failed", "canceled", "lost", "timed_out")


@pytest.fixture(autouse=True)
def _kind() -> None:
    farm.kind()


def _end(how: str, job: operations.ClaimedJob, by: object) -> None:
    match how:
        case "success":
            farm.succeed(by, job)  # type: ignore[arg-type]
        case "failed":
            farm.fail(by, job, retryable=False)  # type: ignore[arg-type]
        case "canceled":
            operations.cancel(job.id, by=None)
        case "lost":
            farm.alter(job, max_attempts=1)
            farm.lose(job)
        case "timed_out":
            farm.time_out(job)


class TestAFollower:
    @pytest.mark.parametrize("how", ENDS)
    def test_starts_when_the_one_before_it_has_ended(self, how: str) -> None:
        first, me = push(1), farm.worker()
        claimed = farm.claim_one(me)
        second = push(2)
        assert (second.pk != first.pk, push(3).pk) == (True, second.pk)
        assert operations.claim(me) == []
        assert is_sound()
        _end(how, claimed, me)
        assert farm.status(first) == {"lost": "timed_out"}.get(how, how)
        assert is_sound()
        assert run_all() == [3]

    @pytest.mark.parametrize("how", ["failed", "lost", "released", "unconfirmed"])
    def test_goes_on_waiting_while_that_is_tried_again(self, how: str) -> None:
        first, me = push(1), farm.worker()
        claimed = farm.claim_one(me)
        push(2)
        match how:
            case "failed":
                farm.fail(me, claimed)
            case "lost":
                farm.lose(claimed)
            case "released":
                operations.release(me, claimed.id, claimed.lease)
            case "unconfirmed":
                farm.expire_lease(claimed, is_confirmed=False)
                operations.sweep()
        push(3)
        assert is_sound()
        farm.forgive(first)
        claimed = farm.claim_one(me)
        assert (claimed.id, claimed.payload) == (first.pk, {"n": 1})
        assert operations.claim(farm.worker("other")) == []
        farm.succeed(me, claimed)
        assert run_all() == [3]

    def test_starts_when_that_is_canceled_as_it_waits_for_a_retry(self) -> None:
        first, me = push(1), farm.worker()
        claimed = farm.claim_one(me)
        farm.fail(me, claimed)
        push(2)
        operations.cancel(first.pk, by=None)
        assert run_all() == [2]

    def test_that_is_canceled_leaves_the_place_to_a_newer_one(self) -> None:
        push(1)
        claimed = farm.claim_one(me := farm.worker())
        second = push(2)
        operations.cancel(second.pk, by=None)
        assert is_sound()
        third = push(3)
        assert third.pk != second.pk
        farm.succeed(me, claimed)
        assert run_all() == [3]
        assert Job.objects.get(pk=second.pk).run_at < farm.now()

    def test_starts_not_before_the_moment_that_it_names(self) -> None:
        push(1)
        claimed = farm.claim_one(me := farm.worker())
        later = farm.now() + timedelta(hours=1)
        second = push(2, run_at=later)
        farm.succeed(me, claimed)
        assert farm.stored(second).run_at == later
        assert run_all() == []

    def test_of_one_that_nobody_began_there_is_none(self) -> None:
        assert push(1).pk == push(2).pk
        assert run_all() == [2]

    def test_is_replaced_by_replace_too(self) -> None:
        push(1)
        claimed = farm.claim_one(me := farm.worker())
        second = push(2)
        assert push(3, "replace").pk == second.pk
        farm.succeed(me, claimed)
        assert run_all() == [3]

    def test_says_for_which_it_waits_and_cannot_run_before(self) -> None:
        ada = farm.user("ada")
        first = push(1, owner=ada)
        farm.claim_one(farm.worker())
        second = push(2, owner=ada)
        assert farm.stored(second).run_at == BEHIND
        [reason] = reads.why_not_running(second.pk)
        assert (reason.code, reason.numbers) == ("waits_behind", {"job": first.pk})
        assert f"behind job {first.pk}" in reason.sentence
        with pytest.raises(WaitsBehind) as refused:
            operations.run_now(second.pk, by=ada)
        assert refused.value.job == first.pk
        assert farm.stored(second).run_at == BEHIND

    def test_keeps_its_place_through_what_people_change(self) -> None:
        first, me = push(1), farm.worker()
        claimed = farm.claim_one(me)
        second = push(2)
        operations.change_priority(second.pk, 9, by=None)
        assert operations.claim(me) == []
        assert is_sound()
        farm.succeed(me, claimed)
        assert farm.claim_one(me).id == second.pk != first.pk

    def test_expires_as_it_asks_and_lets_the_place_go(self) -> None:
        push(1)
        farm.claim_one(farm.worker())
        second = push(2, expires_at=farm.now() + timedelta(seconds=1))
        farm.alter(second, expires_at=farm.now() - timedelta(seconds=1))
        operations.sweep()
        assert farm.status(second) == "timed_out"
        assert UniqueKey.objects.get().follower_id is None

    def test_of_an_owner_who_is_deleted_is_not_left_behind(self) -> None:
        ada = farm.user("ada")
        push(1, owner=ada)
        claimed = farm.claim_one(me := farm.worker())
        push(2, owner=ada)
        ada.delete()
        assert not UniqueKey.objects.exists()
        assert is_sound()
        assert run_all() == [2]
        farm.succeed(me, claimed)


class TestADebouncedJob:
    def test_runs_once_it_was_quiet_and_at_the_latest_after_at_most(self) -> None:
        debounce = {"quiet": 60, "at_most": 100}
        job = push(1, None, debounce=debounce)
        assert round((job.run_at - job.created_at).total_seconds()) == 60
        farm.pass_time(job, 30)
        job = push(2, None, debounce=debounce)
        assert round((job.run_at - farm.stored(job).created_at).total_seconds()) == 90
        farm.pass_time(job, 30)
        for n in (3, 4):
            job = push(n, None, debounce=debounce)
            assert round((job.run_at - farm.stored(job).created_at).total_seconds()) == 100
        assert run_all() == []
        farm.pass_time(job, 60)
        assert run_all() == [4]

    def test_waits_behind_the_one_that_runs(self) -> None:
        debounce = {"quiet": 60, "at_most": 100}
        first = push(1, None)
        claimed = farm.claim_one(me := farm.worker())
        second = push(2, None, debounce=debounce)
        assert second.pk == push(3, None, debounce=debounce).pk != first.pk
        farm.succeed(me, claimed)
        assert 55 < (farm.stored(second).run_at - farm.now()).total_seconds() <= 60
        assert payload(second.pk) == 3
