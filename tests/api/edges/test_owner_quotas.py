"""What has no room in the quotas of its owner, or of the farm, is refused with a sentence and the number."""

from collections.abc import Iterator

import httpx
import pytest
from django.contrib.auth.models import User

from jobs import operations
from jobs.models import Job, OutputChunk, ResultFile
from tests.api.edges.callers import Crew
from tests.servers import Server, Serving, serve

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(scope="module")
def server(serving: Serving) -> Iterator[Server]:
    """A farm of small quotas."""
    serving.end()
    quotas = {
        "WAITING_JOBS_PER_OWNER": "3", "WAITING_JOBS_IN_ALL": "5", "OUTPUT_BYTES_PER_OWNER": "5",
        "FILES_PER_OWNER": "1",
    }  # fmt: skip
    with serve(**{f"JOBFARM_{name}": number for name, number in quotas.items()}) as server:
        yield server


BODY = {"kind": "chat", "payload": 1}


def test_a_submit_is_refused_with_429_and_when_to_come_again(client: httpx.Client) -> None:
    for _ in range(3):
        assert client.post("/api/v1/jobs", json=BODY).status_code == 201
    refused = client.post("/api/v1/jobs", json=BODY)
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "10")
    assert refused.json() == {
        "error": "quota_reached", "what": "waiting jobs", "of": "owner", "quota": 3, "used": 3, "more": 1,
        "retry_after": 10,
        "message": "Quota of one owner, jobs waiting: 3 allowed, 3 used, 1 more requested.",
    }  # fmt: skip
    newest = Job.objects.latest("pk")
    client.post(f"/api/v1/jobs/{newest.pk}/cancel")
    assert client.post("/api/v1/jobs", json=BODY).status_code == 201
    again = client.post(f"/api/v1/jobs/{newest.pk}/retry")
    assert (again.status_code, again.json()["error"]) == (429, "quota_reached")


def test_a_bulk_is_refused_as_a_whole(client: httpx.Client) -> None:
    refused = client.post("/api/v1/jobs/bulk", json={"jobs": [BODY] * 4})
    assert (refused.status_code, refused.json()["more"]) == (429, 4)
    assert not Job.objects.exists()
    assert client.post("/api/v1/jobs/bulk", json={"jobs": [BODY] * 3}).status_code == 201


def test_a_repeat_is_answered_as_before_when_the_quota_is_full(client: httpx.Client) -> None:
    headers = {"Idempotency-Key": "mine"}
    first = client.post("/api/v1/jobs", json=BODY, headers=headers).json()
    client.post("/api/v1/jobs/bulk", json={"jobs": [BODY] * 2})
    assert client.post("/api/v1/jobs", json=BODY).status_code == 429
    repeated = client.post("/api/v1/jobs", json=BODY, headers=headers)
    assert (repeated.status_code, repeated.json()["id"]) == (201, first["id"])
    assert Job.objects.count() == 3


def test_output_and_files_are_refused_with_413_and_the_job_may_finish(crew: Crew, ada: User) -> None:
    for n in range(2):
        job = operations.submit("chat", {}, owner=ada)
        lease = crew.claim_one()["lease"]
        text = crew.post(f"jobs/{job.pk}/output", lease=lease, seq=0, text="four")
        put = crew.http.put(f"/api/v1/worker/jobs/{job.pk}/files/a", params={"lease": lease}, content=b"x")
        assert (text.status_code, put.status_code) == ((200, 201), (413, 413))[n]
        done = crew.post(f"jobs/{job.pk}/finish", lease=lease, outcome="success")
        assert done.json()["status"] == "success"
    assert text.json()["message"] == ("Quota of one owner, bytes of output: 5 allowed, 4 used, 4 more requested.")
    assert put.json()["message"] == ("Quota of one owner, files: 1 allowed, 1 used, 1 more requested.")
    assert (OutputChunk.objects.count(), ResultFile.objects.count()) == (1, 1)
