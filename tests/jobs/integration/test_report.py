"""What a worker reports while it holds a job: progress, output in order, files."""

import hashlib
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from django.core.files import File
from django.core.files.storage import default_storage
from django.db import connection
from django.test import Client
from pytest_django import Settings

from accounts import operations as accounts
from jobs import operations
from jobs.api import reading
from jobs.errors import InvalidJson, InvalidName, InvalidValue, LeaseLost, OutputGap, PayloadTooLarge
from jobs.models import Job, OutputChunk, ResultFile, Worker
from jobs.queries import reads
from postgres import statements
from tests import farm
from tests.looped import looped

pytestmark = pytest.mark.django_db


@pytest.fixture
def mine() -> tuple[Worker, operations.ClaimedJob]:
    """A worker and the job that it holds."""
    farm.kind()
    farm.submit(1)
    me = farm.worker()
    return me, farm.claim_one(me)


class TestReadingALongOutput:
    @pytest.mark.parametrize(("pieces", "size"), [(120, 1_000), (1_000, 10)])
    def test_by_pages_reads_each_piece_a_few_times_at_most(
        self, mine: Any, monkeypatch: pytest.MonkeyPatch, pieces: int, size: int
    ) -> None:
        _, claimed = mine
        OutputChunk.objects.bulk_create(
            OutputChunk(job_id=claimed.id, attempt=1, seq=seq, text=f"{seq}".zfill(size)) for seq in range(pieces)
        )
        counts: list[int] = []
        read = reads.output

        def counted(*args: Any, **kwargs: Any) -> list[OutputChunk]:
            chunks = read(*args, **kwargs)
            counts.append(len(chunks))
            return chunks

        monkeypatch.setattr(reads, "output", counted)
        monkeypatch.setattr(reading, "MOST_OUTPUT_CHARACTERS", 8_000)
        owner = farm.user(is_staff=True, is_superuser=True)
        _, token = accounts.create_token(owner, name="reader")
        text, after = "", -1
        while text.count("\n") < pieces:
            page = Client().get(
                f"/api/v1/jobs/{claimed.id}/output?after={after}&fence=1",
                headers={"authorization": f"Bearer {token}"},
            ).json()  # fmt: skip
            text += "".join(chunk["text"] + "\n" for chunk in page["chunks"])
            after = page["next_seq"] - 1

        assert [int(line) for line in text.split()] == list(range(pieces))
        assert sum(counts) <= 3 * pieces


class TestHeartbeats:
    def test_move_the_end_of_the_lease_to_a_lease_from_now(self, mine: Any, settings: Settings) -> None:
        me, claimed = mine
        settings.JOBFARM = {**settings.JOBFARM, "LEASE_S": 345.0}
        before = farm.now()
        answer = operations.heartbeat(me, claimed.id, claimed.lease)
        assert answer == Job.objects.get(pk=claimed.id).lease_expires_at
        assert before + timedelta(seconds=345) <= answer <= farm.now() + timedelta(seconds=345)

    def test_keep_what_they_do_not_mention(self, mine: Any) -> None:
        me, claimed = mine
        for sent, stored in [
            ({"progress": 0.25, "detail": "a"}, (0.25, "a")),
            ({}, (0.25, "a")),
            ({"progress": 0.5}, (0.5, "a")),
            ({"detail": "é" * 300}, (0.5, "é" * 200)),
            ({"progress": 0, "detail": ""}, (0.0, "")),
        ]:
            operations.heartbeat(me, claimed.id, claimed.lease, **sent)  # type: ignore[arg-type]
            job = Job.objects.get(pk=claimed.id)
            assert (job.progress, job.detail) == stored

    @pytest.mark.parametrize("progress", [-0.01, 1.01, float("nan"), float("inf")])
    def test_with_progress_that_is_no_share_are_refused(self, mine: Any, progress: float) -> None:
        me, claimed = mine
        before = farm.everything(claimed)
        with pytest.raises(InvalidValue):
            operations.heartbeat(me, claimed.id, claimed.lease, progress=progress)
        assert farm.everything(claimed) == before

    def test_leave_it_to_the_transaction_around_them_to_wait_for_the_disk(self, mine: Any) -> None:
        me, claimed = mine
        operations.heartbeat(me, claimed.id, claimed.lease)
        assert farm.setting("synchronous_commit") == "on"
        fence = {"job": [claimed.id], "worker": me.pk, "fence": [claimed.attempt], "secret": [claimed.lease.secret]}
        sent = {"version": None, "lease_s": 60.0, "progress": [None], "detail": [None], "is_alone": True}
        assert statements.load("jobs", "heartbeat").run(fence | sent)
        assert farm.setting("synchronous_commit") == "off"

    def test_of_several_jobs_go_together_each_with_its_own_answer(self, mine: Any) -> None:
        me, claimed = mine
        others = [farm.claim_one(me) for _ in farm.submit(3)]
        lost = operations.Lease(fence=others[0].lease.fence, secret=claimed.lease.secret)
        before = farm.everything(others[0])
        beats = [
            operations.Beat(job_id=others[2].id, lease=others[2].lease, progress=0.5),
            operations.Beat(job_id=others[0].id, lease=lost, progress=0.5),
            operations.Beat(job_id=claimed.id, lease=claimed.lease, progress=2),
            operations.Beat(job_id=others[1].id, lease=others[1].lease, detail="Drawing"),
            operations.Beat(job_id=others[1].id, lease=others[1].lease, detail="Painting"),
        ]
        answers = operations.heartbeats(me, beats)
        ends = [Job.objects.get(pk=others[n].id).lease_expires_at for n in (2, 1, 1)]
        assert [answers[0], answers[3], answers[4]] == ends
        assert isinstance(answers[1], LeaseLost)
        assert isinstance(answers[2], InvalidValue)
        assert farm.everything(others[0]) == before
        rows = Job.objects.filter(pk__in=[other.id for other in others]).order_by("pk")
        assert [(row.progress, row.detail) for row in rows] == [(None, None), (None, "Painting"), (0.5, None)]

    def test_stay_on_their_page(self, mine: Any) -> None:
        """HOT: no index has a column of theirs. A heartbeat that is not writes eleven indexes.

        One transaction cannot prune the versions it left itself, so that a page may fill up and the row
        move to the next one: at most three of twenty, where an index with such a column makes it twenty.
        """
        me, claimed = mine
        written = _updates()
        for n in range(10):
            operations.heartbeat(me, claimed.id, claimed.lease, progress=n / 10, detail=str(n))
            operations.write_output(me, claimed.id, claimed.lease, seq=n, text="x")
        updates, kept = (now - then for now, then in zip(_updates(), written, strict=True))
        assert (updates, kept >= 17) == (20, True), f"{kept} of {updates} stayed"


def _updates() -> tuple[int, int]:
    """Updates of jobs_live in this transaction: all, and those that touched no index."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_xact_user_tables WHERE relname = 'jobs_live'")
        row: tuple[int, int] = cursor.fetchone()
    return row


class TestOutput:
    def test_is_kept_in_order_and_each_piece_once(self, mine: Any) -> None:
        me, claimed = mine
        write = [(0, "a", 1), (0, "again", 1), (1, "b", 2), (0, "old", 2), (1, "b", 2), (2, "c\n", 3)]
        for seq, text, expected in write:
            assert operations.write_output(me, claimed.id, claimed.lease, seq=seq, text=text) == expected
        stored = OutputChunk.objects.order_by("seq").values_list("attempt", "seq", "text")
        assert list(stored) == [(1, 0, "a"), (1, 1, "b"), (1, 2, "c\n")]
        assert [chunk.text for chunk in reads.output(claimed.id, attempt=1, after=0)] == ["b", "c\n"]

    @pytest.mark.parametrize("seq", [3, 2**31 - 2])
    def test_with_a_gap_is_refused_and_says_which_piece_is_expected(self, mine: Any, seq: int) -> None:
        me, claimed = mine
        operations.write_output(me, claimed.id, claimed.lease, seq=0, text="a")
        before = farm.everything(claimed)
        with pytest.raises(OutputGap) as refused:
            operations.write_output(me, claimed.id, claimed.lease, seq=seq, text="b")
        assert refused.value.next_seq == 1
        assert farm.everything(claimed) == before

    def test_is_a_sign_of_life(self, mine: Any) -> None:
        me, claimed = mine
        farm.pass_time(claimed, 50)
        operations.write_output(me, claimed.id, claimed.lease, seq=0, text="a")
        farm.pass_time(claimed, 50)
        assert operations.sweep().taken_back == 0
        operations.write_output(me, claimed.id, claimed.lease, seq=0, text="a")
        farm.pass_time(claimed, 50)
        assert operations.sweep().taken_back == 0

    def test_of_a_new_attempt_starts_at_nought_and_keeps_the_old(self, mine: Any) -> None:
        me, claimed = mine
        operations.write_output(me, claimed.id, claimed.lease, seq=0, text="first try")
        operations.release(me, claimed.id, claimed.lease)
        again = farm.claim_one(me)
        assert operations.write_output(me, again.id, again.lease, seq=0, text="second try") == 1
        texts = [reads.output(claimed.id, attempt=n)[0].text for n in (1, 2)]
        assert texts == ["first try", "second try"]

    @pytest.mark.parametrize(
        ("given", "refusal"),
        [
            ({"seq": -1}, InvalidValue),
            ({"seq": 2**31}, InvalidValue),
            ({"text": "a\x00"}, InvalidValue),
            ({"text": "\ud800"}, InvalidValue),
            ({"text": "é" * 500_001}, PayloadTooLarge),
        ],
        ids=["negative", "huge", "NUL", "surrogate", "too large"],
    )
    def test_that_cannot_be_stored_is_refused(self, mine: Any, given: dict[str, Any], refusal: type) -> None:
        me, claimed = mine
        before = farm.everything(claimed)
        with pytest.raises(refusal):
            operations.write_output(me, claimed.id, claimed.lease, **{"seq": 0, "text": "a", **given})
        assert farm.everything(claimed) == before

    def test_of_exactly_a_megabyte_is_taken(self, mine: Any) -> None:
        me, claimed = mine
        assert operations.write_output(me, claimed.id, claimed.lease, seq=0, text="é" * 500_000) == 1


class TestFiles:
    @pytest.fixture(autouse=True)
    def _files(self, settings: Settings, tmp_path: Path) -> None:
        settings.MEDIA_ROOT = tmp_path
        settings.JOBFARM = {**settings.JOBFARM, "FILE_BYTES": 10}

    def _put(self, mine: Any, name: str, content: bytes) -> ResultFile:
        me, claimed = mine
        return operations.put_file(me, claimed.id, claimed.lease, name=name, content=File(BytesIO(content)))

    def test_are_kept_with_size_and_checksum(self, mine: Any) -> None:
        file = self._put(mine, "a.png", b"0123456789")
        assert (file.attempt, file.name, file.size) == (1, "a.png", 10)
        assert file.sha256 == hashlib.sha256(b"0123456789").hexdigest()
        with default_storage.open(file.stored_as) as stored:
            assert stored.read() == b"0123456789"

    @looped(
        "name",
        ["", ".", "..", ".hidden", "a/b", "../a", "a\\b", "a b", "a\n", "é", "a\x00", "a" * 101, "/etc/passwd"],
        rolled_back=True,
    )
    def test_with_a_name_that_is_none_are_refused(self, mine: Any, name: str, tmp_path: Path) -> None:
        with pytest.raises(InvalidName):
            self._put(mine, name, b"x")
        assert not [path for path in tmp_path.rglob("*") if path.is_file()]

    def test_over_the_limit_are_refused(self, mine: Any) -> None:
        with pytest.raises(PayloadTooLarge):
            self._put(mine, "a", b"x" * 11)
        assert not ResultFile.objects.exists()

    def test_of_two_attempts_may_have_the_same_name(self, mine: Any) -> None:
        me, claimed = mine
        self._put(mine, "a", b"one")
        operations.release(me, claimed.id, claimed.lease)
        self._put((me, farm.claim_one(me)), "a", b"two")
        assert list(ResultFile.objects.order_by("attempt").values_list("attempt", "size")) == [(1, 3), (2, 3)]
        assert len(set(ResultFile.objects.values_list("stored_as", flat=True))) == 2


@pytest.mark.django_db(transaction=True)
class TestTheSameFileAgain:
    def test_replaces_the_first_and_leaves_one_in_the_storage(self, settings: Settings, tmp_path: Path) -> None:
        settings.MEDIA_ROOT = tmp_path
        farm.kind()
        farm.submit(1)
        me = farm.worker()
        claimed = farm.claim_one(me)
        for content in (b"one", b"three"):
            operations.put_file(me, claimed.id, claimed.lease, name="a", content=File(BytesIO(content)))
        [file] = ResultFile.objects.all()
        assert (file.size, [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]) == (5, [b"three"])


class TestResults:
    @pytest.mark.parametrize("result", [None, 0, "", False, [], {"a": [1, {"b": "\u2028"}]}])
    def test_are_kept_as_they_are(self, mine: Any, result: Any) -> None:
        me, claimed = mine
        farm.succeed(me, claimed, result)
        assert Job.objects.get(pk=claimed.id).result == result

    @pytest.mark.parametrize(
        ("result", "refusal"), [("x" * 1_000_000, PayloadTooLarge), ("\x00", InvalidJson), ({1: 2}, InvalidJson)]
    )
    def test_that_cannot_be_stored_are_refused_and_the_job_runs_on(self, mine: Any, result: Any, refusal: type) -> None:
        me, claimed = mine
        before = farm.everything(claimed)
        with pytest.raises(refusal):
            farm.succeed(me, claimed, result)
        assert farm.everything(claimed) == before
        assert farm.succeed(me, claimed, "small") == "success"
