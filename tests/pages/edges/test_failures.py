"""Failures grouped by error, and what is done to a group."""

import re

import pytest

from jobs import operations
from jobs.models import Bulk, Job
from jobs.queries import pages
from tests import farm
from tests.pages.edges.conftest import Browse, Farm

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _no_other(little_farm: Farm) -> None:
    operations.cancel(little_farm.job.pk, by=None)


def _fail(little_farm: Farm, *errors: str, attempts: int = 1) -> list[int]:
    ids = []
    for error in errors:
        job = operations.submit("image", {}, owner=little_farm.ada, max_attempts=attempts)
        farm.fail(little_farm.worker, farm.claim_one(little_farm.worker), error)
        ids.append(job.pk)
    return ids


def _groups(browse: Browse, little_farm: Farm) -> dict[str, int]:
    page = browse(little_farm.oscar).get("/jobs/failures/").content.decode()
    numbers = re.findall(r'<strong class="number">([\d,]+)</strong>', page)
    errors = re.findall(r'<p class="mono">(.*?)</p>', page)
    return dict(zip(errors, map(int, numbers), strict=True))


def test_that_differ_in_numbers_alone_are_one_group(little_farm: Farm, browse: Browse) -> None:
    _fail(little_farm, "Traceback\nMemoryError: tried 512 MB", "MemoryError: tried 2048 MB", "KeyError: a")
    assert _groups(browse, little_farm) == {"MemoryError: tried 2048 MB": 2, "KeyError: a": 1}


def test_name_the_workers_on_which_they_happened(little_farm: Farm, browse: Browse) -> None:
    _fail(little_farm, "boom", "boom")
    assert "w1 (2)" in browse(little_farm.oscar).get("/jobs/failures/").content.decode()


def test_of_a_group_are_retried_together(little_farm: Farm, browse: Browse) -> None:
    ids = _fail(little_farm, "boom 1", "boom 2", "other")
    client = browse(little_farm.oscar)
    page = client.get("/jobs/failures/").content.decode()
    [key, _] = re.findall(r'name="group" value="(\w+)"', page)
    answer = client.post("/jobs/failures/", {"group": key, "age": "day"}, follow=True)
    confirmation = answer.content.decode()
    assert "Retry 2 jobs?" in confirmation
    assert '<p class="mono error">boom 2</p>' in confirmation
    assert 'href="/jobs/failures/?age=day"' in confirmation
    bulk = Bulk.objects.get()
    operations.bulk.begin(bulk.pk, by=little_farm.oscar)
    operations.bulk.step(bulk_id=bulk.pk)
    assert {*Job.objects.exclude(retry_of=None).values_list("retry_of", flat=True)} == {*ids[:2]}


def test_that_were_retried_leave_their_group_and_it_says_what_became_of_them(little_farm: Farm, browse: Browse) -> None:
    ids = _fail(little_farm, "boom", "boom", "boom")
    operations.retry(ids[0], by=None)
    assert _groups(browse, little_farm) == {"boom": 2}
    again = [operations.retry(job_id, by=None).pk for job_id in ids[1:]]
    farm.succeed(little_farm.worker, farm.claim_one(little_farm.worker))
    assert _groups(browse, little_farm) == {"boom": 0}
    page = browse(little_farm.oscar).get("/jobs/failures/").content.decode()
    assert "3 retried:" in " ".join(page.split())
    assert f'href="/jobs/?ids={again[1]}%2C{again[0]}">2 pending</a>' in page
    assert "1 success</a>" in page
    assert 'name="group"' not in page


def test_that_wait_to_be_retried_are_a_group_that_is_canceled(little_farm: Farm, browse: Browse) -> None:
    _fail(little_farm, "boom", attempts=3)
    client = browse(little_farm.oscar)
    page = client.get("/jobs/failures/").content.decode()
    assert "Cancel 1 job…" in page
    [key] = re.findall(r'name="group" value="(\w+)"', page)
    assert "Cancel 1 job?" in client.post("/jobs/failures/", {"group": key}, follow=True).content.decode()


def test_that_are_gone_are_not_acted_on(little_farm: Farm, browse: Browse) -> None:
    answer = browse(little_farm.oscar).post("/jobs/failures/", {"group": "0" * 16}, follow=True)
    assert "All of these jobs have been deleted." in answer.content.decode()
    assert not Bulk.objects.exists()


def test_of_others_are_not_shown(little_farm: Farm, browse: Browse) -> None:
    _fail(little_farm, "a secret of Ada's")
    assert "secret" not in browse(little_farm.eve).get("/jobs/failures/").content.decode()
    assert "secret" in browse(little_farm.ada).get("/jobs/failures/").content.decode()


def test_of_an_age_that_is_none_are_refused(little_farm: Farm, browse: Browse) -> None:
    assert browse(little_farm.ada).get("/jobs/failures/?age=century").status_code == 422


def test_are_read_up_to_a_bound_and_it_is_said(
    little_farm: Farm, browse: Browse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "MOST_FAILURES", 1)
    _fail(little_farm, "boom", "boom")
    page = browse(little_farm.oscar).get("/jobs/failures/").content.decode()
    assert "Of each status, the newest 1 are grouped." in page
