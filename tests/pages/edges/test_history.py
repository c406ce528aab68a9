"""A job's page: its attempts on one scale of time, what each said it was doing, and where the job came from."""

import re

import pytest
from django.contrib.auth.models import Permission
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from jobs import operations
from jobs.errors import LeaseLost
from jobs.models import Job, Stage
from scheduling import context
from scheduling.domain.calls import Kind
from tests import farm
from tests.pages.edges.conftest import Browse, Farm

pytestmark = pytest.mark.django_db


@pytest.fixture
def twice(little_farm: Farm) -> Job:
    """A job that failed once and runs again, with stages in both attempts."""
    by, job = little_farm.worker, little_farm.job
    claimed = farm.claim_one(by)
    for detail in ("Reading", "Reading", "Thinking <b>hard</b>", "Reading"):
        operations.heartbeat(by, job.pk, claimed.lease, progress=0.5, detail=detail)
    operations.heartbeat(by, job.pk, claimed.lease, progress=0.6)
    farm.fail(by, claimed, "Traceback\nValueError: no idea")
    farm.forgive(job)
    claimed = farm.claim_one(by)
    operations.heartbeat(by, job.pk, claimed.lease, detail="Once more")
    return job


class TestStages:
    def test_are_kept_of_each_attempt_when_the_detail_changes(self, twice: Job) -> None:
        rows = Stage.objects.order_by("attempt", "number").values_list("attempt", "number", "detail", "progress")
        assert list(rows) == [
            (1, 0, "Reading", 0.5), (1, 1, "Thinking <b>hard</b>", 0.5), (1, 2, "Reading", 0.5),
            (2, 0, "Once more", None),
        ]  # fmt: skip

    def test_end_at_two_hundred_however_talkative_a_worker_is(self, little_farm: Farm) -> None:
        claimed = farm.claim_one(little_farm.worker)
        for n in range(230):
            operations.heartbeat(little_farm.worker, claimed.id, claimed.lease, detail=f"step {n}")
        assert Stage.objects.count() == 200
        assert Job.objects.get(pk=claimed.id).detail == "step 229"

    def test_of_a_lost_lease_are_not_kept(self, little_farm: Farm) -> None:
        claimed = farm.claim_one(little_farm.worker)
        farm.succeed(little_farm.worker, claimed)
        with pytest.raises(LeaseLost):
            operations.heartbeat(little_farm.worker, claimed.id, claimed.lease, detail="late")
        assert not Stage.objects.exists()

    def test_go_with_their_job(self, little_farm: Farm, settings: Settings) -> None:
        claimed = farm.claim_one(little_farm.worker)
        operations.heartbeat(little_farm.worker, claimed.id, claimed.lease, detail="soon gone")
        farm.succeed(little_farm.worker, claimed)
        settings.JOBFARM = {**settings.JOBFARM, "RETENTION_DAYS": -1}
        assert farm.retain() == 1
        assert not Stage.objects.exists()


class TestAttempts:
    def test_are_drawn_with_their_waits_runs_and_stages(self, browse: Browse, little_farm: Farm, twice: Job) -> None:
        page = browse(little_farm.ada).get(f"/jobs/{twice.pk}/").content.decode()
        second, first = re.findall(r'<li data-status="(\w+)" data-key="(a\d)">(.*?)\n    </li>', page, re.DOTALL)
        assert [second[:2], first[:2]] == [("in_progress", "a2"), ("failed", "a1")]
        for attempt in (first[2], second[2]):
            assert re.findall(r'<rect class="(\w+)"', attempt) == ["wait", "run"]
        assert "3 stages" in first[2]
        assert "Thinking &lt;b&gt;hard&lt;/b&gt;" in first[2]
        assert "ValueError: no idea" in first[2]

    def test_on_a_shared_page_say_no_more_than_they_may(self, browse: Browse, little_farm: Farm, twice: Job) -> None:
        token = operations.share(twice.pk, by=little_farm.ada).token
        own, shared = (
            _text(browse(person), path)
            for person, path in ((little_farm.ada, f"/jobs/{twice.pk}/"), (None, f"/jobs/shared/{token}/"))
        )
        assert ("3 stages" in own, "no idea" in own, "w1" in own) == (True, True, True)
        assert ("3 stages" in shared, "no idea" in shared, "w1" in shared) == (True, False, False)


def _text(client: Client, path: str) -> str:
    """What a page says; the tickets in its attributes may hold any two letters."""
    return re.sub(r"<[^>]*>", " ", client.get(path).content.decode())


class TestOrigin:
    def test_is_the_scheduled_function_that_submitted_the_job(self, browse: Browse, little_farm: Farm) -> None:
        with context.running(context.Running(id=4711, function="f", kind=Kind.MUTATION, attempt=1)):
            job = operations.submit("chat", {}, owner=little_farm.ada)
        path = f"/jobs/{job.pk}/"
        assert "Submitted by the scheduled function #4711." in " ".join(
            browse(little_farm.ada).get(path).content.decode().split()
        )
        little_farm.oscar.user_permissions.add(Permission.objects.get(codename="view_scheduledfunction"))
        assert '<a href="/functions/4711/">' in browse(little_farm.oscar).get(path).content.decode()
        plain = browse(little_farm.ada).get(f"/jobs/{little_farm.job.pk}/").content.decode()
        assert "scheduled function" not in plain

    def test_is_not_written_where_there_is_none(self, little_farm: Farm) -> None:
        with CaptureQueriesContext(connection) as captured:
            operations.submit("chat", {"prompt": "x"})
        assert [query for query in captured.captured_queries if "jobs_origin" in query["sql"]] == []


class TestFolding:
    def test_shows_payload_and_result_as_trees_and_as_text(self, browse: Browse, little_farm: Farm) -> None:
        job = operations.submit("image", {"deep": {"list": [1, {"<b>": "</script>"}]}}, owner=little_farm.ada)
        operations.cancel(little_farm.job.pk, by=None)
        farm.succeed(little_farm.worker, farm.claim_one(little_farm.worker), {"made": ["a.png"]})
        page = browse(little_farm.ada).get(f"/jobs/{job.pk}/").content.decode()
        assert page.count('<div class="json">') == 2
        assert page.count('<summary class="small soft">As text</summary>') == 2
        assert '</script>"' not in page
        assert "&lt;b&gt;" in page


def test_the_checkpoint_is_shown_to_whoever_sees_the_payload(browse: Browse, little_farm: Farm) -> None:
    claimed = farm.claim_one(little_farm.worker)
    operations.checkpoint(little_farm.worker, claimed.id, claimed.lease, {"pages": 40, "note": "<b>half</b>"})
    path = f"/jobs/{claimed.id}/"
    shown = browse(little_farm.ada).get(path).content.decode()
    assert "Checkpoint</h2>" in shown
    assert "&lt;b&gt;half&lt;/b&gt;" in shown
    token = operations.share(claimed.id, by=little_farm.ada)
    assert "Checkpoint</h2>" not in Client().get(f"/jobs/shared/{token.token}/").content.decode()
    farm.succeed(little_farm.worker, claimed)
    assert "Checkpoint</h2>" in browse(little_farm.ada).get(path).content.decode()


def test_the_page_of_a_job_reads_it_once(browse: Browse, little_farm: Farm) -> None:
    farm.fail(little_farm.worker, farm.claim_one(little_farm.worker), "boom", retryable=False)
    client = browse(little_farm.oscar)
    with CaptureQueriesContext(connection) as captured:
        client.get(f"/jobs/{little_farm.job.pk}/")
    reads = [each["sql"] for each in captured if ' FROM "jobs_job"' in each["sql"]]
    assert len([sql for sql in reads if '"jobs_job"."kind"' in sql]) == 1
    assert len(captured) <= 19
