"""How much an attempt and a job may hand in: output in bytes, files in number and bytes."""

from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from django.core.files import File
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from jobs import operations
from jobs.errors import QuotaReached
from jobs.models import Job, OutputChunk, ResultFile, Worker
from jobs.operations import quotas
from tests import farm

pytestmark = pytest.mark.django_db
Held = tuple[Worker, operations.ClaimedJob]


@pytest.fixture(autouse=True)
def _quotas(settings: Settings, tmp_path: Path) -> None:
    settings.MEDIA_ROOT = tmp_path
    settings.JOBFARM = {
        **settings.JOBFARM,
        "OUTPUT_BYTES_PER_ATTEMPT": 10, "OUTPUT_BYTES_PER_JOB": 25, "OUTPUT_PIECES_PER_ATTEMPT": 8,
        "FILES_PER_ATTEMPT": 3, "FILES_PER_JOB": 5, "FILE_BYTES_PER_ATTEMPT": 20, "FILE_BYTES_PER_JOB": 50,
    }  # fmt: skip


@pytest.fixture
def held() -> Held:
    """A worker and the job that it holds."""
    farm.kind()
    farm.submit(1)
    me = farm.worker()
    return me, farm.claim_one(me)


def _again(held: Held) -> Held:
    """The next attempt of the same job."""
    me, claimed = held
    operations.release(me, claimed.id, claimed.lease)
    return me, farm.claim_one(me)


def _write(held: Held, seq: int, text: str) -> int:
    me, claimed = held
    return operations.write_output(me, claimed.id, claimed.lease, seq=seq, text=text)


def _put(held: Held, name: str, size: int) -> ResultFile:
    me, claimed = held
    content = File(BytesIO(b"x" * size))
    return operations.put_file(me, claimed.id, claimed.lease, name=name, content=content)


def _refused(call: Any, *arguments: Any) -> dict[str, Any]:
    with pytest.raises(QuotaReached) as refused:
        call(*arguments)
    return refused.value.numbers


class TestOutput:
    def test_of_an_attempt_may_reach_its_quota_in_bytes_and_not_pass_it(self, held: Held) -> None:
        assert _write(held, 0, "é" * 3) == 1
        assert _write(held, 1, "four") == 2
        before = farm.everything(held[1])
        assert _refused(_write, held, 2, "x") == {
            "what": "bytes of output", "of": "attempt", "quota": 10, "used": 10, "more": 1,
        }  # fmt: skip
        assert farm.everything(held[1]) == before

    def test_is_refused_in_a_sentence_with_its_numbers(self, held: Held) -> None:
        with pytest.raises(QuotaReached) as refused:
            _write(held, 0, "x" * 11)
        assert refused.value.message == (
            "Quota of one attempt, bytes of output: 10 allowed, 0 used, 11 more requested."
        )

    def test_that_came_twice_is_counted_once_and_a_repeat_is_answered_at_the_quota_too(self, held: Held) -> None:
        for _ in range(2):
            assert _write(held, 0, "ten bytes.") == 1
        job = Job.objects.get(pk=held[1].id)
        assert (job.output_bytes, job.earlier_output_bytes) == (10, 0)

    def test_that_is_smaller_still_fits_after_a_piece_that_did_not(self, held: Held) -> None:
        _write(held, 0, "123456789")
        _refused(_write, held, 1, "22")
        assert _write(held, 1, "1") == 2

    def test_begins_anew_with_each_attempt_until_the_quota_of_the_job(self, held: Held) -> None:
        _write(held, 0, "x" * 10)
        held = _again(held)
        _write(held, 0, "x" * 10)
        held = _again(held)
        assert _refused(_write, held, 0, "x" * 6) == {
            "what": "bytes of output", "of": "job", "quota": 25, "used": 20, "more": 6,
        }  # fmt: skip
        assert _write(held, 0, "x" * 5) == 1
        job = Job.objects.get(pk=held[1].id)
        assert (job.output_bytes, job.earlier_output_bytes) == (5, 20)
        assert sum(len(chunk.text) for chunk in OutputChunk.objects.all()) == 25

    def test_has_a_quota_of_pieces_too_since_each_is_a_row(self, held: Held) -> None:
        for seq in range(8):
            assert _write(held, seq, "") == seq + 1
        assert _refused(_write, held, 8, "") == {
            "what": "pieces of output", "of": "attempt", "quota": 8, "used": 8, "more": 1,
        }  # fmt: skip
        assert _write(held, 7, "") == 8

    def test_costs_one_statement_however_much_there_is(self, held: Held) -> None:
        quotas.output_room()  # what the farm has is read every five seconds
        with CaptureQueriesContext(connection) as queries:
            _write(held, 0, "x")
        written = [query["sql"] for query in queries if "jobs_" in query["sql"]]
        assert len(written) == 1
        assert written[0].count("sum(") == written[0].count(" OVER (")  # over the pieces that came, of no table
        assert "count(" not in written[0]
        assert "FROM jobs_outputchunk" not in written[0]


class TestFiles:
    def test_of_an_attempt_are_counted(self, held: Held) -> None:
        for name in "abc":
            _put(held, name, 1)
        assert _refused(_put, held, "d", 1) == {"what": "files", "of": "attempt", "quota": 3, "used": 3, "more": 1}
        assert sorted(ResultFile.objects.values_list("name", flat=True)) == ["a", "b", "c"]

    def test_of_an_attempt_have_a_quota_of_bytes(self, held: Held) -> None:
        _put(held, "a", 15)
        assert _refused(_put, held, "b", 6) == {
            "what": "bytes of files", "of": "attempt", "quota": 20, "used": 15, "more": 6,
        }  # fmt: skip
        assert _put(held, "b", 5).size == 5

    def test_that_replace_one_are_counted_in_its_place(self, held: Held) -> None:
        for name in "abc":
            _put(held, name, 5)
        assert _put(held, "c", 10).size == 10
        assert _refused(_put, held, "c", 11) == {
            "what": "bytes of files", "of": "attempt", "quota": 20, "used": 10, "more": 11,
        }  # fmt: skip
        assert ResultFile.objects.get(name="c").size == 10

    @pytest.mark.parametrize(
        ("sizes", "numbers"),
        [
            ([1, 1, 1], {"what": "files", "of": "job", "quota": 5, "used": 5, "more": 1}),
            ([10, 10], {"what": "bytes of files", "of": "job", "quota": 50, "used": 40, "more": 11}),
        ],
        ids=["number", "bytes"],
    )
    def test_of_a_job_have_quotas_over_all_its_attempts(
        self, held: Held, sizes: list[int], numbers: dict[str, Any]
    ) -> None:
        for n, size in enumerate(sizes):
            _put(held, f"{n}", size)
        held = _again(held)
        for n, size in enumerate(sizes[:2]):
            _put(held, f"{n}", size)
        held = _again(held) if numbers["what"] == "bytes of files" else held
        assert _refused(_put, held, "last", numbers["more"]) == numbers

    def test_that_are_refused_leave_nothing_in_the_storage(self, held: Held, tmp_path: Path) -> None:
        _refused(_put, held, "a", 21)
        assert not [path for path in tmp_path.rglob("*") if path.is_file()]
        assert not ResultFile.objects.exists()

    def test_that_have_no_room_are_refused_before_they_are_stored(
        self, held: Held, tmp_path: Path, settings: Settings
    ) -> None:
        settings.MEDIA_ROOT = tmp_path / "a file"  # where nothing can be stored
        settings.MEDIA_ROOT.write_text("")
        _refused(_put, held, "a", 21)

    def test_of_one_job_are_not_counted_for_another(self, held: Held) -> None:
        _put(held, "a", 20)
        farm.submit(1)
        other = held[0], farm.claim_one(held[0])
        assert _put(other, "a", 20).size == 20
