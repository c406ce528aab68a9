"""The card that starts a document in three languages, and the page where it is watched."""

from collections import Counter

import pytest
from django.contrib.auth.models import User
from django.test import Client

from jobs import operations
from jobs.models import Job, Worker
from tests import farm
from tests.accounts.integration import people

pytestmark = pytest.mark.django_db
START = "/translation/start/"


@pytest.fixture
def ada(client: Client) -> User:
    operations.sync()
    user = farm.user("ada")
    client.force_login(user)
    return user


def start(client: Client) -> str:
    return client.post(START, {"document": "One.\r\n\r\nTwo."}).headers["Location"]


def until_approve(worker: Worker) -> operations.ClaimedJob:
    """Do all before the approval, which the worker then holds."""
    while True:
        for job in operations.claim(worker, limit=20):
            if job.payload["step"] == "approve":
                return job
            farm.succeed(worker, job, {})


def test_is_on_the_overview_and_leads_to_the_page_of_a_flow_that_is_the_persons_own(client: Client, ada: User) -> None:
    assert f'action="{START}"' in client.get("/").text
    url = start(client)
    jobs = Job.objects.whole().order_by("pk")
    assert url == f"/flows/{jobs[0].flow_id}/"
    assert {(job.owner, job.flow_id) for job in jobs} == {(ada, jobs[0].flow_id)}
    steps = Counter(job.payload["step"] for job in jobs)
    assert steps == {"split": 1, "translate": 12, "approve": 1, "join": 1}
    assert client.get(url).status_code == 200


def test_the_flows_page_says_that_the_approval_waits_as_long_as_it_does(client: Client, ada: User) -> None:
    url, worker = start(client), farm.worker("w1", "document")
    job = until_approve(worker)
    sentence = f'<a href="/jobs/{job.id}/">approve</a> waits for the signal approved.'
    assert sentence not in client.get(url).text
    wait = operations.Wait(signal="approved")
    operations.finish(worker, [operations.Finished(job_id=job.id, lease=job.lease, outcome="suspended", wait=wait)])
    assert sentence in client.get(url).text
    operations.signal(job.id, "approved", {"verdict": "join them"}, by=ada)
    assert sentence not in client.get(url).text


def test_a_button_that_is_pressed_twice_starts_it_once(client: Client, ada: User) -> None:
    form = {"document": "One.", "csrfmiddlewaretoken": "of one page"}
    assert len({client.post(START, form).headers["Location"] for _ in range(2)}) == 1
    assert Job.objects.filter(owner=ada, payload__step="split").count() == 1


def test_a_person_who_presses_too_often_is_told(client: Client, ada: User) -> None:
    assert [start(client) for _ in range(5)][-1] == "/"
    assert (Job.objects.filter(owner=ada).count(), "translation/start" in client.get("/").text) == (60, True)


def test_is_for_members_alone(client: Client) -> None:
    people.come_as_guest(client)
    assert START not in client.get("/").text
    assert client.post(START, {"document": "One."}).status_code == 403
    assert not Job.objects.exists()
