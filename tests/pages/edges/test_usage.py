"""What the jobs of a person keep, and may keep: on their page, in the administration, for the doctor and in metrics."""

import re
from io import BytesIO
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.files import File
from django.test import Client
from pytest_django import Settings

from jobfarm import job_health
from jobfarm.findings import Level
from jobs import operations
from jobs.operations import quotas, rollup
from tests import farm
from tests.admin.conftest import As, as_

__all__ = ["as_"]
pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _quotas(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.MEDIA_ROOT = tmp_path
    monkeypatch.setattr(rollup._Counting, "not_before_s", 0.0)
    settings.JOBFARM = {
        **settings.JOBFARM,
        "WAITING_JOBS_PER_OWNER": 4000, "OUTPUT_BYTES_PER_OWNER": 2048,
        "FILES_PER_OWNER": 20, "FILE_BYTES_PER_OWNER": 0,
        "WAITING_JOBS_IN_ALL": 5000, "OUTPUT_BYTES_IN_ALL": 4096, "FILES_IN_ALL": 30, "FILE_BYTES_IN_ALL": 0,
    }  # fmt: skip


@pytest.fixture
def ada() -> User:
    """Somebody whose jobs keep two files of 1536 bytes and 1024 bytes of output, and of whose jobs three wait."""
    farm.kind()
    ada, me = farm.user("ada"), farm.worker()
    farm.submit(1, owner=ada)
    held = farm.claim_one(me)
    for name, size in (("a", 1024), ("b", 512)):
        content = File(BytesIO(b"x" * size))
        operations.put_file(me, held.id, held.lease, name=name, content=content)
    operations.write_output(me, held.id, held.lease, seq=0, text="x" * 1024)
    farm.succeed(me, held)
    farm.submit(3, owner=ada)
    return ada


def _text(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html).replace("\xa0", " "))


class TestTheAccountPage:
    def test_shows_what_one_uses_and_may_use(self, client: Client, ada: User) -> None:
        client.force_login(ada)
        text = _text(client.get("/accounts/").text)
        assert "Pending jobs 3 of 4,000" in text
        assert "Output 1.0 KB of 2.0 KB" in text
        assert "Files 2 of 20" in text
        assert "Bytes of files 1.5 KB" in text
        assert "1.5 KB of" not in text

    def test_shows_nothing_of_others(self, client: Client, ada: User) -> None:
        client.force_login(farm.user("bob"))
        assert "Pending jobs 0 of 4,000" in _text(client.get("/accounts/").text)


class TestTheAdministration:
    def test_lists_who_uses_how_much_and_what_all_use(self, as_: As, ada: User) -> None:
        farm.submit(2)
        rollup.measure_usage()
        text = _text(as_("operators").get("/admin/jobs/usage/").text)
        assert "All jobs 5 of 5,000 1.0 KB of 4.0 KB 2 of 30 1.5 KB" in text
        assert "ada 3 of 4,000 1.0 KB of 2.0 KB 2 of 20 1.5 KB" in text

    def test_finds_a_person(self, as_: As, ada: User) -> None:
        rollup.measure_usage()
        operator = as_("operators")
        assert "3 of 4,000" in _text(operator.get("/admin/jobs/usage/?q=ad").text)
        assert "3 of 4,000" not in _text(operator.get("/admin/jobs/usage/?q=bob").text)

    def test_has_a_page_for_each_that_links_to_the_person_and_their_jobs(self, as_: As, ada: User) -> None:
        rollup.measure_usage()
        operator = as_("operators")
        page = operator.get(f"/admin/jobs/usage/{ada.pk}/change/").text
        assert f"/admin/auth/user/{ada.pk}/change/" in page
        assert operator.get("/admin/jobs/usage/0/change/").status_code == 200


class TestTheDoctor:
    def test_says_nothing_while_there_is_room(self, ada: User) -> None:
        assert list(job_health.quotas()) == []

    def test_warns_when_the_farm_has_used_nine_tenths_of_a_quota(self, ada: User, settings: Settings) -> None:
        settings.JOBFARM = {**settings.JOBFARM, "OUTPUT_BYTES_IN_ALL": 1100, "FILES_IN_ALL": 2}
        output, files = job_health.quotas()
        assert (output.level, files.level) == (Level.WARNING, Level.WARNING)
        assert output.sentence == "All jobs together have 1,024 bytes of output; 1,100 are allowed."
        assert files.sentence == "All jobs together have 2 files; 2 are allowed."
        assert output.remedy is not None
        assert "JOBFARM_OUTPUT_BYTES_IN_ALL" in output.remedy


class TestTheFormThatSubmits:
    def test_says_that_there_is_no_room_and_keeps_what_was_written(
        self, client: Client, ada: User, settings: Settings
    ) -> None:
        settings.JOBFARM = {**settings.JOBFARM, "WAITING_JOBS_PER_OWNER": 3}
        quotas.WAITING.forget()
        client.force_login(ada)
        answer = client.post("/jobs/new/?kind=chat", {"prompt": "Why is the sky blue?", "delay_min": "0"})
        assert answer.status_code == 422
        assert "Quota of one owner, jobs waiting: 3 allowed, 3 used, 1 more requested." in answer.text
        assert "Why is the sky blue?" in answer.text
