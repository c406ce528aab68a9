"""Rows that are ticked are changed, and no others."""

import pytest

from jobs import operations
from jobs.models import Bulk, Job
from tests import farm
from tests.pages.edges.conftest import Browse, Farm

pytestmark = pytest.mark.django_db


def test_ticked_rows_are_counted_and_canceled(little_farm: Farm, browse: Browse) -> None:
    jobs = farm.submit(4, "image", owner=little_farm.eve)
    client = browse(little_farm.oscar)
    answer = client.post("/jobs/bulk/", {"job": [jobs[0].pk, jobs[2].pk], "action": "cancel"}, follow=True)
    assert "Cancel 2 jobs?" in answer.content.decode()
    bulk = Bulk.objects.get()
    assert bulk.top_id == jobs[2].pk
    operations.bulk.begin(bulk.pk, by=little_farm.oscar)
    operations.bulk.step(bulk_id=bulk.pk)
    assert {*Job.objects.ended("canceled").values_list("pk", flat=True)} == {jobs[0].pk, jobs[2].pk}


def test_ticked_rows_of_others_stay_as_they_are(little_farm: Farm, browse: Browse) -> None:
    [theirs] = farm.submit(1, "image", owner=little_farm.eve)
    answer = browse(little_farm.ada).post("/jobs/bulk/", {"job": [theirs.pk], "action": "cancel"}, follow=True)
    assert "No job matches: there is nothing to do." in answer.content.decode()
    assert 'data-phase="empty"' in answer.content.decode()  # so that nothing is offered to be confirmed


def test_rows_that_are_no_jobs_are_refused(little_farm: Farm, browse: Browse) -> None:
    answer = browse(little_farm.ada).post("/jobs/bulk/", {"job": ["x"], "action": "cancel"}, follow=True)
    assert "Enter ids of jobs" in answer.content.decode()
    assert not Bulk.objects.exists()


def test_each_row_has_a_box_that_belongs_to_the_form(little_farm: Farm, browse: Browse) -> None:
    page = browse(little_farm.ada).get("/jobs/").content.decode()
    assert f'form="selected" name="job" value="{little_farm.job.pk}"' in page
    assert 'id="selected" method="post" action="/jobs/bulk/"' in page
