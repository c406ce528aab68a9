"""What attempts wrote and handed in is reached from a job's page and the administration after they were lost."""

import re
from typing import Any, cast

import pytest
from django.contrib.auth.models import Permission
from django.core.files.base import ContentFile

from jobs import operations
from jobs.models import Attempt, Job
from tests import farm
from tests.pages.edges.conftest import Browse, Farm

pytestmark = pytest.mark.django_db


def _attempt(little_farm: Farm, *texts: str, file: str = "") -> operations.ClaimedJob:
    by = little_farm.worker
    claimed = farm.claim_one(by)
    for seq, text in enumerate(texts):
        operations.write_output(by, claimed.id, claimed.lease, seq=seq, text=text)
    if file:
        content = ContentFile(b"bytes", name=file)
        operations.put_file(by, claimed.id, claimed.lease, name=file, content=content)
    return claimed


def _lose(claimed: operations.ClaimedJob) -> None:
    """It may be retried."""
    Job.objects.filter(pk=claimed.id).update(retry_when_lost=True)
    farm.lose(claimed)
    farm.forgive(claimed)


@pytest.fixture
def lost(little_farm: Farm) -> Job:
    """A job whose first attempt wrote something, and whose second did not; it waits for the third."""
    _lose(_attempt(little_farm, "what it thought <b>", file="draft.txt"))
    _lose(_attempt(little_farm))
    return little_farm.job


def _rows(page: str) -> dict[str, str]:
    return dict(re.findall(r'<li data-status="\w+" data-key="(a\d)">(.*?)\n    </li>', page, re.DOTALL))


class TestTheJobsPage:
    def test_links_the_output_and_the_files_of_each_attempt_that_has_some(
        self, browse: Browse, little_farm: Farm, lost: Job
    ) -> None:
        _attempt(little_farm, "once more")
        rows = _rows(browse(little_farm.ada).get(f"/jobs/{lost.pk}/").content.decode())
        assert {key: 'href="output/' in row for key, row in rows.items()} == {"a3": True, "a2": False, "a1": True}
        assert 'href="output/1"' in rows["a1"]
        assert 'href="files/draft.txt?fence=1"' in rows["a1"]
        assert "draft.txt" not in rows["a2"] + rows["a3"]

    def test_offers_to_compare_attempts_where_there_are_two(self, browse: Browse, little_farm: Farm) -> None:
        ada, page = browse(little_farm.ada), f"/jobs/{little_farm.job.pk}/"
        offers = []
        for _ in range(2):
            _lose(_attempt(little_farm))
            offers.append("Compare</a>" in ada.get(page).content.decode())
            assert ("nothing to compare" in ada.get(f"{page}attempts/").content.decode()) is not offers[-1]
        assert offers == [False, True]

    def test_shows_what_was_written_last_while_it_waits_for_the_next_attempt(
        self, browse: Browse, little_farm: Farm, lost: Job
    ) -> None:
        page = browse(little_farm.ada).get(f"/jobs/{lost.pk}/").content.decode()
        [output] = re.findall(r'<pre[^>]*data-live="job-output"[^>]*>\n(.*?)</pre>', page, re.DOTALL)
        assert output == "what it thought &lt;b&gt;"
        assert "of the last attempt that wrote anything" in page

    def test_shows_nothing_of_others_while_an_attempt_runs(self, browse: Browse, little_farm: Farm, lost: Job) -> None:
        _attempt(little_farm)
        page = browse(little_farm.ada).get(f"/jobs/{lost.pk}/").content.decode()
        [output] = re.findall(r'<pre[^>]*data-live="job-output"[^>]*>\n(.*?)</pre>', page, re.DOTALL)
        assert output == ""
        assert 'href="output/1"' in page

    @pytest.mark.parametrize("end", ["canceled", "failed"])
    def test_shows_it_of_a_job_that_ended_without_success(
        self, browse: Browse, little_farm: Farm, lost: Job, end: str
    ) -> None:
        if end == "canceled":
            operations.cancel(lost.pk, by=None)
        else:
            farm.fail(little_farm.worker, _attempt(little_farm), retryable=False)
        page = browse(little_farm.ada).get(f"/jobs/{lost.pk}/").content.decode()
        [output] = re.findall(r'<pre[^>]*data-live="job-output"[^>]*>\n(.*?)</pre>', page, re.DOTALL)
        assert output == "what it thought &lt;b&gt;"

    def test_of_a_shared_job_links_them_too(self, browse: Browse, little_farm: Farm, lost: Job) -> None:
        link = f"/jobs/shared/{operations.share(lost.pk, by=little_farm.ada).token}/"
        rows = _rows(browse(None).get(link).content.decode())
        assert 'href="output/1"' in rows["a1"]
        answers = [browse(None).get(f"{link}{path}") for path in ("output/1", "files/draft.txt?fence=1")]
        found = [b"".join(cast("Any", answer).streaming_content) for answer in answers]
        assert found == [b"what it thought <b>", b"bytes"]


class TestTheAdministration:
    @pytest.fixture(autouse=True)
    def _reader(self, little_farm: Farm) -> None:
        rights = Permission.objects.filter(codename__startswith="view_", content_type__app_label="jobs")
        little_farm.oscar.user_permissions.add(*rights)

    def test_leads_from_a_lost_attempt_to_its_job_which_shows_what_it_wrote(
        self, browse: Browse, little_farm: Farm, lost: Job
    ) -> None:
        oscar = browse(little_farm.oscar)
        for attempt in Attempt.objects.order_by("number"):
            address = oscar.get(f"/admin/jobs/attempt/{attempt.pk}/change/").headers["Location"]
            assert address == f"/jobs/{lost.pk}/"
        rows = _rows(oscar.get(address).content.decode())
        assert ['href="output/' in rows[name] for name in ("a1", "a2")] == [True, False]
        assert oscar.get("/admin/jobs/attempt/0/change/").status_code == 404
