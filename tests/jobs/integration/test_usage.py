"""What the jobs of each owner keep is counted as they change, freed with them, and the same as a fresh count."""

import logging
import random
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.files import File
from django.db.models import Count, F, Sum
from pytest_django import Settings

from jobs import operations
from jobs.models import ALL_JOBS, Job, ResultFile, Usage, UsageDelta, Worker
from jobs.operations import quotas, rollup
from jobs.queries import usage
from tests import farm
from tests.effort import share

pytestmark = pytest.mark.django_db
MIB = 1 << 20


@pytest.fixture(autouse=True)
def _farm(settings: Settings, tmp_path: Path) -> Iterator[None]:
    settings.MEDIA_ROOT = tmp_path
    rollup._Counting.not_before_s = 0.0
    quotas.WAITING.forget()
    farm.kind()
    yield
    rollup._Counting.not_before_s = 0.0


@pytest.fixture
def me() -> Worker:
    return farm.worker()


def _hold(owner: User | None, me: Worker) -> operations.ClaimedJob:
    farm.submit(1, owner=owner)
    return farm.claim_one(me)


def _put(me: Worker, claimed: operations.ClaimedJob, name: str, size: int) -> None:
    content = File(BytesIO(b"x" * size))
    operations.put_file(me, claimed.id, claimed.lease, name=name, content=content)


def _write(me: Worker, claimed: operations.ClaimedJob, text: str) -> None:
    seq = farm.stored(claimed).next_seq
    operations.write_output(me, claimed.id, claimed.lease, seq=seq, text=text)


def _used(owner: User | None) -> tuple[int, int, int]:
    key = ALL_JOBS if owner is None else owner.pk
    used = usage.of([key])[key]
    return used.output_bytes, used.files, used.file_bytes


def _fresh(owner: User | None) -> tuple[int, int, int]:
    """Counted from the jobs themselves: of a running one its output by whole MiB."""
    jobs = Job.objects.all() if owner is None else Job.objects.filter(owner=owner)
    written = sum(
        job.earlier_output_bytes + (job.output_bytes // MIB * MIB if job.status == "in_progress" else job.output_bytes)
        for job in jobs
    )
    files = ResultFile.objects.filter(job__in=jobs).aggregate(n=Count("pk"), size=Sum("size", default=0))
    return written, files["n"], files["size"]


class TestOutput:
    def test_is_charged_when_its_attempt_ends_however_that_is(self, ada: User, me: Worker) -> None:
        ways: list[Callable[[operations.ClaimedJob], object]] = [
            lambda held: farm.succeed(me, held),
            lambda held: farm.fail(me, held),
            lambda held: operations.release(me, held.id, held.lease),
            lambda held: operations.cancel(held.id, by=ada),
            farm.lose,
        ]
        for n, end in enumerate(ways):
            held = _hold(ada, me)
            _write(me, held, "12345")
            end(held)
            Job.objects.waiting().filter(pk=held.id).update(priority=-50)
            assert _used(ada) == _used(None) == (5 * (n + 1), 0, 0), n

    def test_of_a_running_job_is_charged_by_whole_mib(self, ada: User, me: Worker) -> None:
        held = _hold(ada, me)
        _write(me, held, "x" * 900_000)
        assert _used(ada) == (0, 0, 0)
        _write(me, held, "x" * 200_000)
        assert _used(ada) == (MIB, 0, 0)
        assert usage.running_output(ada.pk) == usage.running_output(ALL_JOBS) == 1_100_000 - MIB
        farm.succeed(me, held)
        assert _used(ada) == (1_100_000, 0, 0)
        assert usage.running_output(ada.pk) == 0

    def test_of_a_job_that_wrote_nothing_writes_no_delta(self, ada: User, me: Worker) -> None:
        held = _hold(ada, me)
        operations.heartbeat(me, held.id, held.lease, progress=0.5)
        farm.succeed(me, held)
        assert not UsageDelta.objects.exists()


class TestWhatIsFreed:
    def _keep(self, ada: User, me: Worker) -> operations.ClaimedJob:
        held = _hold(ada, me)
        _write(me, held, "12345")
        _put(me, held, "a", 7)
        _put(me, held, "b", 8)
        farm.succeed(me, held)
        assert _used(ada) == _used(None) == (5, 2, 15)
        return held

    def test_by_retention(self, ada: User, me: Worker, settings: Settings) -> None:
        self._keep(ada, me)
        settings.JOBFARM = {**settings.JOBFARM, "RETENTION_DAYS": 0}
        assert farm.retain() == 1
        assert _used(ada) == _used(None) == (0, 0, 0)

    def test_when_somebody_deletes_the_job(self, ada: User, me: Worker) -> None:
        held = self._keep(ada, me)
        Job.objects.get(pk=held.id).delete()
        assert _used(ada) == _used(None) == (0, 0, 0)

    def test_when_one_file_is_replaced_or_deleted(self, ada: User, me: Worker) -> None:
        held = _hold(ada, me)
        _put(me, held, "a", 7)
        _put(me, held, "a", 3)
        assert _used(ada) == (0, 1, 3)
        ResultFile.objects.all().delete()
        assert _used(ada) == _used(None) == (0, 0, 0)

    def test_from_a_person_who_is_deleted_and_not_from_the_farm(self, ada: User, me: Worker) -> None:
        self._keep(ada, me)
        key = ada.pk
        rollup.measure_usage()
        ada.delete()
        assert usage.of([key])[key].files == 0
        assert _used(None) == (5, 2, 15)
        rollup.measure_usage()
        assert list(Usage.objects.values_list("owner_id", "files")) == [(ALL_JOBS, 2)]


class TestMeasuring:
    def test_folds_what_changed_and_says_the_same_after_it(self, ada: User, me: Worker) -> None:
        held = _hold(ada, me)
        _put(me, held, "a", 7)
        rollup.measure_usage()
        assert not UsageDelta.objects.exists()
        assert _used(ada) == _used(None) == (0, 1, 7)
        _put(me, held, "b", 1)
        rollup.measure_usage()
        assert _used(ada) == _used(None) == (0, 2, 8)

    def test_counts_what_waits(self, ada: User) -> None:
        farm.submit(3, owner=ada)
        farm.submit(2)
        rollup.measure_usage()
        used = usage.of([ALL_JOBS, ada.pk])
        assert (used[ALL_JOBS].waiting, used[ada.pk].waiting) == (5, 3)
        assert used[ALL_JOBS].counted_ago_s is not None
        farm.end(Job.objects.filter(owner=ada), "canceled")
        rollup._Counting.not_before_s = 0.0
        rollup.measure_usage()
        assert list(Usage.objects.values_list("owner_id", "waiting")) == [(ALL_JOBS, 2)]

    def test_counts_what_was_there_before_it_was_counted_at_all(
        self, ada: User, me: Worker, caplog: pytest.LogCaptureFixture
    ) -> None:
        """As after the migration: the triggers have seen nothing of it, or only how it went."""
        held = _hold(ada, me)
        _put(me, held, "a", 7)
        _put(me, held, "b", 7)
        UsageDelta.objects.all().delete()
        ResultFile.objects.filter(name="b").delete()
        assert _used(ada) == (0, -1, -7)
        rollup.measure_usage()
        assert _used(ada) == _used(None) == (0, 1, 7)
        assert not caplog.records

    def test_mends_what_was_written_past_the_triggers_and_logs_it(
        self, ada: User, me: Worker, caplog: pytest.LogCaptureFixture
    ) -> None:
        held = _hold(ada, me)
        _put(me, held, "a", 7)
        rollup.measure_usage()
        assert rollup.recount_usage() == 0
        Usage.objects.update(files=F("files") + 2, output_bytes=99)
        UsageDelta.objects.create(owner_id=ada.pk, file_bytes=5)
        with caplog.at_level(logging.WARNING):
            assert rollup.recount_usage() == 2
        assert _used(ada) == _used(None) == (0, 1, 7)
        assert caplog.messages == [
            f"the usage of {whose} was counted as 99 bytes of output, 3 files of 12 bytes, and is 0, 1, 7"
            for whose in ("the farm", f"owner {ada.pk}")
        ]
        assert rollup.recount_usage() == 0


class _Walk:
    """Steps at random, of workers, people and crons."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.people = [None, farm.user("ada"), farm.user("bob"), farm.user("eve")]
        self.me = farm.worker()
        self.held: list[operations.ClaimedJob] = []
        self.steps = (
            *(self.claim, self.claim, self.write, self.write, self.write, self.put, self.put),
            *(self.end, self.lose, self.cancel, self.delete, self.delete_file, self.give_away),
            *(self.retain, rollup.measure_usage, rollup.recount_usage),
        )

    def step(self) -> None:
        self.rng.choice(self.steps)()
        running = set(Job.objects.running().values_list("pk", flat=True))
        self.held = [held for held in self.held if held.id in running]

    def claim(self) -> None:
        farm.submit(1, owner=self.rng.choice(self.people))
        farm.avoid(Job.objects.waiting())
        self.held += operations.claim(self.me, limit=2)

    def write(self) -> None:
        if self.held:
            _write(self.me, self.rng.choice(self.held), "x" * self.rng.choice([0, 10, 3000, 700_000]))

    def put(self) -> None:
        if self.held:
            _put(self.me, self.rng.choice(self.held), self.rng.choice("abc"), self.rng.randrange(50))

    def end(self) -> None:
        if self.held:
            held = self.rng.choice(self.held)
            end = self.rng.choice(["succeed", "fail", "release"])
            if end == "release":
                operations.release(self.me, held.id, held.lease)
            else:
                getattr(farm, end)(self.me, held)

    def lose(self) -> None:
        if self.held:
            farm.lose(self.rng.choice(self.held))

    def cancel(self) -> None:
        job = Job.objects.living().order_by("?").first()
        if job:
            operations.cancel(job.pk, by=None)

    def delete(self) -> None:
        job = Job.objects.ended().order_by("?").first()
        if job:
            job.delete()

    def delete_file(self) -> None:
        file = ResultFile.objects.order_by("?").first()
        if file:
            file.delete()

    def give_away(self) -> None:
        job = Job.objects.order_by("?").first()
        if job:
            Job.objects.filter(pk=job.pk).update(owner=self.rng.choice(self.people))

    def retain(self) -> None:
        if self.rng.random() < 0.3:
            farm.retain()

    def check(self) -> None:
        for owner in self.people:
            assert _used(owner) == _fresh(owner), owner


@pytest.mark.parametrize("seed", range(share(6, of=6)))
def test_usage_is_what_a_fresh_count_says_after_any_steps(seed: int, settings: Settings) -> None:
    settings.JOBFARM = {**settings.JOBFARM, "RETENTION_DAYS": 0}
    walk = _Walk(random.Random(seed))
    for _ in range(120):
        walk.step()
        walk.check()
