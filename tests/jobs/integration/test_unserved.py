"""A queue that nobody serves is told alike wherever one looks: whose worker is drained, or which was there last."""

from datetime import timedelta

import pytest
from django.db.models import F
from django.test import Client
from django.utils.html import strip_tags

from jobfarm import job_health
from jobs import operations
from jobs.models import Job, Worker
from jobs.queries import reads
from tests import farm

pytestmark = pytest.mark.django_db


@pytest.fixture
def job() -> Job:
    farm.kind()
    [job] = farm.submit(1)
    return job


def _sentences(job: Job) -> tuple[str, str]:
    """What `why` says first, and the doctor of the queue."""
    [finding] = job_health.queues()
    return reads.why_not_running(job.pk)[0].sentence, finding.sentence


def _page_of_queue() -> str:
    client = Client()
    client.force_login(farm.user("boss", is_staff=True, is_superuser=True))
    return client.get("/queues/work/").content.decode()


class TestWhoIsNamed:
    def test_is_the_drained_worker_with_a_way_to_undrain_it(self, job: Job) -> None:
        worker = farm.worker("gpu-1")
        operations.drain(worker)
        why, doctor = _sentences(job)
        assert why.startswith("The only live worker of the queue work that could take it, gpu-1, is drained")
        assert doctor == f"Jobs are pending. {why}"
        [finding] = job_health.queues()
        assert (finding.page, finding.page_of) == ("jobs:worker", str(worker.pk))
        assert "workers undrain gpu-1" in finding.remedy
        page = _page_of_queue()
        assert why in page
        assert f'<a href="/workers/{worker.pk}/">Undrain gpu-1</a>' in page

    def test_is_who_served_it_last_and_until_when(self, job: Job) -> None:
        for name, hours in (("old", 5), ("gpu-1", 2)):
            gone = farm.worker(name)
            Worker.objects.filter(pk=gone.pk).update(last_seen_at=F("last_seen_at") - timedelta(hours=hours))
        last = Worker.objects.get(name="gpu-1").last_seen_at
        why, doctor = _sentences(job)
        assert why == (f"No live worker serves the queue work; the last was gpu-1, until {last:%Y-%m-%d %H:%M:%S} UTC.")
        assert doctor == f"Jobs are pending. {why}"
        assert why in strip_tags(_page_of_queue())

    def test_is_the_drained_worker_on_the_page_of_a_queue_whose_jobs_are_due_later(self) -> None:
        farm.kind()
        worker = farm.worker("gpu-1")
        [job] = farm.submit(1, run_at=farm.now() + timedelta(hours=1))
        operations.drain(worker)
        [_, why] = reads.why_not_running(job.pk)
        assert why.code == "all_drained"
        page = _page_of_queue()
        assert why.sentence in page
        assert f'<a href="/workers/{worker.pk}/">Undrain gpu-1</a>' in page
        assert list(job_health.queues()) == []  # nothing is late

    def test_is_nobody_whom_the_jobs_owner_may_not_know(self, job: Job) -> None:
        theirs = farm.worker("theirs", owner=farm.user("bob"))
        Worker.objects.filter(pk=theirs.pk).update(last_seen_at=F("last_seen_at") - timedelta(hours=1))
        assert reads.why_not_running(job.pk)[0].sentence == "No live worker serves the queue work."


def test_why_says_when_a_job_expires() -> None:
    farm.kind()
    [job] = farm.submit(1, expires_at=farm.now() + timedelta(minutes=30))
    assert [reason.code for reason in reads.why_not_running(job.pk)] == ["no_worker", "expires"]
    sentence = reads.why_not_running(job.pk)[1].sentence
    assert sentence.startswith(("It expires in 29 min", "It expires in 30 min"))
