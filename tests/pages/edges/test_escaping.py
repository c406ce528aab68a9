"""Nothing that a client or a worker says is ever markup: in no page, no pushed part, and not in the admin."""

import html
import re
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib.auth.models import User
from django.core.files.base import ContentFile

from jobs import operations
from jobs.models import Job
from tests import farm
from tests.pages.edges.conftest import Browse, Farm

EVIL = "<script>alert('x')</script><img src=x onerror=alert(1)>"
NAMED = {"script": f"{EVIL}", "quote": "\"' onmouseover=alert(1) x='", "closing": "</pre></textarea></title><script>"}


@pytest.fixture(params=list(NAMED.values()), ids=list(NAMED))
def evil_job(request: pytest.FixtureRequest, little_farm: Farm) -> tuple[Job, str]:
    """A job that says the same evil wherever something can be said: before, while and after it runs."""
    evil = str(request.param)
    operations.revoke(little_farm.worker)  # so that the one who failed it may have it again
    by = farm.worker(evil[:100], "image")
    options: dict[str, Any] = {"owner": little_farm.ada, "unique_key": evil, "group": None}
    job = operations.submit("image", {"prompt": evil, evil: [evil]}, **options)
    for is_last in (False, True):
        claimed = _claim(by, job)
        operations.write_output(by, job.pk, claimed.lease, seq=0, text=evil)
        operations.heartbeat(by, job.pk, claimed.lease, progress=0.5, detail=evil)
        operations.put_file(by, job.pk, claimed.lease, name="a.png", content=ContentFile(evil.encode(), name="a.png"))
        if not is_last:
            farm.fail(by, claimed, f"Traceback\n{evil}")
    return job, evil


PAGES = (
    *("/", "/jobs/", "/jobs/{job}/", "/jobs/?worker={quoted}", "/workers/", "/workers/{worker}/", "/queues/"),
    *("{shared}", "/admin/jobs/job/", "/admin/jobs/job/{job}/history/"),
    *("/admin/jobs/attempt/", "/admin/jobs/worker/", "/admin/jobs/worker/{worker}/history/", "/admin/"),
)


@pytest.mark.django_db
class TestEscaping:
    @pytest.mark.parametrize("ended", [False, True])
    def test_evil_is_text_everywhere(self, browse: Browse, evil_job: tuple[Job, str], ended: bool) -> None:
        job, evil = evil_job
        job.refresh_from_db()
        if ended:
            _finish(job, evil)
        boss = User.objects.create_superuser("boss", password=farm.PASSWORD)
        client, shared = browse(boss), _shared(job, boss)
        for page in PAGES:
            answer = client.get(page.format(job=job.pk, worker=job.worker_id, shared=shared, quoted=quote(evil)))
            text = answer.content.decode()
            assert (page, 200) == (page, answer.status_code)
            assert (page, False) == (page, evil in text)
            assert (page, []) == (page, _markup_of_evil(text))

    def test_the_page_shows_it_as_it_was_said(
        self, browse: Browse, evil_job: tuple[Job, str], little_farm: Farm
    ) -> None:
        job, evil = evil_job
        text = html.unescape(browse(little_farm.ada).get(f"/jobs/{job.pk}/").content.decode())
        assert text.count(evil) >= 5  # prompt, payload, detail, output, error

    def test_output_as_text_is_plain_and_runs_nothing(
        self, browse: Browse, evil_job: tuple[Job, str], little_farm: Farm
    ) -> None:
        job, evil = evil_job
        answer = browse(little_farm.ada).get(f"/jobs/{job.pk}/output/1")
        assert evil == b"".join(answer).decode()
        assert answer["Content-Type"] == "text/plain; charset=utf-8"
        assert answer["X-Content-Type-Options"] == "nosniff"
        assert "sandbox" in answer["Content-Security-Policy"]

    def test_names_of_people_and_groups_are_text(self, browse: Browse, little_farm: Farm) -> None:
        little_farm.ada.username = EVIL
        little_farm.ada.save()
        text = browse(little_farm.oscar).get("/jobs/").content.decode()
        assert EVIL not in text
        assert html.escape(EVIL) in text


def _claim(by: object, job: Job) -> operations.ClaimedJob:
    farm.pass_time(job, 3600)
    [claimed] = operations.claim(by)  # type: ignore[arg-type]  # a worker
    assert claimed.id == job.pk
    return claimed


def _finish(job: Job, evil: str) -> None:
    assert job.worker is not None
    assert job.lease_secret is not None
    lease = operations.Lease(fence=job.fence, secret=job.lease_secret)
    operations.finish(
        job.worker, [operations.Finished(job_id=job.pk, lease=lease, outcome="success", result={evil: evil})]
    )


def _shared(job: Job, by: User) -> str:
    return f"/jobs/shared/{operations.share(job.pk, by=by).token}/"


def _markup_of_evil(text: str) -> list[str]:
    """Elements and attributes that only evil could have made; what stands within quotes is a value."""
    return re.findall(r"<img src=x|<script>alert|<[^>]*\sonmouseover=", re.sub(r'"[^"]*"', '""', text))
