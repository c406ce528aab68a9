"""A job that requires labels goes to workers that have them, and to no other; nobody else notices it."""

from datetime import timedelta

import pytest
from django.db.models import F
from django.test.utils import override_settings

from jobs import operations
from jobs.models import Requirement, Worker
from jobs.queries import reads
from jobs.queries.reads import Interest
from tests import farm
from tests.jobs.labels import sample
from tests.jobs.labels.sample import ids, labelled

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _kind() -> None:
    farm.kind()


def _claimable(worker: Worker, queue: str = "work") -> int:
    interest = Interest(
        queues=(queue,), owner_id=worker.owner_id, satisfies=tuple(farm.stored_worker(worker).satisfies)
    )
    [answer] = reads.claimable([(interest, 10)], horizon_s=5.0)
    return answer.jobs


class TestClaim:
    @pytest.mark.parametrize("is_members", [False, True])
    def test_gives_it_to_who_has_the_label_alone(self, is_members: bool) -> None:
        owner = farm.user() if is_members else None
        small, big = labelled("small", vram="12", owner=owner), labelled("big", vram="24", owner=owner)
        job = sample.job({"vram": ">=16"}, owner=owner)
        plain = sample.job(owner=owner)
        assert ids(operations.claim(small, limit=10)) == [plain.pk]
        assert ids(operations.claim(big, limit=10)) == [job.pk]

    @pytest.mark.parametrize("is_members", [False, True])
    def test_keeps_to_it_for_sets_that_are_known_already(self, is_members: bool) -> None:
        owner = farm.user() if is_members else None
        sample.job({"vram": ">=16"}, owner=owner)
        big = labelled("big", vram="24", owner=owner)
        small = labelled("small", vram="12", owner=owner)
        assert operations.claim(small) == []
        assert len(operations.claim(big)) == 1

    def test_takes_by_priority_and_due_time_across_sets(self) -> None:
        worker = labelled("big", vram="24", region="home")
        first = sample.job({"vram": ">=16"})
        second = sample.job()
        third = sample.job({"region": "home"})
        urgent = sample.job({"region": "home", "vram": 24}, priority=5)
        assert [operations.claim(worker)[0].id for _ in range(4)] == [urgent.pk, first.pk, second.pk, third.pk]

    def test_goes_past_more_sets_than_it_looks_at_of_workers(self) -> None:
        worker = labelled("big", vram="24")
        for n in range(70):
            sample.job({"cuda": n})
        wanted = sample.job({"vram": 24})
        others = [sample.job({"vram": f"<={100 + n}"}) for n in range(70)]
        assert sorted(ids(operations.claim(worker, limit=100))) == [wanted.pk, *ids(others)]  # type: ignore[arg-type]

    def test_of_a_bulk_is_as_of_one(self) -> None:
        new = [
            operations.NewJob(kind="work", payload={}, requires={"vram": ">=16"} if n % 2 else None) for n in range(120)
        ]
        stored = operations.submit_many(new)
        wanted = [job_id for n, job_id in enumerate(stored) if n % 2]
        assert len(operations.claim(labelled("small", vram="12"), limit=200)) == 60
        assert sorted(ids(operations.claim(labelled("big", vram="24"), limit=200))) == wanted
        assert Requirement.objects.count() == 1


class TestLabels:
    def test_that_change_count_at_the_next_claim(self) -> None:
        worker = labelled("w", vram="12")
        job = sample.job({"vram": ">=16"})
        assert operations.claim(worker) == []
        sample.announce(worker, vram="24")
        assert farm.claim_one(worker).id == job.pk

    def test_that_are_taken_away_leave_a_worker_what_it_holds(self) -> None:
        worker = labelled("w", vram="24")
        first, second = sample.job({"vram": ">=16"}), sample.job({"vram": ">=16"})
        claimed = farm.claim_one(worker)
        bare = sample.announce(worker)
        assert operations.claim(bare) == []
        assert farm.succeed(bare, claimed) == "success"
        assert [farm.status(first), farm.status(second)] == ["success", "pending"]

    def test_that_staff_set_win_until_staff_leave_it_to_the_worker(self) -> None:
        staff = farm.user("root", is_staff=True)
        worker = labelled("w", vram="24", region="home")
        sample.job({"vram": ">=16"})
        operations.set_labels(worker, {"vram": "8"}, by=staff)
        worker = sample.announce(worker, vram="48", region="home")
        assert operations.claim(worker) == []
        operations.set_labels(worker, {}, by=staff)
        assert len(operations.claim(worker)) == 1

    def test_that_say_what_is_known_write_nothing(self) -> None:
        worker = labelled("w", vram="24")
        before = Worker.objects.values().get(pk=worker.pk)
        sample.announce(worker, vram="24")
        assert Worker.objects.values().get(pk=worker.pk) == before


class TestRetries:
    def test_keep_the_requirement_while_others_may_try_and_after_the_grace(self) -> None:
        first, _ = labelled("a", vram="24"), labelled("b", vram="24")
        small = labelled("small", vram="8")
        job = sample.job({"vram": ">=16"})
        farm.fail(first, farm.claim_one(first))
        farm.make_due(job)
        assert farm.avoided_by(job) == [first.pk]
        assert operations.claim(first) == operations.claim(small) == []
        farm.pass_time(job, 3600)
        assert operations.claim(small) == []
        assert farm.claim_one(first).id == job.pk

    def test_go_to_the_same_worker_where_no_other_has_the_label(self) -> None:
        only, _ = labelled("a", vram="24"), labelled("small", vram="8")
        job = sample.job({"vram": ">=16"})
        farm.fail(only, farm.claim_one(only))
        farm.make_due(job)
        assert farm.avoided_by(job) == []
        assert farm.claim_one(only).id == job.pk

    def test_by_hand_and_clones_keep_it(self) -> None:
        ada = farm.user()
        worker = labelled("a", vram="24")
        job = sample.job({"vram": ">=16"}, {"region": "home"}, owner=ada)
        farm.succeed(worker, farm.claim_one(worker))
        again, copy = operations.retry(job.pk, by=ada), operations.clone(job.pk, by=ada)
        assert job.requirement_id is not None
        assert {again.requirement_id, copy.requirement_id} == {job.requirement_id}
        assert operations.claim(labelled("small", vram="8"), limit=9) == []


class TestKinds:
    def test_may_require_labels_of_all_their_jobs(self) -> None:
        farm.kind("render", requires={"vram": ">=16"})
        job = operations.submit("render", {})
        tight = operations.submit("render", {}, requires={"vram": ">=48"})
        assert operations.claim(labelled("small", "render", vram="12"), limit=2) == []
        assert ids(operations.claim(labelled("big", "render", vram="24"), limit=2)) == [job.pk]
        assert farm.status(tight) == "pending"

    def test_refuse_conditions_that_are_none(self) -> None:
        with pytest.raises(ValueError, match="needs a number"):
            operations.Kind(name="render", requires={"vram": ">=much"})


class TestWaiting:
    @pytest.mark.parametrize("is_members", [False, True])
    def test_counts_for_a_worker_what_it_may_take(self, is_members: bool) -> None:
        owner = farm.user() if is_members else None
        small, big = labelled("small", vram="12", owner=owner), labelled("big", vram="24", owner=owner)
        sample.job({"vram": ">=16"}, owner=owner)
        sample.job({"vram": ">=8"}, owner=owner)
        sample.job(owner=owner)
        assert (_claimable(small), _claimable(big)) == (2, 3)


class TestSets:
    def test_have_one_spelling(self) -> None:
        assert sample.job({"vram": "2.0"}).requirement_id == sample.job({"vram": 2}).requirement_id


class TestHeadStart:
    def test_gives_a_live_worker_with_what_is_preferred_the_first_word(self) -> None:
        other, wanted = labelled("other", region="lab"), labelled("wanted", region="home")
        job = sample.job(prefers={"region": "home"})
        assert operations.claim(other) == []
        assert farm.claim_one(wanted).id == job.pk

    @pytest.mark.parametrize("is_members", [False, True])
    def test_is_over_soon_and_then_any_other_takes_it(self, is_members: bool) -> None:
        owner = farm.user() if is_members else None
        labelled("wanted", region="home", owner=owner)
        other = farm.worker("other", owner=owner)
        job = sample.job(prefers={"region": "home"}, owner=owner)
        [answer] = reads.claimable([(Interest(queues=("work",), owner_id=other.owner_id), 1)], horizon_s=5.0)
        assert answer.jobs == 0
        assert answer.next_due_in_s is not None
        assert 0 < answer.next_due_in_s <= 2
        farm.pass_time(job, 2.1)
        assert _claimable(other) == 1
        assert farm.claim_one(other).id == job.pk

    def test_is_none_where_no_live_worker_has_it(self) -> None:
        gone = labelled("gone", region="home")
        Worker.objects.filter(pk=gone.pk).update(last_seen_at=F("last_seen_at") - timedelta(hours=1))
        other = farm.worker("other")
        job = sample.job(prefers={"region": "home"})
        assert _claimable(other) == 1
        assert farm.claim_one(other).id == job.pk

    @override_settings()
    def test_can_be_turned_off(self, settings: object) -> None:
        settings.JOBFARM = {**settings.JOBFARM, "HEAD_START_S": 0.0}  # type: ignore[attr-defined]
        labelled("wanted", region="home")
        job = sample.job(prefers={"region": "home"})
        assert farm.claim_one(farm.worker("other")).id == job.pk

    def test_never_opens_a_job_to_who_lacks_what_is_required(self) -> None:
        labelled("both", region="home", vram="24")
        some, none = labelled("some", vram="24"), labelled("none", region="home")
        job = sample.job({"vram": ">=16"}, {"region": "home"})
        farm.pass_time(job, 60)
        assert operations.claim(none) == []
        assert farm.claim_one(some).id == job.pk

    def test_goes_to_who_has_the_model_loaded(self) -> None:
        cold, warm = labelled("cold"), labelled("warm", loaded=("tiny", "big"))
        job = sample.job(prefers={"loaded": "tiny"})
        assert operations.claim(cold) == []
        assert farm.claim_one(warm).id == job.pk
