"""An upload is given to a job, deleted by its owner, and cleaned up, at the same moment: no job is left without it."""

from datetime import timedelta
from functools import partial
from io import BytesIO
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.files import File
from django.db.models.functions import Now
from pytest_django import Settings

from jobs import operations
from jobs.errors import FileInUse, JobsError, QuotaReached, UnknownFile
from jobs.models import Input, Job, Upload
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
