"""`manage.py backup` and `restore`, tried: a farm comes back as it was, and goes on."""

import hashlib
import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.core.management import CommandError, call_command
from django.db import connection
from moto.server import ThreadedMotoServer
from pytest_django import Settings

from accounts import operations as accounts
from jobfarm import backups
from jobfarm.environment import values
from jobs import operations
from jobs.models import Job, ResultFile, Worker
from postgres import programs
from postgres.errors import ProgramFailed
from ratelimits import operations as ratelimits
from ratelimits.operations import TokenBucket
from scheduling import operations as scheduling
from scheduling.domain.calls import Kind
from scheduling.models import ScheduledFunction
from scheduling.operations import clusters
from tests import documented, farm
from tests.operations.databases import empty_database, on
from tests.scheduling.integration import sample
from tests.shells import Shell
from webhooks.domain.deliveries import Source
from webhooks.operations import secrets as webhook_secrets

pytestmark = pytest.mark.django_db(transaction=True)
ONE_A_DAY = TokenBucket(rate=1, period=timedelta(days=1))
SIGNING = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture
def place(tmp_path: Path, settings: Settings) -> Path:
    """Where this farm keeps its files, and where backups go."""
    settings.JOBFARM_DATA = tmp_path / "var"
    settings.MEDIA_ROOT = tmp_path / "var" / "files"
    settings.MEDIA_ROOT.mkdir(parents=True)
    return tmp_path


def tables() -> dict[str, list[Any]]:
    """All rows of all tables."""
    with connection.cursor() as cursor:
        rows = {}
        for table in sorted(connection.introspection.table_names(cursor)):
            cursor.execute(f'SELECT t::text FROM "{table}" AS t ORDER BY 1')
            rows[table] = cursor.fetchall()
    return rows


class TestBackup:
    def test_brings_a_farm_back_that_goes_on_with_nothing_doubled(self, place: Path) -> None:
        """What waited runs, what ran is finished by the lease that holds it and by no other, what ended stays ended,
        claim numbers go on, a spent limit is spent, and a sealed secret opens."""
        ada = farm.user()
        _, token = accounts.create_token(ada, name="laptop")
        worker, held, ended = _busy(ada)
        folder = place / "backup"
        call_command("backup", str(folder))
        before = tables()
        with empty_database() as name, on(name):
            call_command("restore", str(folder))
            assert tables() == before
            _goes_on(worker, held, ended)
            assert accounts.token(token).user == ada
            assert webhook_secrets.newest(Source.CLERK) == SIGNING
        assert tables() == before, "the farm that was backed up is as it was"

    def test_holds_the_files_and_the_key_and_is_readable_by_its_owner_alone(
        self, place: Path, settings: Settings
    ) -> None:
        default_storage.save("jobs/7/picture.png", ContentFile(b"\x89PNG"))
        folder = place / "backup"
        call_command("backup", str(folder))
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert (folder / "files" / "jobs" / "7" / "picture.png").read_bytes() == b"\x89PNG"
        assert (folder / "secret_key").read_text().strip() == settings.SECRET_KEY
        assert stat.S_IMODE((folder / "secret_key").stat().st_mode) == 0o600
        assert json.loads((folder / "backup.json").read_text())["with_files"] is True
        settings.MEDIA_ROOT = place / "elsewhere"
        settings.SECRET_KEY, own = "another", settings.SECRET_KEY
        with empty_database() as name, on(name):
            call_command("restore", str(folder))
        assert (place / "elsewhere" / "jobs" / "7" / "picture.png").read_bytes() == b"\x89PNG"
        assert (settings.JOBFARM_DATA / "secret_key").read_text().strip() == own

    def test_is_never_written_over_another(self, place: Path) -> None:
        with pytest.raises(CommandError, match="exists already"):
            call_command("backup", str(place))

    def test_that_failed_leaves_nothing_behind(self, place: Path, settings: Settings) -> None:
        settings.MEDIA_ROOT = place / "file"
        settings.MEDIA_ROOT.write_text("no folder")
        with pytest.raises(CommandError):
            call_command("backup", str(place / "backup"))
        assert sorted(path.name for path in place.iterdir()) == ["file", "var"]


class TestFilesInABucket:
    def test_come_along_and_go_back_to_a_bucket_or_to_a_disk(
        self, place: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with buckets(monkeypatch, "first", "second") as address:
            _files_in(settings, f"s3://first/farm?endpoint={address}")
            job = _with_a_file()
            kept = operations.upload("in.txt", ContentFile(b"given"), owner=None)
            folder = place / "backup"
            call_command("backup", str(folder))
            _files_in(settings, f"s3://second/other?endpoint={address}")
            with empty_database() as name, on(name):
                call_command("restore", str(folder))
                assert _content(job) == b"PNG"
                with default_storage.open(kept.stored_as) as stored:
                    assert stored.read() == b"given"
            _files_in(settings, None)
            with empty_database() as name, on(name):
                call_command("restore", str(folder))
                assert _content(job) == b"PNG"
        assert next(settings.MEDIA_ROOT.rglob("picture.png")).read_bytes() == b"PNG"

    def test_stay_there_if_the_operator_says_so(
        self, place: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with buckets(monkeypatch, "first") as address:
            _files_in(settings, f"s3://first/farm?endpoint={address}")
            job = _with_a_file()
            folder = place / "backup"
            call_command("backup", str(folder), without_files=True)
            assert not (folder / "files").exists()
            with empty_database() as name, on(name):
                call_command("restore", str(folder))
                assert _content(job) == b"PNG"

    def test_that_cannot_be_fetched_fail_the_backup(
        self, place: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with buckets(monkeypatch, "first") as address:
            _files_in(settings, f"s3://first/farm?endpoint={address}")
            _with_a_file()
        with pytest.raises(CommandError, match="could not be fetched"):
            call_command("backup", str(place / "backup"))
        assert not (place / "backup").exists()


class TestSeries:
    def test_keeps_the_newest_and_touches_nothing_that_is_not_of_it(self, place: Path) -> None:
        folder = place / "backups"
        call_command("backup", str(folder), keep=2)
        [first] = folder.iterdir()
        for name in ("20200101T000000Z", "20210101T000000Z", "before-0.2.0"):
            shutil.copytree(first, folder / name)
        (folder / "20190101T000000Z").mkdir()  # nothing that we know
        moment = first.name
        first.rename(folder / "20220101T000000Z")
        call_command("backup", str(folder), keep=2)
        unknown, second, newest, named = sorted(path.name for path in folder.iterdir())
        assert (unknown, second, named) == ("20190101T000000Z", "20220101T000000Z", "before-0.2.0")
        assert newest >= moment
        backups.read(folder / newest)

    def test_that_fails_removes_nothing(self, place: Path, settings: Settings) -> None:
        folder = place / "backups"
        call_command("backup", str(folder), keep=1)
        [first] = folder.iterdir()
        settings.MEDIA_ROOT = place / "file"
        settings.MEDIA_ROOT.write_text("no folder")
        with pytest.raises(CommandError):
            call_command("backup", str(folder), keep=1)
        assert list(folder.iterdir()) == [first]

    def test_clears_what_a_killed_process_left_a_day_ago(self, place: Path) -> None:
        folder = place / "backups"
        old, new = (folder / f"2020010{n}T000000Z.unfinished-0123abcd" for n in (1, 2))
        for remains in (old, new):
            (remains / "files").mkdir(parents=True)
        for path in (old / "files", old):
            os.utime(path, (0, 0))
        call_command("backup", str(folder), keep=1)
        assert (old.exists(), new.exists()) == (False, True)


class TestRestore:
    def test_refuses_a_database_with_anything_in_it(self, place: Path) -> None:
        folder = place / "backup"
        call_command("backup", str(folder))
        before = tables()
        with pytest.raises(CommandError, match=r"is not empty.*: an empty JOBFARM_DATA, or createdb"):
            call_command("restore", str(folder))
        assert tables() == before

    def test_refuses_a_key_that_opens_nothing_of_it(
        self, place: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = place / "backup"
        call_command("backup", str(folder))
        settings.SECRET_KEY = "another"
        monkeypatch.setenv("SECRET_KEY", "another")
        with empty_database() as name, on(name):
            with pytest.raises(CommandError, match="SECRET_KEY is another"):
                call_command("restore", str(folder))
            assert connection.introspection.table_names() == []

    def test_says_when_the_tables_are_not_those_that_were_counted(self, place: Path) -> None:
        farm.kind()
        farm.submit(2)
        folder = place / "backup"
        call_command("backup", str(folder))
        note = json.loads((folder / "backup.json").read_text())
        assert note["rows"]["jobs_job"] == 2
        note["rows"]["jobs_job"] = 3
        (folder / "backup.json").write_text(json.dumps(note))
        with (
            empty_database() as name,
            on(name),
            pytest.raises(CommandError, match="do not start it: jobs_job has 2 rows, and had 3"),
        ):
            call_command("restore", str(folder))

    def test_reads_the_newest_job_that_ended_with_its_file(self, place: Path) -> None:
        farm.kind()
        worker = farm.worker()
        [job] = farm.submit(1)
        held = farm.claim_one(worker)
        operations.put_file(worker, held.id, held.lease, name="picture.png", content=ContentFile(b"PNG"))
        farm.succeed(worker, held, {"made": 1})
        folder = place / "backup"
        call_command("backup", str(folder))
        [file] = (folder / "files").rglob("picture.png")
        file.write_bytes(b"")
        with (
            empty_database() as name,
            on(name),
            pytest.raises(CommandError, match=f"picture.png of job {job.pk} has 0 bytes, and had 3"),
        ):
            call_command("restore", str(folder))

    @pytest.mark.parametrize("sentence", ["", "{}", '{"format": 2}', "[]"])
    def test_refuses_what_is_no_backup(self, place: Path, sentence: str) -> None:
        (place / backups.NOTE).write_text(sentence)
        with pytest.raises(CommandError, match="no whole backup"):
            call_command("restore", str(place))

    @pytest.mark.parametrize(
        ("damage", "sentence"),
        [
            (lambda folder: (folder / backups.DUMP).write_bytes(b"PGDMP"), "is not what was written there"),
            (lambda folder: (folder / backups.FILES).rmdir(), "has no folder files"),
            (lambda folder: (folder / backups.DUMP).unlink(), "no whole backup"),
            (lambda folder: (folder / backups.KEY).unlink(), "no whole backup"),
        ],
        ids=["other dump", "no files", "no dump", "no key"],
    )
    def test_refuses_a_folder_that_is_not_whole_before_anything_is_touched(
        self, place: Path, damage: Callable[[Path], object], sentence: str
    ) -> None:
        folder = place / "backup"
        call_command("backup", str(folder))
        damage(folder)
        with empty_database() as name, on(name):
            with pytest.raises(CommandError, match=sentence):
                call_command("restore", str(folder))
            assert connection.introspection.table_names() == []

    def test_refuses_a_dump_that_only_newer_programs_read(self, place: Path) -> None:
        """Bytes 6 and 7 of an archive are the version of its form (pg_backup_archiver.h of PostgreSQL)."""
        folder = place / "backup"
        call_command("backup", str(folder))
        dump = bytearray((folder / backups.DUMP).read_bytes())
        dump[6] += 1
        (folder / backups.DUMP).write_bytes(dump)
        note = json.loads((folder / backups.NOTE).read_text())
        (folder / backups.NOTE).write_text(json.dumps(note | {"sha256": hashlib.sha256(dump).hexdigest()}))
        with empty_database() as name, on(name):
            with pytest.raises(CommandError, match="newer PostgreSQL than the programs of this machine"):
                call_command("restore", str(folder))
            assert connection.introspection.table_names() == []

    def test_of_a_dump_that_breaks_off_commits_nothing(self, place: Path) -> None:
        """Its table of contents is whole, so it is noticed only while the rows are read."""
        folder = place / "backup"
        call_command("backup", str(folder))
        dump = (folder / backups.DUMP).read_bytes()
        (folder / backups.DUMP).write_bytes(dump[: len(dump) - 2000])
        with empty_database() as name, on(name):
            with pytest.raises(ProgramFailed, match="pg_restore"):
                programs.fill(folder / backups.DUMP)
            assert connection.introspection.table_names() == []

    def test_says_what_postgresql_refused(self, place: Path) -> None:
        folder = place / "backup"
        call_command("backup", str(folder))
        with pytest.raises(ProgramFailed, match=r"psql ended.*already exists"):
            programs.fill(folder / backups.DUMP)


@contextmanager
def buckets(monkeypatch: pytest.MonkeyPatch, *names: str) -> Iterator[str]:
    """An S3 of this machine with these buckets; its address."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        address = "http://{}:{}".format(*server.get_host_and_port())
        client = boto3.client("s3", endpoint_url=address, region_name="us-east-1")
        for name in names:
            client.create_bucket(Bucket=name)
        yield address
    finally:
        server.stop()


def _files_in(settings: Settings, url: str | None) -> None:
    """Keep result files there from now on."""
    files, settings.FILES_ORIGIN = values.files_storage(url)
    settings.STORAGES = {**settings.STORAGES, "default": files}


def _with_a_file() -> Job:
    farm.kind()
    worker = farm.worker()
    [job] = farm.submit(1)
    held = farm.claim_one(worker)
    operations.put_file(worker, held.id, held.lease, name="picture.png", content=ContentFile(b"PNG"))
    farm.succeed(worker, held)
    return job


def _content(job: Job) -> bytes:
    """What its file holds, where files lie now."""
    [file] = ResultFile.objects.filter(job=job)
    with default_storage.open(file.stored_as) as stored:
        return bytes(stored.read())


def _busy(ada: Any) -> tuple[Worker, operations.ClaimedJob, int]:
    """A farm in the middle of its work: a worker, the job it holds, one that ended, one that waits, and more."""
    farm.kind()
    worker = farm.worker()
    first, second, _ = farm.submit(3, owner=ada)
    farm.succeed(worker, farm.claim_one(worker), {"made": 1})
    farm.fail(worker, farm.claim_one(worker))
    held = farm.claim_one(worker)
    assert (first.pk, second.pk) != (held.id, held.id)
    scheduling.run_after(0, sample.make_group, name="later")
    ratelimits.limit("spent", config=ONE_A_DAY)
    webhook_secrets.add(Source.CLERK, SIGNING)
    return worker, held, first.pk


def _goes_on(worker: Worker, held: operations.ClaimedJob, ended: int) -> None:
    assert farm.status(held) == "in_progress"
    assert farm.succeed(worker, held) == "success"
    assert farm.succeed(worker, held) == "success"  # once more: it is the same finish
    assert Job.objects.get(pk=ended).result == {"made": 1}
    [again] = Job.objects.waiting()
    farm.pass_time(again, 3600)
    other = farm.worker("w2")
    claimed = farm.claim_one(other)
    assert (claimed.id, claimed.attempt) == (again.pk, 2)
    assert farm.succeed(other, claimed) == "success"
    assert operations.submit("work", {}).pk > max(held.id, again.pk)
    assert clusters.run_due(kinds=[Kind.MUTATION]) >= 1
    assert ScheduledFunction.objects.get(function__endswith="make_group").status == "success"
    assert not ratelimits.limit("spent", config=ONE_A_DAY)


@pytest.mark.django_db(transaction=True)
@pytest.mark.landing
def test_the_commands_of_the_documents(tmp_path: Path) -> None:
    job = operations.submit("chat", {"prompt": "Why?"})
    commands = documented.block("operations.md", ".venv/bin/python manage.py backup /backups")
    *backups, restore = commands.replace("/backups", str(tmp_path / "backups")).splitlines()
    (tmp_path / "backups").mkdir()
    (tmp_path / "shell").mkdir()
    shell = Shell(tmp_path / "shell", checkout=True)
    shell.follow("\n".join(backups), {})
    assert len(list((tmp_path / "backups").iterdir())) == 2
    with empty_database() as name:
        shell.environment["JOBFARM_TEST_DATABASE"] = name
        shell.follow(restore, {})
        with on(name):
            assert Job.objects.get().pk == job.pk
