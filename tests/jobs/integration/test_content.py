"""Jobs whose content is not kept: what they were given and gave is deleted after their end, wherever it lies."""

from collections.abc import Callable
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files import File
from django.core.files.storage import default_storage
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction
from django.db.models.functions import Now
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from accounts import operations as accounts
from jobs import operations
from jobs.domain.bulks import BulkAction
from jobs.domain.filters import Filters
from jobs.errors import ContentNotKept
from jobs.models import ALL_JOBS, ContentDeletion, Upload, UsageDelta, Worker
from jobs.operations import content, janitor, rollup
from jobs.queries import reports as queries
from outbox.models import Event
from scheduling import operations as scheduling
from scheduling.models import ScheduledFunction
from tests import farm
from tests.doctor import named_errors
from tests.outbox.support import endpoint

pytestmark = pytest.mark.django_db
SECRET = "the secret of ada"
DELETES = "jobs.operations.content.delete_content"

POISON = """
CREATE FUNCTION poison() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'a broken row'; END $$;
CREATE TRIGGER poison BEFORE UPDATE ON jobs_job FOR EACH ROW WHEN (OLD.id = {job}) EXECUTE FUNCTION poison()
"""
LATE = POISON.replace(
    "TRIGGER poison BEFORE UPDATE ON jobs_job",
    "CONSTRAINT TRIGGER poison AFTER UPDATE ON jobs_job DEFERRABLE INITIALLY DEFERRED",
)


@pytest.fixture(autouse=True)
def _farm(settings: Settings, tmp_path: Path) -> None:
    settings.MEDIA_ROOT = tmp_path
    rollup._Counting.not_before_s = 0.0
    farm.kind(keep_content=False, max_attempts=1)


@pytest.fixture
def me() -> Worker:
    return farm.worker()


def delete_due() -> None:
    """Do what the functions do that are scheduled by now, as if their time had come."""
    for row in list(ScheduledFunction.objects.filter(function=DELETES)):
        content.delete_content(**row.args)
    for row in ScheduledFunction.objects.filter(function__endswith="delete_files", status="pending"):
        content.delete_files(**row.args)


def holding_the_secret() -> list[str]:
    """The tables that hold the secret anywhere."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT format('%I', tablename) FROM pg_tables WHERE schemaname = 'public'")
        tables = [name for (name,) in cursor.fetchall()]
        found = []
        for table in tables:
            cursor.execute(f"SELECT count(*) FROM {table} AS one WHERE to_jsonb(one)::text LIKE %s", [f"%{SECRET}%"])
            found += [table] if cursor.fetchone() != (0,) else []
    return found


def say_everywhere(me: Worker, claimed: operations.ClaimedJob) -> None:
    operations.heartbeat(me, claimed.id, claimed.lease, progress=0.5, detail=SECRET)
    operations.checkpoint(me, claimed.id, claimed.lease, {"so far": SECRET})
    operations.write_output(me, claimed.id, claimed.lease, seq=0, text=f"{SECRET}\n")
    file = File(BytesIO(SECRET.encode()), name="answer.txt")
    operations.put_file(me, claimed.id, claimed.lease, name="answer.txt", content=file)


ENDS: dict[str, Callable[[Worker, operations.ClaimedJob], object]] = {
    "a success": lambda me, claimed: farm.succeed(me, claimed, {"answer": SECRET}),
    "a failure": lambda me, claimed: farm.fail(me, claimed, f"ValueError: {SECRET}"),
    "a cancel": lambda _, claimed: operations.cancel(claimed.id, by=None),
    "a time-out": lambda _, claimed: farm.time_out(claimed),
}


class TestAJob:
    @pytest.mark.parametrize("how", ENDS)
    def test_has_no_content_a_while_after_its_end(self, how: str, ada: User, me: Worker) -> None:
        endpoint(with_result=True, owner=ada)
        upload = operations.upload("prompt.txt", File(BytesIO(SECRET.encode()), name="x"), owner=ada)
        Upload.objects.filter(pk=upload.pk).update(created_at=Now() - timedelta(minutes=5))
        job = operations.submit("work", {"prompt": SECRET}, owner=ada, files={"prompt": str(upload.pk)})
        claimed = farm.claim_one(me)
        say_everywhere(me, claimed)
        ENDS[how](me, claimed)
        assert farm.stored(job).payload == {"prompt": SECRET}  # who waits for it reads it still
        assert {"jobs_job", "jobs_checkpoint", "jobs_outputchunk"} <= set(holding_the_secret())
        names = [name for _, _, name in _files()]
        delete_due()
        assert holding_the_secret() == []
        assert not any(default_storage.exists(name) for name in names)
        gone = farm.stored(job)
        assert (gone.payload, gone.result, gone.inputs, gone.next_seq) == (None, None, None, 0)
        assert gone.content_deletion.deleted_at is not None
        assert (gone.status, gone.worker_name, gone.fence) == (farm.status(job), "w1", 1)
        assert Event.objects.filter(subject=f"job/{job.pk}").exists()

    def test_gives_back_what_its_output_and_files_took(self, ada: User, me: Worker) -> None:
        operations.submit("work", {}, owner=ada)
        claimed = farm.claim_one(me)
        say_everywhere(me, claimed)
        farm.succeed(me, claimed)
        delete_due()
        rollup.measure_usage()
        assert not UsageDelta.objects.exists()
        assert {one.used for one in operations.used(ALL_JOBS)} == {0}

    def test_that_nobody_began_is_emptied_too(self) -> None:
        jobs = farm.submit(2, expires_at=None)
        operations.cancel(jobs[0].pk, by=None)
        farm.alter(jobs[1], expires_at=farm.now() - timedelta(seconds=1))
        janitor.sweep()
        assert [farm.status(job) for job in jobs] == ["canceled", "timed_out"]
        delete_due()
        assert ContentDeletion.objects.filter(deleted_at=None).count() == 0

    def test_of_a_flow_that_lives_is_kept_for_the_steps_behind_it(self, me: Worker) -> None:
        first = operations.submit("work", {"prompt": SECRET})
        last = operations.submit("work", {}, after=[first.pk])
        farm.succeed(me, farm.claim_one(me), {"answer": SECRET})
        delete_due()
        claimed = farm.claim_one(me)
        assert SECRET in str(claimed)
        farm.succeed(me, claimed)
        assert ScheduledFunction.objects.filter(function=DELETES).count() == 3  # each end's, and one more for the first
        delete_due()
        assert holding_the_secret() == []
        assert [farm.stored(job).payload for job in (first, last)] == [None, None]

    def test_of_a_flow_that_lives_for_weeks_is_looked_at_less_often(self, me: Worker) -> None:
        """A function every five minutes of each of ten thousand steps, kept for a week, was twenty million rows."""
        first = operations.submit("work", {"prompt": SECRET})
        operations.submit("work", {}, after=[first.pk])
        farm.succeed(me, farm.claim_one(me))
        farm.age(first, 8 * 86400)
        content.delete_content(job_ids=[first.pk])
        again = ScheduledFunction.objects.filter(function=DELETES).latest("pk")
        assert again.run_at - farm.now() > timedelta(hours=23)

    def test_are_many_that_a_bulk_cannot_retry_in_one_line(self, ada: User, me: Worker) -> None:
        for _ in range(3):
            operations.submit("work", {"prompt": SECRET}, owner=ada)
            farm.succeed(me, farm.claim_one(me))
        delete_due()
        bulk = operations.bulk.create(BulkAction.RETRY, by=ada, filters=Filters())
        operations.bulk.step(bulk_id=operations.bulk.begin(bulk.pk, by=ada).pk)
        bulk.refresh_from_db()
        assert bulk.results == {"left out: what they were given is not kept": 3}

    def test_is_not_run_again_once_that_is_gone_and_keeps_nothing_where_it_is_before(
        self, ada: User, me: Worker
    ) -> None:
        job = operations.submit("work", {"prompt": SECRET}, owner=ada)
        farm.succeed(me, farm.claim_one(me))
        again = operations.retry(job.pk, by=ada)
        assert hasattr(farm.stored(again), "content_deletion")
        delete_due()
        for act in (operations.retry, operations.clone):
            with pytest.raises(ContentNotKept) as caught:
                act(job.pk, by=ada)
            assert str(job.pk) in caught.value.message

    def test_that_is_replaced_by_one_that_is_kept_is_kept(self, ada: User, me: Worker) -> None:
        farm.kind("kept")
        options: Any = {"owner": ada, "unique_key": "one", "on_conflict": "replace"}
        job = operations.submit("kept", {"n": 1}, keep_content=False, **options)
        assert operations.submit("kept", {"n": 2}, **options).pk == job.pk
        me = farm.worker("w2", "kept")
        farm.succeed(me, farm.claim_one(me), SECRET)
        delete_due()
        assert farm.stored(job).result == SECRET
        job = operations.submit("kept", {"n": 3}, **options)
        assert operations.submit("kept", {"n": 4}, keep_content=False, **options).pk == job.pk
        farm.succeed(me, farm.claim_one(me), SECRET)
        delete_due()
        assert farm.stored(job).result is None

    def test_says_so_on_its_page_and_over_the_api(self, ada: User, me: Worker) -> None:
        _, key = accounts.create_token(ada, name="all")
        client = Client(headers={"Authorization": f"Bearer {key}"})
        answer = client.post("/api/v1/jobs", {"kind": "work", "payload": SECRET}, "application/json").json()
        assert (answer["keep_content"], answer["payload"]) == (False, SECRET)
        farm.succeed(me, farm.claim_one(me), SECRET)
        delete_due()
        left = client.get(f"/api/v1/jobs/{answer['id']}").json()
        assert (left["keep_content"], left["payload"], left["result"]) == (False, None, None)
        assert left["content_deleted_at"] > left["ended_at"]
        assert client.post(f"/api/v1/jobs/{answer['id']}/retry").json()["error"] == "content_not_kept"
        browser = Client()
        browser.force_login(ada)
        page = browser.get(f"/jobs/{answer['id']}/").content.decode()
        assert "not kept: deleted" in page
        assert not [shown for shown in (SECRET, "Payload</h2>", "retry-job", "Submit again") if shown in page]

    def test_of_a_token_that_keeps_none_is_such_a_job_whatever_its_kind(self, ada: User, me: Worker) -> None:
        farm.kind("kept")
        _, key = accounts.create_token(ada, name="none", keep_content=False)
        client = Client(headers={"Authorization": f"Bearer {key}"})
        jobs = {"jobs": [{"kind": "kept", "payload": SECRET}, {"kind": "kept", "payload": 2}]}
        made = client.post("/api/v1/jobs/bulk", jobs, "application/json")
        assert made.status_code == 201, made.content
        assert ContentDeletion.objects.count() == 2
        parent = farm.claim_one(worker := farm.worker("w2", "kept"))
        child = operations.NewJob(kind="kept", payload=SECRET)
        operations.submit_child(worker, parent.id, parent.lease, child, position=0)
        assert ContentDeletion.objects.count() == 3


class TestOneThatCannotBeDeleted:
    @pytest.mark.parametrize("patterns", ["", "the secret of \\w+"], ids=["deleted", "redacted"])
    def test_holds_up_no_other_is_named_by_the_doctor_and_tried_again(self, patterns: str, me: Worker) -> None:
        jobs = [operations.submit("work", {"prompt": f"Tell {SECRET}."}) for _ in range(9)]
        ContentDeletion.objects.update(patterns=patterns)
        for claimed in operations.claim(me, limit=9):
            farm.succeed(me, claimed)
        with connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            cursor.execute(POISON.format(job=jobs[4].pk))
        ids = [job.pk for job in jobs]
        assert content.delete_content(job_ids=ids) == 8
        assert holding_the_secret() == ["jobs_job"]
        assert list(ContentDeletion.objects.filter(deleted_at=None).values_list("pk", flat=True)) == [jobs[4].pk]
        assert f"job {jobs[4].pk} failed, and is left out" in named_errors()
        left = ScheduledFunction.objects.filter(function=DELETES).latest("pk")
        assert left.args == {"job_ids": [jobs[4].pk]}
        with connection.cursor() as cursor:
            cursor.execute("DROP TRIGGER poison ON jobs_job")
        assert content.delete_content(**left.args) == 1
        assert holding_the_secret() == []

    def test_holds_up_no_other_where_that_is_said_at_the_commit(self, me: Worker) -> None:
        """As by a foreign key of another app."""
        jobs = [operations.submit("work", SECRET) for _ in range(3)]
        for claimed in operations.claim(me, limit=3):
            farm.succeed(me, claimed)
        connection.check_constraints()
        with connection.cursor() as cursor:
            cursor.execute(LATE.format(job=jobs[1].pk))
        assert content.delete_content(job_ids=[job.pk for job in jobs]) == 2
        assert list(ContentDeletion.objects.filter(deleted_at=None).values_list("pk", flat=True)) == [jobs[1].pk]


class TestTheGuards:
    def test_let_nothing_else_of_an_ended_job_be_changed(self, me: Worker) -> None:
        job = farm.submit(1)[0]
        kept = operations.submit(farm.kind("kept").name, {"n": 1})
        farm.succeed(me, farm.claim_one(me), 1)
        farm.end(kept, "success")
        with connection.cursor() as cursor:
            for statement in (
                f"UPDATE jobs_job SET payload = '1' WHERE id = {job.pk}",
                f"UPDATE jobs_job SET payload = 'null', priority = 3 WHERE id = {job.pk}",
                f"UPDATE jobs_job SET payload = 'null' WHERE id = {kept.pk}",
                f"UPDATE jobs_outcome SET result = '2' WHERE job_id = {job.pk}",
                f"UPDATE jobs_outcome SET result = NULL, status = 'failed' WHERE job_id = {job.pk}",
                f"UPDATE jobs_outcome SET result = NULL WHERE job_id = {kept.pk}",
            ):
                with pytest.raises(IntegrityError), transaction.atomic():
                    cursor.execute(statement)

    def test_let_no_payload_go_before_the_end(self) -> None:
        job = farm.submit(1)[0]
        assert content.delete_content(job_ids=[job.pk]) == 0
        with connection.cursor() as cursor, pytest.raises(IntegrityError), transaction.atomic():
            cursor.execute(f"UPDATE jobs_job SET payload = 'null' WHERE id = {job.pk}")


class TestWhatItCostsOthers:
    def test_is_no_statement(self, me: Worker) -> None:
        farm.kind("kept")
        with CaptureQueriesContext(connection) as queries:
            operations.submit("kept", {})
            worker = farm.worker("w2", "kept")
            farm.succeed(worker, farm.claim_one(worker))
        assert not any("contentdeletion" in query["sql"].lower() for query in queries.captured_queries)


def _files() -> list[tuple[int, int, str]]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT job_id, 0, stored_as FROM jobs_resultfile UNION ALL SELECT 0, 0, stored_as FROM jobs_upload"
        )
        return [(job, attempt, name) for job, attempt, name in cursor.fetchall()]


class TestRedaction:
    @pytest.fixture(autouse=True)
    def _kind(self) -> None:
        farm.kind("talk", redact="the secret of \\w+", max_attempts=1)

    def test_takes_what_matches_out_of_all_texts_and_leaves_the_rest(self, ada: User) -> None:
        endpoint(with_result=True, owner=ada)
        me = farm.worker("w2", "talk")
        job = operations.submit("talk", {"prompt": f"Tell {SECRET}."}, owner=ada)
        claimed = farm.claim_one(me)
        say_everywhere(me, claimed)
        operations.write_output(me, claimed.id, claimed.lease, seq=1, text="and the secret ")
        operations.write_output(me, claimed.id, claimed.lease, seq=2, text="of bob")
        farm.succeed(me, claimed, {"answer": f"It is {SECRET}."})
        names = [name for _, _, name in _files()]
        delete_due()
        assert holding_the_secret() == []
        assert not any(default_storage.exists(name) for name in names)
        left = farm.stored(job)
        assert (left.payload, left.result) == ({"prompt": "Tell [redacted]."}, {"answer": "It is [redacted]."})
        assert "".join(piece.text for piece in left.output.order_by("seq")) == "[redacted]\nand [redacted]"
        assert left.next_seq == left.output.count() == 3
        assert left.content_deletion.deleted_at is not None
        browser = Client()
        browser.force_login(ada)
        page = browser.get(f"/jobs/{job.pk}/").content.decode()
        assert "Payload</h2>" in page
        assert not [shown for shown in ("retry-job", "Submit again") if shown in page]

    def test_takes_it_out_of_errors(self, ada: User) -> None:
        me = farm.worker("w2", "talk")
        job = operations.submit("talk", {}, owner=ada)
        farm.fail(me, farm.claim_one(me), f"ValueError: {SECRET}, no doubt")
        delete_due()
        assert [attempt.error for attempt in job.attempts.all()] == ["ValueError: [redacted], no doubt"]

    def test_deletes_an_output_that_is_too_long_to_be_searched(
        self, ada: User, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(queries, "MOST_REDACTED_BYTES", 10)
        me = farm.worker("w2", "talk")
        job = operations.submit("talk", {}, owner=ada)
        say_everywhere(me, claimed := farm.claim_one(me))
        farm.succeed(me, claimed)
        delete_due()
        assert (farm.stored(job).output.count(), farm.stored(job).next_seq) == (0, 0)

    def test_that_cannot_be_done_deletes_that_job_s_content_and_keeps_no_other_from_it(self, ada: User) -> None:
        me = farm.worker("w2", "talk")
        bad, good = (operations.submit("talk", {"prompt": f"Tell {SECRET}."}, owner=ada) for _ in range(2))
        for _ in range(2):
            farm.succeed(me, farm.claim_one(me))
        ContentDeletion.objects.filter(pk=bad.pk).update(patterns="(")
        content.delete_content(job_ids=[bad.pk, good.pk])
        assert farm.stored(bad).payload is None
        assert farm.stored(good).payload == {"prompt": "Tell [redacted]."}

    def test_is_done_once_and_nothing_is_changed_afterwards(self, ada: User) -> None:
        me = farm.worker("w2", "talk")
        job = operations.submit("talk", {"n": 1}, owner=ada)
        farm.succeed(me, farm.claim_one(me))
        delete_due()
        with connection.cursor() as cursor, pytest.raises(IntegrityError), transaction.atomic():
            cursor.execute(f"UPDATE jobs_job SET payload = '2' WHERE id = {job.pk}")
        with pytest.raises(ContentNotKept):
            operations.retry(job.pk, by=ada)

    def test_is_of_kinds_that_say_so_in_the_admin_and_on_the_command_line(self) -> None:
        call_command("create_kind", "mail", "--redact", "a@b", "--redact", "c@d", "--no-keep-content")
        kind = operations.known_kind("mail")
        assert kind is not None
        assert (kind.redact, kind.keep_content) == ("a@b\nc@d", False)


@pytest.mark.django_db(transaction=True)
def test_what_runs_in_a_cluster_deletes_redacts_and_deletes_what_cannot_be_redacted(
    settings: Settings, me: Worker
) -> None:
    settings.JOBFARM = settings.JOBFARM | {"CONTENT_GRACE_S": 0}
    farm.kind("talk", redact="the secret of \\w+")
    talker = farm.worker("w2", "talk")
    deleted, redacted, unreadable = (operations.submit(kind, f"Tell {SECRET}.") for kind in ("work", "talk", "talk"))
    ContentDeletion.objects.filter(pk=unreadable.pk).update(patterns="(")
    for worker in (me, talker, talker):
        farm.succeed(worker, farm.claim_one(worker))
    scheduling.run_due()
    assert [row.status for row in ScheduledFunction.objects.filter(function=DELETES)] == ["success"] * 3
    left = [farm.stored(job).payload for job in (deleted, redacted, unreadable)]
    assert left == [None, "Tell [redacted].", None]
