"""Quotas hold for whoever hands in, and submits, at the same moment."""

from functools import partial
from io import BytesIO
from pathlib import Path

import pytest
from django.core.files import File
from pytest_django import Settings

from jobs import operations
from jobs.errors import JobsError, OutputGap, QuotaReached, TooManyWaiting
from jobs.models import ALL_JOBS, Job, OutputChunk, ResultFile, Usage, UsageDelta
from jobs.operations import quotas, rollup
from jobs.queries import usage
from tests import farm

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _quotas(settings: Settings, tmp_path: Path) -> None:
    settings.MEDIA_ROOT = tmp_path
    quotas = {"OUTPUT_BYTES_PER_ATTEMPT": 10, "FILES_PER_ATTEMPT": 4, "FILE_BYTES_PER_ATTEMPT": 10}
    settings.JOBFARM = {**settings.JOBFARM, **quotas}


def _refusal_of(call: object) -> type[JobsError] | None:
    try:
        call()  # type: ignore[operator]
    except JobsError as refusal:
        return type(refusal)
    return None


@pytest.mark.parametrize(("size", "kept"), [(1, 4), (4, 2)], ids=["number", "bytes"])
def test_files_at_once_do_not_slip_by_together(size: int, kept: int, tmp_path: Path) -> None:
    farm.kind()
    me = farm.worker()
    for _ in range(5):
        farm.submit(1)
        claimed = farm.claim_one(me)

        def put(name: str, held: operations.ClaimedJob = claimed) -> object:
            content = File(BytesIO(b"x" * size))
            return _refusal_of(lambda: operations.put_file(me, held.id, held.lease, name=name, content=content))

        answers = farm.at_once(*(partial(put, f"{n}") for n in range(8)))
        assert sorted(map(str, answers)) == sorted([str(None)] * kept + [str(QuotaReached)] * (8 - kept))
        assert ResultFile.objects.filter(job_id=claimed.id).count() == kept
        stored = [path for path in (tmp_path / "jobs" / str(claimed.id)).rglob("*") if path.is_file()]
        assert len(stored) == kept
        farm.succeed(me, claimed)


def test_pieces_of_output_at_once_are_counted_together() -> None:
    """Each as the first piece: one is stored, and one that came later is counted on top."""
    farm.kind()
    me = farm.worker()
    for _ in range(10):
        farm.submit(1)
        claimed = farm.claim_one(me)

        def write(seq: int, held: operations.ClaimedJob = claimed) -> object:
            return _refusal_of(lambda: operations.write_output(me, held.id, held.lease, seq=seq, text="x" * 6))

        answers = farm.at_once(*(partial(write, seq) for seq in (0, 0, 1, 1)))
        assert answers[:2] == [None, None]
        assert set(answers[2:]) <= {QuotaReached, OutputGap}
        written = OutputChunk.objects.filter(job_id=claimed.id)
        assert [chunk.seq for chunk in written] == [0]
        assert farm.stored(claimed).output_bytes == 6
        farm.succeed(me, claimed)


@pytest.mark.parametrize(("size", "kept"), [(1, 4), (4, 2)], ids=["number", "bytes"])
def test_files_of_different_jobs_of_one_owner_do_not_slip_by_together(size: int, kept: int, settings: Settings) -> None:
    quotas = {"FILES_PER_OWNER": 4, "FILE_BYTES_PER_OWNER": 10}
    settings.JOBFARM = {**settings.JOBFARM, **quotas}
    farm.kind()
    me = farm.worker()
    for n in range(5):
        ada, bob = farm.user(f"ada{n}"), farm.user(f"bob{n}")
        farm.submit(8, owner=ada)
        farm.submit(1, owner=bob)
        held = operations.claim(me, limit=9)

        def put(claimed: operations.ClaimedJob) -> object:
            content = File(BytesIO(b"x" * size))
            return _refusal_of(lambda: operations.put_file(me, claimed.id, claimed.lease, name="a", content=content))

        answers = farm.at_once(*(partial(put, claimed) for claimed in held))
        assert answers.count(None) == kept + 1
        assert answers.count(QuotaReached) == 8 - kept
        used = usage.of([ada.pk, bob.pk])
        assert (used[ada.pk].files, used[ada.pk].file_bytes) == (kept, kept * size)
        assert used[bob.pk].files == 1
        for claimed in held:
            farm.succeed(me, claimed)


def test_submits_at_once_pass_a_quota_by_no_more_than_were_under_way(settings: Settings) -> None:
    settings.JOBFARM = {**settings.JOBFARM, "WAITING_JOBS_PER_OWNER": 10}
    farm.kind()
    for n in range(5):
        quotas.WAITING.forget()
        ada = farm.user(f"ada{n}")
        farm.submit(6, owner=ada)
        submit = partial(_refusal_of, lambda owner=ada: farm.submit(1, owner=owner))
        answers = farm.at_once(*[submit] * 8)
        waiting = Job.objects.filter(owner=ada).count()
        assert 10 <= waiting <= 14
        assert answers.count(None) == waiting - 6
        assert answers.count(TooManyWaiting) == 14 - waiting
        quotas.WAITING.forget()
        assert submit() is TooManyWaiting


def test_output_of_different_jobs_passes_a_quota_by_a_piece_of_each_at_most(settings: Settings) -> None:
    """And by none of those that come when it is known to be reached."""
    settings.JOBFARM = {**settings.JOBFARM, "OUTPUT_BYTES_PER_OWNER": 10}
    farm.kind()
    me, ada = farm.worker(), farm.user("ada")
    farm.submit(4, owner=ada)
    held = operations.claim(me, limit=4)

    def write(claimed: operations.ClaimedJob, seq: int = 0) -> object:
        return _refusal_of(lambda: operations.write_output(me, claimed.id, claimed.lease, seq=seq, text="x" * 6))

    answers = farm.at_once(*(partial(write, claimed) for claimed in held))
    assert answers.count(None) >= 1
    assert OutputChunk.objects.count() == answers.count(None)
    assert [write(claimed, 1) for claimed, first in zip(held, answers, strict=True) if first is None] == (
        [QuotaReached] * answers.count(None)
    )


def test_nothing_is_lost_or_counted_twice_while_all_is_folded_and_recounted() -> None:
    farm.kind()
    me, ada = farm.worker(), farm.user("ada")
    farm.submit(60, owner=ada)
    held = operations.claim(me, limit=60)
    rollup.measure_usage()

    def hand_in(mine: list[operations.ClaimedJob]) -> None:
        for claimed in mine:
            operations.write_output(me, claimed.id, claimed.lease, seq=0, text="123")
            content = File(BytesIO(b"12"))
            operations.put_file(me, claimed.id, claimed.lease, name="a", content=content)
            farm.succeed(me, claimed)

    def measure() -> None:
        for n in range(30):
            rollup.measure_usage() if n % 3 else rollup.recount_usage()

    farm.at_once(*(partial(hand_in, held[n::4]) for n in range(4)), measure, measure)
    for owner in (ada.pk, ALL_JOBS):
        used = usage.of([owner])[owner]
        assert (used.output_bytes, used.files, used.file_bytes) == (180, 60, 120)
    assert rollup.recount_usage() == 0
    assert not UsageDelta.objects.exists()
    assert Usage.objects.get(pk=ada.pk).files == 60
