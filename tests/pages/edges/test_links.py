"""What a page names is a link to its page, and what is wrong leads to where it is seen to."""

import re

import pytest

from jobfarm import health, live_queries
from jobfarm.findings import Finding, Level
from jobs import operations
from jobs.models import Job
from tests import farm
from tests.pages.edges.conftest import Browse, Farm

pytestmark = pytest.mark.django_db


@pytest.fixture
def failed(little_farm: Farm) -> Job:
    """Ada's job, which failed once on the worker."""
    farm.fail(little_farm.worker, farm.claim_one(little_farm.worker), "boom")
    return Job.objects.get(pk=little_farm.job.pk)


@pytest.mark.parametrize(("who", "worker"), [("oscar", "/workers/{}/"), ("ada", "/jobs/?worker=w1")])
def test_a_job_leads_to_its_queue_kind_worker_and_owner(
    browse: Browse, little_farm: Farm, failed: Job, who: str, worker: str
) -> None:
    page = browse(little_farm.person(who)).get(f"/jobs/{failed.pk}/").content.decode()
    addresses = {"/queues/chat/": "chat", "/jobs/?kind=chat": "chat", "/jobs/?owner=ada": "ada"}
    addresses |= {worker.format(little_farm.worker.pk): "w1", "/jobs/?group=studio": "studio"}
    for address, text in addresses.items():
        assert f'<a href="{address}">{text}</a>' in page
        assert browse(little_farm.person(who)).get(address).status_code == 200


def test_a_row_leads_to_its_queue_worker_and_owner(browse: Browse, little_farm: Farm, failed: Job) -> None:
    page = browse(little_farm.oscar).get("/").content.decode()
    row = re.search(rf'data-key="j{failed.pk}".*?</tr>', page, re.DOTALL)
    assert row is None  # it is pending: the overview shows what runs and what ended
    page = browse(little_farm.oscar).get("/queues/chat/").content.decode()
    [row] = re.findall(rf'data-key="j{failed.pk}".*?</tr>', page, re.DOTALL)
    for address in ("/queues/chat/", f"/workers/{little_farm.worker.pk}/", "/jobs/?owner=ada"):
        assert f'href="{address}"' in row


def test_whoever_holds_a_share_link_is_led_nowhere(browse: Browse, little_farm: Farm, failed: Job) -> None:
    client = browse(little_farm.ada)
    client.post(f"/jobs/{failed.pk}/share/")
    shared = browse(None).get(f"/jobs/shared/{failed.share.token}/").content.decode()
    assert not re.findall(r'href="/(?:queues|workers|jobs/\?)', shared)


class TestFindings:
    def test_are_one_line_that_unfolds_and_each_leads_to_its_page(
        self, browse: Browse, little_farm: Farm, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bad = [
            Finding(level=Level.ERROR, sentence="The chat queue is stuck.", page="jobs:queue", page_of="chat"),
            Finding(level=Level.WARNING, sentence="Dead letters: 3.", page="webhooks:inbox"),
            Finding(level=Level.WARNING, sentence="The disk is full."),
        ]
        monkeypatch.setattr(live_queries, "warnings", lambda: bad)
        page = " ".join(browse(little_farm.oscar).get("/").content.decode().split())
        assert "<strong>3 problems</strong> <span>The chat queue is stuck.</span> </summary>" in page
        assert re.findall(r'<a href="([^"]+)">See to it', page) == ["/queues/chat/", "/inbox/"]
        monkeypatch.setattr(live_queries, "warnings", lambda: bad[:1])
        assert "problems</strong>" not in browse(little_farm.oscar).get("/").content.decode()

    def test_of_a_check_have_its_page(self, little_farm: Farm) -> None:
        operations.pause("chat")
        found = [each for each in health.examine() if "in the queue chat" in each.sentence]
        assert [each.page for each in found] in (["jobs:queues"], ["jobs:queue"])
