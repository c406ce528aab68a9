"""All workers and what they ran of late, on one page."""

import re
from datetime import timedelta

import pytest
from django.db.models import F

from jobs import operations
from jobs.models import Attempt
from jobs.queries import workers
from tests import farm
from tests.pages.edges.conftest import Browse, Farm

pytestmark = pytest.mark.django_db


def _bars(page: str) -> list[str]:
    return re.findall(r'<a href="[^"]*"\s+data-key="b[^"]*"\s+aria-label="([^"]*)"', page)


def test_shows_what_runs_what_succeeded_and_what_failed(little_farm: Farm, browse: Browse) -> None:
    first, second = farm.submit(2, "image", owner=little_farm.ada, max_attempts=1)
    running = farm.claim_one(little_farm.worker)
    farm.succeed(little_farm.worker, farm.claim_one(little_farm.worker))
    farm.fail(little_farm.worker, farm.claim_one(little_farm.worker))
    labels = " ".join(_bars(browse(little_farm.oscar).get("/timeline/").content.decode()))
    assert f"#{running.id} chat, in progress" in labels
    assert f"#{first.pk} image, success" in labels
    assert f"#{second.pk} image, failed" in labels
    assert labels.count("#") == 3


def test_has_nothing_that_ended_before_its_time(little_farm: Farm, browse: Browse) -> None:
    operations.cancel(little_farm.job.pk, by=None)
    farm.submit(1, "image", owner=little_farm.ada, max_attempts=1)
    farm.fail(little_farm.worker, farm.claim_one(little_farm.worker))
    Attempt.objects.update(ended_at=F("ended_at") - timedelta(minutes=10))
    client = browse(little_farm.oscar)
    assert "No worker ran anything in this time" in client.get("/timeline/?minutes=5").content.decode()
    assert len(_bars(client.get("/timeline/?minutes=15").content.decode())) == 1


def test_leaves_out_the_workers_that_ran_least_and_says_so(
    little_farm: Farm, browse: Browse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "MOST_LANES", 1)
    farm.submit(2, "image", owner=little_farm.ada)
    for _ in range(2):
        farm.succeed(little_farm.worker, farm.claim_one(little_farm.worker))
    farm.claim_one(farm.worker("lazy", "image"))
    page = browse(little_farm.oscar).get("/timeline/").content.decode()
    assert "1 more worker ran less and is left out." in " ".join(page.split())
    assert "lazy" not in page


def test_says_that_it_leaves_out_attempts_and_only_then(
    little_farm: Farm, browse: Browse, monkeypatch: pytest.MonkeyPatch
) -> None:
    farm.submit(3, "image", owner=little_farm.ada)
    for _ in range(2):
        farm.succeed(little_farm.worker, farm.claim_one(little_farm.worker))
    operations.cancel(farm.claim_one(little_farm.worker).id, by=None)
    client = browse(little_farm.oscar)
    assert "Only the newest" not in client.get("/timeline/").content.decode()
    monkeypatch.setattr(workers, "MOST_DRAWN", 2)
    page = client.get("/timeline/?minutes=5").content.decode()
    assert "Only the newest" in page
    assert "success" in " ".join(_bars(page))


def test_reads_past_jobs_that_no_worker_ran(little_farm: Farm, browse: Browse, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = farm.submit(4, "image", owner=little_farm.ada)
    farm.succeed(little_farm.worker, farm.claim_one(little_farm.worker))
    for job in jobs[1:]:
        operations.cancel(job.pk, by=None)
    monkeypatch.setattr(workers, "MOST_DRAWN", 2)
    assert len(_bars(browse(little_farm.oscar).get("/timeline/").content.decode())) == 1


@pytest.mark.parametrize("minutes", ["", "7", "x", "-5"])
def test_of_another_time_is_that_of_a_quarter_of_an_hour(little_farm: Farm, browse: Browse, minutes: str) -> None:
    page = browse(little_farm.oscar).get("/timeline/", {"minutes": minutes}).content.decode()
    assert '<a class="button small" href="?minutes=15"' in page
