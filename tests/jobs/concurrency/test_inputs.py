"""An upload is given to a job, deleted by its owner, and cleaned up, at the same moment: no job is left without it."""

import json
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files import File
from django.core.files.storage import FileSystemStorage, default_storage
from django.db import OperationalError, connection, connections
from django.db.models import F
from django.db.models.functions import Now
from django.test import Client
from pytest_django import Settings

from accounts import operations as accounts
from core import large_json
from jobs import operations
from jobs.errors import FileInUse, JobsError, QuotaReached, UnknownFile
from jobs.models import Input, Job, ResultFile, Upload
from jobs.operations import content
from tests import farm
from tests.emptying import empty

pytestmark = pytest.mark.django_db(transaction=True)
ROUNDS = 15


@pytest.fixture(autouse=True)
def _farm(settings: Settings, tmp_path: Path) -> None:
    settings.MEDIA_ROOT = tmp_path
    farm.kind()


def _ada() -> User:
    """Ada on a farm that has nothing yet."""
    empty()
    farm.kind()
    return farm.user("ada")


def _old_upload(owner: User) -> Upload:
    kept = operations.upload("a.txt", File(BytesIO(b"bytes")), owner=owner)
    Upload.objects.update(created_at=Now() - timedelta(hours=25))
    return kept


def _submit(owner: User, kept: Upload) -> type[JobsError] | None:
    try:
        operations.submit("work", {}, owner=owner, by=owner, files={"a": kept.pk})
    except JobsError as refusal:
        return type(refusal)
    return None


def _delete(owner: User, kept: Upload) -> type[JobsError] | None:
    try:
        operations.delete_upload(kept.pk, by=owner)
    except JobsError as refusal:
        return type(refusal)
    return None


def _is_whole(kept: Upload) -> bool:
    """Whether jobs and upload are there together, or neither."""
    jobs = set(Job.objects.values_list("pk", flat=True))
    assert {one.job_id for one in Input.objects.all()} == jobs
    return Upload.objects.filter(pk=kept.pk).exists() or not jobs


def test_a_submit_and_its_owners_delete_exclude_each_other() -> None:
    outcomes = set()
    for _ in range(ROUNDS):
        ada = _ada()
        kept = _old_upload(ada)
        submitted, deleted = farm.at_once(partial(_submit, ada, kept), partial(_delete, ada, kept))
        outcomes.add((submitted, deleted))
        assert _is_whole(kept)
    assert outcomes <= {(None, FileInUse), (UnknownFile, None)}


def test_a_submit_and_the_cleaning_exclude_each_other() -> None:
    for _ in range(ROUNDS):
        ada = _ada()
        kept = _old_upload(ada)
        submitted, _ = farm.at_once(partial(_submit, ada, kept), lambda: farm.retain() and None)
        assert submitted in {None, UnknownFile}
        assert _is_whole(kept)
        assert (submitted is None) == Upload.objects.filter(pk=kept.pk).exists()


def test_many_submits_at_once_share_an_upload_and_wait_for_none(ada: User) -> None:
    kept = _old_upload(ada)
    assert farm.at_once(*[partial(_submit, ada, kept)] * 8) == [None] * 8
    assert Input.objects.filter(upload=kept).count() == 8


def test_uploads_at_once_do_not_slip_by_a_quota_together(ada: User, settings: Settings, tmp_path: Path) -> None:
    settings.JOBFARM = {**settings.JOBFARM, "FILES_PER_OWNER": 3}

    def upload() -> object:
        try:
            return operations.upload("a.txt", File(BytesIO(b"bytes")), owner=ada).name
        except QuotaReached as refusal:
            return type(refusal)

    answers = farm.at_once(*[upload] * 8)
    assert sorted(map(str, answers)) == sorted(["a.txt"] * 3 + [str(QuotaReached)] * 5)
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == Upload.objects.count() == 3


def _cut(*texts: str) -> Any:
    """A payload whose texts are parts."""
    cutting = large_json.Cutting(at=(), over=1000, most=1_000_000, subject="payload")
    payload = {f"text{place}": text for place, text in enumerate(texts)}
    return large_json.read(BytesIO(json.dumps(payload).encode()), cutting, most=1_000_000)


@pytest.fixture
def lost(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The answer to the first COMMIT of a file's row does not come."""
    wrapper: Any = type(connections["default"])
    plain, wrote, lost = wrapper._commit, list[str](), list[bool]()

    def note(execute: Callable[..., Any], sql: Any, *rest: Any) -> Any:
        if re.search("INSERT INTO .?jobs_(upload|resultfile)", str(sql)):
            wrote.append(sql)
        return execute(sql, *rest)

    def commit(session: Any) -> None:
        plain(session)
        if wrote and not lost:
            lost.append(True)
            raise OperationalError("the connection is lost")

    monkeypatch.setattr(wrapper, "_commit", commit)
    with connection.execute_wrapper(note):
        yield


@pytest.mark.usefixtures("lost")
def test_a_part_whose_commit_was_not_answered_is_there_for_who_comes_again(ada: User) -> None:
    """Its row may be written: without the file every later job with the same text would find the row, and fail."""
    with pytest.raises(OperationalError):
        operations.submit("work", _cut("x" * 2000), owner=ada)
    job = operations.submit("work", _cut("x" * 2000), owner=ada)
    assert operations.whole_payload(Job.objects.whole().get(pk=job.pk)) == {"text0": "x" * 2000}


@pytest.mark.usefixtures("lost")
def test_a_result_file_whose_commit_was_not_answered_is_there(ada: User) -> None:
    operations.submit("work", {}, owner=ada)
    me = farm.worker()
    claimed = farm.claim_one(me)
    with pytest.raises(OperationalError):
        operations.put_file(me, claimed.id, claimed.lease, name="a.txt", content=File(BytesIO(b"bytes")))
    assert default_storage.exists(ResultFile.objects.get().stored_as)


def test_parts_of_a_job_that_its_quota_refused_go_within_the_hour(ada: User, settings: Settings) -> None:
    """They count for their owner, who knows nothing of them: for a day nothing large would have room."""
    settings.JOBFARM = {**settings.JOBFARM, "FILES_PER_OWNER": 2, "PAYLOAD_BYTES": 1000}
    new = [farm.new_job(payload=_cut(text * 2000), owner=ada) for text in "ab"]
    with pytest.raises(QuotaReached):
        operations.submit_many([*new, farm.new_job(payload=_cut("c" * 2000, "d" * 2000), owner=ada)])
    assert Upload.objects.count() == 2
    Upload.objects.update(created_at=F("created_at") - timedelta(hours=1))
    farm.retain("input files that no job uses")
    assert not Upload.objects.exists()


def test_parts_are_stored_before_anything_is_locked(ada: User, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bucket may take a minute, in which all else that this person submits would wait for the limit; and the job that
    submits another, for its heartbeats."""
    disk: Any = FileSystemStorage
    within, plain = list[bool](), disk._save

    def save(storage: Any, name: str, content: Any) -> Any:
        within.append(connection.in_atomic_block)
        return plain(storage, name, content)

    monkeypatch.setattr(disk, "_save", save)
    headers = {"Authorization": f"Bearer {accounts.create_token(ada, name='mine')[1]}", "Idempotency-Key": "one"}

    def post(kind: str, text: str) -> int:
        body = {"kind": kind, "payload": {"text": text * 1_100_000}}
        return client.post("/api/v1/jobs", body, "application/json", headers=headers).status_code

    assert post("none", "y") == 422
    assert Upload.objects.get().created_at < farm.now() - timedelta(hours=22)
    assert post("work", "x") == 201
    me = farm.worker()
    claimed = farm.claim_one(me)
    child = operations.NewJob(kind="work", payload=_cut("z" * 2000))
    operations.submit_child(me, claimed.id, claimed.lease, child, position=0)
    assert (within, Job.objects.count()) == ([False] * 3, 2)


def test_parts_of_a_request_that_comes_again_are_not_stored_again(ada: User, client: Client) -> None:
    """It is answered as it was. What was given is deleted: where nothing is kept, that would keep it for a day."""
    token = accounts.create_token(ada, name="mine", keep_content=False)[1]
    headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": "one"}

    def post() -> Any:
        body = {"kind": "work", "payload": {"text": "x" * 1_100_000}}
        return client.post("/api/v1/jobs", body, "application/json", headers=headers)

    first = post().json()["id"]
    me = farm.worker()
    farm.succeed(me, farm.claim_one(me))
    Upload.objects.update(created_at=F("created_at") - timedelta(hours=1))
    content.delete_content(job_ids=[first])
    assert not Upload.objects.exists()
    again = post()
    assert (again.status_code, again.json()["id"], Upload.objects.count()) == (201, first, 0)
