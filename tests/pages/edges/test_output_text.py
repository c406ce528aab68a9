"""The output of a call, which is lines for programs: its page shows the text, and the lines behind a link."""

import re

import pytest

from jobs import operations
from jobs.live_queries import one
from jobs.models import Job
from tests import farm
from tests.pages.edges.conftest import Browse, Farm

pytestmark = pytest.mark.django_db
LINES = [f'{{"choices": [{{"delta": {{"content": "{text}"}}}}]}}\n' for text in ("Hel", "lo <b>.")]


@pytest.fixture
def streamed(little_farm: Farm) -> Job:
    """A streamed call of hers that runs; its second line came in two pieces."""
    operations.sync()
    job = operations.submit("openai", {"path": "chat/completions", "body": {}}, owner=little_farm.ada)
    worker = farm.worker("gpu", "openai")
    claimed = farm.claim_one(worker)
    for seq, text in enumerate([LINES[0], LINES[1][:9], LINES[1][9:]]):
        operations.write_output(worker, claimed.id, claimed.lease, seq=seq, text=text)
    return job


def _output(page: str, name: str) -> list[str]:
    return re.findall(rf'<pre[^>]*data-live="{name}"[^>]*>\n(.*?)</pre>', page, re.DOTALL)


class TestTheJobsPage:
    def test_shows_the_text_of_its_deltas_and_the_lines_behind_a_link(
        self, browse: Browse, little_farm: Farm, streamed: Job
    ) -> None:
        page = browse(little_farm.ada).get(f"/jobs/{streamed.pk}/").content.decode()
        assert _output(page, "job-text") == ["Hello &lt;b&gt;."]
        assert _output(page, "job-output") == []
        assert 'href="?output=lines"' in page
        page = browse(little_farm.ada).get(f"/jobs/{streamed.pk}/?output=lines").content.decode()
        assert _output(page, "job-text") == []
        assert len(_output(page, "job-output")[0].splitlines()) == 2
        assert 'href="?">As text' in page

    def test_does_so_for_who_has_the_link(self, browse: Browse, little_farm: Farm, streamed: Job) -> None:
        link = f"/jobs/shared/{operations.share(streamed.pk, by=little_farm.ada).token}/"
        assert _output(browse(None).get(link).content.decode(), "job-text") == ["Hello &lt;b&gt;."]

    def test_of_any_other_kind_shows_the_output_itself(self, browse: Browse, little_farm: Farm) -> None:
        page = browse(little_farm.ada).get(f"/jobs/{little_farm.job.pk}/?output=lines").content.decode()
        assert len(_output(page, "job-output")) == 1
        assert 'href="?' not in page


class TestTheStream:
    def test_goes_on_in_the_middle_of_a_line(self, streamed: Job) -> None:
        items = one.job_text.read("1:1", 10, job_id=streamed.pk)
        assert [(item.cursor, item.data["text"]) for item in items] == [("1:2", "lo <b>.")]

    @pytest.mark.parametrize("after", ["x", "1:2", "2:-1"])
    def test_has_nothing_behind_the_end_or_behind_what_is_no_place(self, streamed: Job, after: str) -> None:
        assert one.job_text.read(after, 10, job_id=streamed.pk) == []

    def test_is_empty_for_kinds_whose_output_is_text(self, little_farm: Farm) -> None:
        claimed = farm.claim_one(little_farm.worker)
        operations.write_output(little_farm.worker, claimed.id, claimed.lease, seq=0, text="text")
        assert one.job_text.read(None, 10, job_id=claimed.id) == []
