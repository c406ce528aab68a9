"""How many jobs a list has, and in which order it shows them."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db.models import F

from jobs import operations
from jobs.domain.filters import Filters
from jobs.models import Job
from jobs.queries import lists
from tests import farm
from tests.pages.edges.conftest import Browse, Farm

pytestmark = pytest.mark.django_db


def _count(answer: Any) -> str:
    [shown] = re.findall(
        r'data-live="jobs-count".*?<span class="soft">(.*?)</span>', answer.content.decode(), re.DOTALL
    )
    return " ".join(shown.split())


def _shown(answer: Any) -> list[int]:
    return [int(number) for number in re.findall(r'data-key="j(\d+)"', answer.content.decode())]


class TestCount:
    def test_is_of_all_pages(self, browse: Browse, little_farm: Farm) -> None:
        farm.submit(lists.PAGE, "image", owner=little_farm.eve)
        client = browse(little_farm.oscar)
        assert _count(client.get("/jobs/")) == f"{lists.PAGE + 1} jobs"
        assert _count(client.get("/jobs/?kind=chat")) == "1 job"
        assert _count(client.get("/jobs/?kind=chat&status=failed")) == "0 jobs"

    def test_is_of_what_one_may_see_each_once(self, browse: Browse, little_farm: Farm) -> None:
        club = Group.objects.create(name="club")
        little_farm.ada.groups.add(club)
        operations.submit("chat", {}, owner=little_farm.ada, group=club)  # hers twice over
        farm.submit(3, "image", owner=little_farm.eve)
        assert _count(browse(little_farm.ada).get("/jobs/")) == "2 jobs"

    def test_ends_at_its_bound(self, browse: Browse, little_farm: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(lists, "MOST_COUNTED", 3)
        farm.submit(2, "image", owner=little_farm.eve)
        assert _count(browse(little_farm.oscar).get("/jobs/")) == "3 jobs"
        farm.submit(1, "image", owner=little_farm.eve)
        assert _count(browse(little_farm.oscar).get("/jobs/")) == "More than 3 jobs"

    def test_says_where_it_looked_no_further(
        self, browse: Browse, little_farm: Farm, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(lists, "SCAN_LIMIT", 5)
        farm.submit(30, "image", owner=little_farm.eve)
        assert _count(browse(little_farm.oscar).get("/jobs/?kind=image")) == "5 matches among the newest 5"


class TestOrder:
    def test_by_wait_has_the_longest_first(self, browse: Browse, little_farm: Farm) -> None:
        [second, *_] = jobs = farm.submit(3, "image", owner=little_farm.eve)
        for hours, job in enumerate(reversed(jobs)):
            farm.alter(job, run_at=F("run_at") - timedelta(hours=hours))
        farm.submit(1, "image", owner=little_farm.eve, run_at=Job.objects.get(pk=second.pk).run_at + timedelta(days=9))
        answer = browse(little_farm.oscar).get("/jobs/?sort=wait&kind=image")
        assert _shown(answer) == [job.pk for job in jobs]

    def test_by_run_has_those_that_ran_longest_and_no_others(self, browse: Browse, little_farm: Farm) -> None:
        farm.submit(3, "image", owner=little_farm.eve)
        ran = [farm.claim_one(little_farm.worker).id for _ in range(3)]
        for minutes, job_id in zip([1, 9, 5], ran, strict=True):
            farm.alter(Job.objects.filter(pk=job_id), claimed_at=F("claimed_at") - timedelta(minutes=minutes))
        answer = browse(little_farm.oscar).get("/jobs/?sort=run")
        assert _shown(answer) == [ran[1], ran[2], ran[0]]

    def test_goes_on_page_after_page(self, little_farm: Farm) -> None:
        farm.submit(4, "image", owner=little_farm.eve)
        first = lists.ranked(viewer=lists.EVERYBODY, filters=Filters(), by="wait", limit=3)
        assert first.older == 3
        second = lists.ranked(viewer=lists.EVERYBODY, filters=Filters(), by="wait", skip=3, limit=3)
        assert second.older is None
        assert len({job.pk for job in [*first.jobs, *second.jobs]}) == 5

    def test_is_of_ones_own_and_of_ones_groups(self, browse: Browse, little_farm: Farm) -> None:
        farm.submit(3, "image", owner=little_farm.eve)
        assert _shown(browse(little_farm.bob).get("/jobs/?sort=wait")) == [little_farm.job.pk]

    def test_that_is_none_is_refused(self, browse: Browse, little_farm: Farm) -> None:
        assert browse(little_farm.ada).get("/jobs/?sort=colour").status_code == 422
