"""Quotas hold for whoever hands in at the same moment."""

from functools import partial
from io import BytesIO
from pathlib import Path

import pytest
from django.core.files import File
from django.db.models import Sum
from pytest_django import Settings

from jobs import operations
from jobs.errors import JobsError, OutputGap, QuotaReached
from jobs.models import Job, OutputChunk, ResultFile
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

        def put(name: str, held: operations.Claimed = claimed) -> object:
            content = File(BytesIO(b"x" * size))
            return _refusal_of(
                lambda: operations.put_file(me, held.id, held.lease, name=name, content=content)
            )

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

        def write(seq: int, held: operations.Claimed = claimed) -> object:
            return _refusal_of(
                lambda: operations.write_output(me, held.id, held.lease, seq=seq, text="x" * 6)
            )

        answers = farm.at_once(*(partial(write, seq) for seq in (0, 0, 1, 1)))
        assert answers[:2] == [None, None]
        assert set(answers[2:]) <= {QuotaReached, OutputGap}
        written = OutputChunk.objects.filter(job_id=claimed.id)
        assert [chunk.seq for chunk in written] == [0]
        assert Job.objects.filter(pk=claimed.id).aggregate(sum=Sum("output_bytes")) == {"sum": 6}
        farm.succeed(me, claimed)
