"""Input files: uploaded, given to jobs, handed to the worker that holds the lease, deleted with their last use."""

import hashlib
import re
import uuid
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.files import File
from django.core.files.storage import default_storage
from django.db import connection
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoAssertNumQueries, Settings

from jobs import operations
from jobs.errors import FileInUse, InvalidName, LeaseLost, NoSuchFile, PayloadTooLarge, QuotaReached, UnknownFile
from jobs.models import ALL_JOBS, Input, Job, ResultFile, Upload, Worker
from jobs.operations import content, quotas, rollup
from jobs.operations.handed_out import InputFile
from jobs.protocol.answers import Claimed
from jobs.queries import usage
from postgres import clock
from scheduling.errors import SomeFailed
from scheduling.models import ScheduledFunction
from scheduling.operations import retention
from tests import farm

pytestmark = pytest.mark.django_db
SOUND = b"OggS" * 100


@pytest.fixture(autouse=True)
def _farm(settings: Settings, tmp_path: Path) -> None:
    settings.MEDIA_ROOT = tmp_path
    rollup._Counting.not_before_s = 0.0
    quotas.WAITING.forget()
    farm.kind()


def upload(owner: User | None, name: str = "sound.ogg", content: bytes = SOUND) -> Upload:
    return operations.upload(name, File(BytesIO(content), name="anything"), owner=owner)


def give(owner: User | None, kept: Upload | str, **options: Any) -> Job:
    file = kept if isinstance(kept, str) else str(kept.pk)
    return operations.submit("work", {}, owner=owner, files={"audio": file}, **options)


def succeed_all() -> None:
    me = farm.worker()
    while claimed := operations.claim(me):
        farm.succeed(me, claimed[0])


def age(kept: Upload, hours: float) -> None:
    Upload.objects.filter(pk=kept.pk).update(created_at=Now() - timedelta(hours=hours))


def stored(kept: Upload) -> bool:
    return default_storage.exists(kept.stored_as)


def carry_out() -> None:
    """The deletions in the storage that are scheduled."""
    for row in ScheduledFunction.objects.filter(function__endswith="delete_files", status="pending"):
        content.delete_files(**row.args)


class TestAnUpload:
    def test_is_kept_with_its_size_and_hash_for_a_day(self, ada: User) -> None:
        kept = upload(ada)
        kept.refresh_from_db()
        assert (kept.name, kept.size, kept.owner) == ("sound.ogg", len(SOUND), ada)
        assert kept.sha256 == hashlib.sha256(SOUND).hexdigest()
        with default_storage.open(kept.stored_as) as file:
            assert file.read() == SOUND
        found, expires_at = operations.uploaded(kept.pk, by=ada)
        assert (found, expires_at) == (kept, kept.created_at + timedelta(hours=24))
        assert abs(kept.created_at - clock.now()) < timedelta(minutes=1)

    def test_is_of_no_concern_to_others(self, ada: User, bob: User) -> None:
        kept = upload(ada)
        for call in (operations.uploaded, operations.delete_upload):
            with pytest.raises(NoSuchFile):
                call(kept.pk, by=bob)
        assert stored(kept)

    def test_leaves_nothing_behind_where_it_is_refused(self, ada: User, settings: Settings, tmp_path: Path) -> None:
        settings.JOBFARM = {**settings.JOBFARM, "FILE_BYTES": 10}
        for name in ("../x", "", "a/b", ".x"):
            with pytest.raises(InvalidName):
                upload(ada, name=name, content=b"x")
        with pytest.raises(PayloadTooLarge):
            upload(ada, content=b"x" * 11)
        assert not Upload.objects.exists()
        assert not [path for path in tmp_path.rglob("*") if path.is_file()]

    def test_that_its_transaction_took_back_is_deleted(
        self, ada: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        full = QuotaReached(what="files", of="owner", quota=1, used=1, more=1)
        answers = iter([None, full])

        def check(*_: object) -> None:
            if refusal := next(answers):
                raise refusal

        monkeypatch.setattr(quotas, "check_upload", check)  # room before, and none when it is stored
        with pytest.raises(QuotaReached):
            upload(ada)
        assert not [path for path in tmp_path.rglob("*") if path.is_file()]

    def test_that_nobody_uses_goes_after_a_day(self, ada: User) -> None:
        young, old, used = upload(ada), upload(ada), upload(ada)
        job = give(ada, used)
        for kept, hours in ((young, 23.9), (old, 24.1), (used, 1000)):
            age(kept, hours)
        farm.retain()
        carry_out()
        assert [stored(kept) for kept in (young, old, used)] == [True, False, True]
        assert set(Upload.objects.all()) == {young, used}
        assert Input.objects.get().job == job

    def test_that_no_row_names_is_found_in_the_storage(self, ada: User) -> None:
        kept = upload(ada)
        lost = default_storage.save(f"jobs/inputs/{uuid.uuid4()}/lost.ogg", File(BytesIO(b"x")))
        later = clock.now() + timedelta(hours=2)
        assert operations.delete_orphaned_files(now=later) == [lost]
        assert stored(kept)

    def test_that_no_row_names_is_looked_for_by_the_ids_in_names(self, ada: User) -> None:
        """By names, to which no index leads, all rows were read for each five hundred of them, every five minutes."""
        job, me = give(ada, upload(ada)), farm.worker()
        claimed = farm.claim_one(me)
        operations.put_file(me, job.pk, claimed.lease, name="a.txt", content=File(BytesIO(b"bytes")))
        with CaptureQueriesContext(connection) as queries:
            assert operations.delete_orphaned_files(now=clock.now() + timedelta(hours=2)) == []
        assert [sql for sql in queries if re.search(r"WHERE .*stored_as", sql["sql"])] == []


class TestAQuota:
    def _allow(self, settings: Settings, **quota: int) -> None:
        settings.JOBFARM = {**settings.JOBFARM, **quota}

    def test_of_an_owner_counts_uploads_beside_result_files(self, ada: User, settings: Settings) -> None:
        self._allow(settings, FILES_PER_OWNER=2)
        me = farm.worker()
        give(ada, upload(ada))
        claimed = farm.claim_one(me)
        operations.put_file(me, claimed.id, claimed.lease, name="a", content=File(BytesIO(b"x")))
        with pytest.raises(QuotaReached) as refused:
            upload(ada)
        assert refused.value.numbers == {"what": "files", "of": "owner", "quota": 2, "used": 2, "more": 1}
        with pytest.raises(QuotaReached):
            operations.put_file(me, claimed.id, claimed.lease, name="b", content=File(BytesIO(b"x")))

    @pytest.mark.parametrize(("setting", "of"), [("FILE_BYTES_PER_OWNER", "owner"), ("FILE_BYTES_IN_ALL", "farm")])
    def test_of_bytes_holds(self, ada: User, settings: Settings, setting: str, of: str) -> None:
        self._allow(settings, **{setting: 10})
        upload(ada, content=b"x" * 6)
        with pytest.raises(QuotaReached) as refused:
            upload(ada, content=b"x" * 5)
        assert (refused.value.numbers["of"], refused.value.numbers["used"]) == (of, 6)

    def test_is_charged_once_however_many_jobs_use_it_and_freed_with_it(self, ada: User, bob: User) -> None:
        kept = upload(ada)
        jobs = [give(ada, kept), give(ada, kept)]
        for owner in (ada.pk, ALL_JOBS):
            assert self._used(owner) == (1, len(SOUND))
        assert self._used(bob.pk) == (0, 0)
        for job in jobs:
            operations.cancel(job.pk, by=ada)
        operations.delete_upload(kept.pk, by=ada)
        assert self._used(ada.pk) == self._used(ALL_JOBS) == (0, 0)

    def test_is_the_same_when_all_is_counted_anew(self, ada: User) -> None:
        upload(ada), upload(None, content=b"x")
        assert operations.recount_usage() == 0
        assert (self._used(ada.pk), self._used(ALL_JOBS)) == ((1, len(SOUND)), (2, len(SOUND) + 1))

    def test_of_a_deleted_person_is_nobodys(self, ada: User) -> None:
        kept = upload(ada)
        ada_pk = ada.pk
        ada.delete()
        kept.refresh_from_db()
        assert kept.owner is None
        assert self._used(ada_pk) == (0, 0)
        assert self._used(ALL_JOBS) == (1, len(SOUND))

    def _used(self, owner: int) -> tuple[int, int]:
        used = usage.of([owner])[owner]
        return used.files, used.file_bytes


class TestASubmit:
    def test_gives_an_upload_to_any_number_of_jobs(self, ada: User) -> None:
        kept = upload(ada)
        one, two = give(ada, kept), give(ada, kept)
        assert set(Input.objects.values_list("job", "name", "upload")) == {
            (one.pk, "audio", kept.pk),
            (two.pk, "audio", kept.pk),
        }
        assert operations.uploaded(kept.pk, by=ada) == (kept, None)

    def test_of_many_gives_each_its_own(self, ada: User) -> None:
        kept = [upload(ada, content=bytes([n])) for n in range(3)]
        plain = operations.NewJob(kind="work", payload={}, owner=ada)
        given = [
            operations.NewJob(kind="work", payload={}, owner=ada, files={"a": one.pk, "b": kept[0].pk}) for one in kept
        ]
        for copies in (1, 20):  # by an INSERT and by COPY
            jobs = operations.submit_many([plain, *given] * copies, by=ada)
            found: dict[int, dict[str, uuid.UUID]] = {job_id: {} for job_id in jobs if isinstance(job_id, int)}
            for job_id, name, upload_id in Input.objects.filter(job__in=found).values_list("job", "name", "upload"):
                found[job_id][name] = upload_id
            expected = [{}, *({"a": one.pk, "b": kept[0].pk} for one in kept)]
            assert [*found.values()] == expected * copies

    def test_leaves_out_a_twin_and_keeps_the_others_inputs(self, ada: User) -> None:
        kept = upload(ada)
        new = [
            operations.NewJob(kind="work", payload={}, owner=ada, unique_key=key, files={"a": kept.pk})
            for key in ("k", "k", "other")
        ]
        first, twin, last = operations.submit_many(new, by=ada)
        assert not isinstance(twin, int)
        assert {one.job_id for one in Input.objects.all()} == {first, last}

    @pytest.mark.parametrize("file", ["55e9c9c0-e031-4385-9c1a-a58c8ada306f", "7", "", "../../x", "\x00"])
    def test_refuses_what_is_no_upload_and_stores_nothing(self, ada: User, file: str) -> None:
        for by in (ada, None):
            with pytest.raises(UnknownFile):
                give(ada, file, by=by)
        assert not Job.objects.exists()

    def test_refuses_what_is_somebody_elses(self, ada: User, bob: User) -> None:
        kept = upload(ada)
        for options in ({"by": bob}, {}):  # code of the site that submits for Bob gives no more than Bob may
            with pytest.raises(UnknownFile):
                give(bob, kept, **options)
        with pytest.raises(UnknownFile):
            give(bob, upload(None), by=bob)
        assert not Job.objects.exists()

    def test_gives_also_what_a_job_has_that_one_may_see(self, ada: User, bob: User) -> None:
        room = Group.objects.create(name="room")
        ada.groups.add(room)
        bob.groups.add(room)
        kept, private = upload(ada), upload(ada)
        give(ada, kept, group=room)
        give(ada, private)
        assert Input.objects.filter(job=give(bob, kept, by=bob)).count() == 1
        with pytest.raises(UnknownFile):
            give(bob, private, by=bob)

    def test_by_the_site_gives_what_is_the_sites(self, ada: User) -> None:
        kept = upload(None)
        assert Input.objects.filter(job__in=[give(None, kept), give(ada, kept)]).count() == 2

    def test_without_files_asks_nothing_of_their_tables(
        self, ada: User, django_assert_num_queries: DjangoAssertNumQueries
    ) -> None:
        farm.submit(1, owner=ada)
        with django_assert_num_queries(2) as requested:  # the kind, and the insert
            operations.submit("work", {}, owner=ada)
        assert "jobs.submit_one" in requested[1]["sql"]
        assert Job.objects.filter(inputs__isnull=False).count() == 0


class TestACopy:
    @pytest.fixture
    def job(self, ada: User) -> Job:
        return give(ada, upload(ada))

    def test_by_retry_has_the_same_files(self, ada: User, job: Job) -> None:
        operations.cancel(job.pk, by=ada)
        again = operations.retry(job.pk, by=ada)
        assert Input.objects.get(job=again).upload == Input.objects.get(job=job).upload

    def test_by_clone_has_the_same_files_also_for_who_only_sees_it(self, job: Job) -> None:
        root = farm.user("root", is_staff=True, is_superuser=True)
        made = operations.clone(job.pk, by=root)
        assert made.owner == root
        assert Input.objects.get(job=made).upload == Input.objects.get(job=job).upload

    def test_of_a_file_that_was_deleted_is_refused(self, ada: User, job: Job) -> None:
        operations.cancel(job.pk, by=ada)
        operations.delete_upload(Input.objects.get().upload_id, by=ada)
        with pytest.raises(UnknownFile):
            operations.retry(job.pk, by=ada)
        assert Job.objects.count() == 1


class TestAWorker:
    def test_is_given_what_there_is_with_the_claim_and_nothing_of_jobs_without(self, ada: User) -> None:
        me = farm.worker()
        kept = upload(ada)
        give(ada, kept)
        claimed = farm.claim_one(me)
        assert claimed.files == [InputFile(name="audio", size=len(SOUND), sha256=kept.sha256, type="audio/ogg")]
        farm.submit(1)
        assert farm.claim_one(me).files is None

    @pytest.mark.parametrize("is_scoped", [False, True])
    def test_is_given_the_same_when_it_repeats_its_claim(self, ada: User, is_scoped: bool) -> None:
        me = farm.worker(owner=ada if is_scoped else None)
        give(ada, upload(ada))
        first, second = (operations.claim(me, request_id="once") for _ in range(2))
        assert first[0].files == second[0].files
        assert [entry.name for entry in second[0].files or ()] == ["audio"]

    def test_reads_only_with_the_lease(self, ada: User) -> None:
        me, other = farm.worker(), farm.worker("other")
        job = give(ada, upload(ada))
        lease = farm.claim_one(me).lease
        assert operations.read_input(me, job.pk, lease, name="audio").size == len(SOUND)
        for name in ("video", "../audio", "\x00"):
            with pytest.raises(NoSuchFile):
                operations.read_input(me, job.pk, lease, name=name)
        with pytest.raises(LeaseLost):
            operations.read_input(other, job.pk, lease, name="audio")
        operations.cancel(job.pk, by=ada)
        with pytest.raises(LeaseLost):
            operations.read_input(me, job.pk, lease, name="audio")

    def test_that_reads_is_alive(self, ada: User) -> None:
        me = farm.worker()
        job = give(ada, upload(ada))
        lease = farm.claim_one(me).lease
        farm.pass_time(job, 10)
        before = farm.stored(job).lease_expires_at
        operations.read_input(me, job.pk, lease, name="audio")
        after = farm.stored(job)
        assert after.lease_expires_at > before  # type: ignore[operator]
        assert after.confirmed_fence == 1


class TestDeleting:
    def test_is_refused_while_a_job_that_has_not_ended_uses_it(self, ada: User) -> None:
        kept = upload(ada)
        ended, waits = give(ada, kept), give(ada, kept)
        operations.cancel(ended.pk, by=ada)
        with pytest.raises(FileInUse):
            operations.delete_upload(kept.pk, by=ada)
        operations.cancel(waits.pk, by=ada)
        operations.delete_upload(kept.pk, by=ada)
        carry_out()
        assert not stored(kept)
        assert not Input.objects.exists()
        with pytest.raises(NoSuchFile):
            operations.uploaded(kept.pk, by=ada)

    def test_of_the_last_job_by_retention_deletes_the_bytes(self, ada: User) -> None:
        kept = upload(ada)
        age(kept, 31 * 24)
        old, young = give(ada, kept), give(ada, kept)
        succeed_all()
        farm.age(old, 31 * 86400)
        farm.retain()
        carry_out()
        assert stored(kept)
        assert [one.job_id for one in Input.objects.all()] == [young.pk]
        farm.age(young, 31 * 86400)
        farm.retain()
        assert not Upload.objects.exists()
        assert stored(kept), "the bytes go after the commit"
        carry_out()
        assert not stored(kept)
        assert not ResultFile.objects.exists()


def test_the_worker_of_a_claim_knows_no_ids_of_uploads(ada: User) -> None:
    me: Worker = farm.worker()
    give(ada, upload(ada))
    [job] = Claimed(jobs=[farm.claim_one(me)], drained=False).model_dump()["jobs"]
    [file] = job["files"]
    assert file.keys() == {"name", "size", "sha256", "type"}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("when", ["", "DEFERRABLE INITIALLY DEFERRED"], ids=["at once", "at the commit"])
def test_one_that_another_app_holds_keeps_no_other_from_being_deleted(ada: User, when: str) -> None:
    held, *_ = (upload(ada, name=f"{n}.ogg") for n in range(3))
    Upload.objects.update(created_at=Now() - timedelta(days=2))
    Upload.objects.filter(pk=held.pk).update(created_at=Now() - timedelta(days=3))  # the oldest, and so the first
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE holder (upload uuid REFERENCES jobs_upload {when})")
        cursor.execute("INSERT INTO holder VALUES (%s)", [held.pk])
    try:
        with pytest.raises(SomeFailed):
            retention.retain(names=["input files that no job uses"])
        assert [*Upload.objects.values_list("pk", flat=True)] == [held.pk]
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE holder")
