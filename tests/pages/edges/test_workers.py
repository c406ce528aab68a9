"""The list of workers is narrowed, sorted, and says how each did lately."""

import re
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.db.models.functions import Now
from django.test import Client

from jobs import operations
from jobs.domain.workers import Facts
from jobs.models import Attempt
from tests import farm
from tests.pages.edges.conftest import Browse, Farm

pytestmark = pytest.mark.django_db


@pytest.fixture
def _fleet(little_farm: Farm) -> None:
    """w1 failed one of its two jobs, w2 none of its one; old is revoked."""
    for worker, fails in ((little_farm.worker, True), (little_farm.worker, False), (farm.worker("w2", "image"), False)):
        operations.submit("chat" if worker.name == "w1" else "image", {}, owner=little_farm.ada)
        claimed = farm.claim_one(worker)
        farm.fail(worker, claimed, retryable=False) if fails else farm.succeed(worker, claimed)
    operations.revoke(farm.worker("old", "chat"), by=None)


@pytest.mark.usefixtures("_fleet")
@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", {"w1", "w2", "old"}), ("text=W2", {"w2"}), ("status=revoked", {"old"}), ("status=live", {"w1", "w2"}),
        ("text=nothing", set()), ("status=moon", {"w1", "w2", "old"}),
    ],
)  # fmt: skip
def test_are_those_that_match(browse: Browse, little_farm: Farm, query: str, names: set[str]) -> None:
    page = browse(little_farm.oscar).get(f"/workers/?{query}").content.decode()
    assert set(re.findall(r'<a href="/workers/\d+/">(\w+)</a>', page)) == names


@pytest.mark.usefixtures("_fleet")
def test_are_sorted_by_what_failed_and_say_it(browse: Browse, little_farm: Farm) -> None:
    page = browse(little_farm.oscar).get("/workers/?sort=failed").content.decode()
    assert re.findall(r'<a href="/workers/\d+/">(\w+)</a>', page)[0] == "w1"
    shares = [" ".join(each.split()) for each in re.findall(r'data-label="Failed"[^>]*>(.*?)</td>', page, re.DOTALL)]
    assert shares[:2] == ["50 %", "0 %"]


def test_say_which_slots_are_stuck_and_since_when(
    browse: Browse, little_farm: Farm, capsys: pytest.CaptureFixture[str]
) -> None:
    """A plain handler that runs on past its timeout keeps its slot: of two, one takes jobs."""
    worker, key = operations.create_worker("old-laptop", queues=["image"])
    job, _ = [operations.submit("image", {}, owner=little_farm.ada) for _ in range(2)]
    held, _ = operations.claim(worker, limit=2)
    assert held.id == job.pk
    farm.alter(held, deadline_at=Now() - timedelta(seconds=1), confirmed_fence=1)
    assert operations.sweep().taken_back == 1
    body = {"concurrency": 2, "stuck": [job.pk, little_farm.job.pk]}  # the second was never its own
    hello = Client(headers={"Authorization": f"Bearer {key}"})
    assert hello.post("/api/v1/worker/hello", body, content_type="application/json").status_code == 200

    since = Attempt.objects.get(job=job).ended_at
    sentence = f"1 slot stuck: job {job.pk} has run past its timeout since"
    staff = browse(farm.user("root", is_staff=True, is_superuser=True))
    pages = ("/workers/", f"/workers/{worker.pk}/")
    for page in pages:
        text = " ".join(re.sub(r"<[^>]*>", "", staff.get(page).content.decode()).split())
        assert sentence in text, page
    [row] = [each for each in staff.get("/api/v1/workers").json()["workers"] if each["id"] == worker.pk]
    assert row["stuck"] == [{"job": job.pk, "outcome": "timed_out", "since": since.isoformat().replace("+00:00", "Z")}]
    call_command("workers", "list")
    assert f"{sentence} {since:%H:%M}" in capsys.readouterr().out

    assert hello.post("/api/v1/worker/hello", {"concurrency": 2}, content_type="application/json").status_code == 200
    assert "slot stuck" not in staff.get(f"/workers/{worker.pk}/").content.decode()


def test_count_no_more_jobs_at_a_time_than_a_worker_has_slots(browse: Browse, little_farm: Farm) -> None:
    """A worker that was killed and started anew runs one job, beside the lease of the one before."""
    operations.introduce(little_farm.worker, Facts(concurrency=1))
    operations.submit("chat", {}, owner=little_farm.ada)
    assert len(operations.claim(little_farm.worker, limit=2)) == 2
    page = " ".join(browse(little_farm.oscar).get("/workers/").content.decode().split())
    assert "1 of 1, and 1 more lease" in page
