"""What attempts wrote stays readable by the API after they were lost; what has no room is refused with its numbers."""

from typing import Any

import httpx
import pytest
from django.contrib.auth.models import User

from jobs import operations
from jobs.models import Job
from tests import farm
from tests.api.edges import callers
from tests.api.edges.callers import Crew
from tests.servers import serve

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def job(ada: User) -> Job:
    """What is worked on."""
    return operations.submit("chat", {}, owner=ada)


def _attempt(crew: Crew, job: Job, *texts: str, file: bytes = b"") -> dict[str, Any]:
    """A claim that writes these texts and hands in this file."""
    claimed = crew.claim_one()
    lease = {"lease": claimed["lease"]}
    for seq, text in enumerate(texts):
        assert crew.post(f"jobs/{job.pk}/output", **lease, seq=seq, text=text).status_code == 200
    if file:
        put = crew.http.put(f"/api/v1/worker/jobs/{job.pk}/files/p.png", params=lease, content=file)
        assert put.status_code == 201
    return claimed


def _fail(crew: Crew, claimed: dict[str, Any], error: str) -> None:
    crew.post(f"jobs/{claimed['id']}/finish", lease=claimed["lease"], outcome="failed", error=error)
    farm.forgive(Job.objects.get(pk=claimed["id"]))


def _three_attempts(crew: Crew, job: Job) -> None:
    _fail(crew, _attempt(crew, job, "first ", "try", file=b"one"), "no luck")
    crew.post(f"jobs/{job.pk}/release", lease=_attempt(crew, job)["lease"])
    _attempt(crew, job, "third", file=b"three")


class TestAttempts:
    def test_are_told_with_the_job_the_latest_first(self, client: httpx.Client, crew: Crew, job: Job) -> None:
        assert client.get(f"/api/v1/jobs/{job.pk}").json()["attempts"] == []
        _three_attempts(crew, job)
        third, second, first = client.get(f"/api/v1/jobs/{job.pk}").json()["attempts"]
        for shown in (third, second, first):
            assert shown.pop("claimed_at")
            assert bool(shown.pop("ended_at")) == (shown is not third)
        url = f"/api/v1/jobs/{job.pk}/files/p.png?fence="
        files = [{"name": "p.png", "size": size, "url": f"{url}{n}"} for n, size in ((1, 3), (3, 5))]
        assert third == {
            "attempt": 2, "fence": 3, "outcome": None, "worker": "w", "error": None, "has_output": True,
            "files": files[1:],
        }  # fmt: skip
        assert second == {
            "attempt": None, "fence": 2, "outcome": "released", "worker": "w", "error": "given back by the worker",
            "has_output": False, "files": [],
        }  # fmt: skip
        assert first == {
            "attempt": 1, "fence": 1, "outcome": "failed", "worker": "w", "error": "no luck",
            "has_output": True, "files": files[:1],
        }  # fmt: skip
        assert [client.get(shown["files"][0]["url"]).content for shown in (third, first)] == [b"three", b"one"]

    def test_that_succeeded_are_told_too(self, client: httpx.Client, crew: Crew, job: Job) -> None:
        claimed = _attempt(crew, job, "done")
        crew.post(f"jobs/{job.pk}/finish", lease=claimed["lease"], outcome="success")
        [shown] = client.get(f"/api/v1/jobs/{job.pk}").json()["attempts"]
        assert (shown["fence"], shown["outcome"], shown["error"], shown["has_output"]) == (1, "success", None, True)
        assert shown["ended_at"]

    def test_of_a_job_that_nobody_had_are_none(self, client: httpx.Client, job: Job) -> None:
        operations.cancel(job.pk, by=None)
        assert client.get(f"/api/v1/jobs/{job.pk}").json()["attempts"] == []

    def test_have_their_output_by_the_number_of_the_claim(self, client: httpx.Client, crew: Crew, job: Job) -> None:
        _three_attempts(crew, job)

        def read(**params: Any) -> Any:
            return client.get(f"/api/v1/jobs/{job.pk}/output", params=params).json()

        first: dict[str, Any] = {
            "fence": 1,
            "chunks": [{"seq": 0, "text": "first "}, {"seq": 1, "text": "try"}],
            "next_seq": 2,
        }
        assert read(fence=1) == first
        assert read(fence=1, after=0) == {**first, "chunks": first["chunks"][1:]}
        assert read(fence=2) == {"fence": 2, "chunks": [], "next_seq": 0}
        assert read() == {"fence": 3, "chunks": [{"seq": 0, "text": "third"}], "next_seq": 1}
        assert read(attempt=1)["error"] == "invalid"

    def test_that_wrote_last_are_read_while_the_job_waits_for_the_next(
        self, client: httpx.Client, crew: Crew, job: Job
    ) -> None:
        """Also when a later one wrote nothing."""
        _fail(crew, _attempt(crew, job, "what I thought so far"), "gone")
        crew.post(f"jobs/{job.pk}/release", lease=_attempt(crew, job)["lease"])
        shown = client.get(f"/api/v1/jobs/{job.pk}/output").json()
        assert (shown["fence"], shown["chunks"][0]["text"]) == (1, "what I thought so far")

    def test_are_not_in_the_stream_of_events(self, client: httpx.Client, crew: Crew, job: Job) -> None:
        claimed = _attempt(crew, job, "x")
        crew.post(f"jobs/{job.pk}/finish", lease=claimed["lease"], outcome="success")
        with client.stream("GET", f"/api/v1/jobs/{job.pk}/events") as answer:
            shown = [event.data for event in callers.events(answer.iter_lines()) if event.name == "job"]
        assert shown
        assert not [data for data in shown if "attempts" in data or "payload" in data]


class TestQuotas:
    def test_are_told_with_413_over_http_and_the_socket(self, job: Job) -> None:
        small = {"JOBFARM_OUTPUT_BYTES_PER_ATTEMPT": "5", "JOBFARM_FILES_PER_ATTEMPT": "1"}
        with serve(**small) as server:
            self._refused_with_413(callers.crew(server), job)

    def _refused_with_413(self, crew: Crew, job: Job) -> None:
        claimed = _attempt(crew, job, "four", file=b"one")
        lease = claimed["lease"]
        no_room = {
            "error": "quota_reached", "what": "bytes of output", "of": "attempt", "quota": 5, "used": 4, "more": 2,
            "message": "Quota of one attempt, bytes of output: 5 allowed, 4 used, 2 more requested.",
        }  # fmt: skip
        answer = crew.post(f"jobs/{job.pk}/output", lease=lease, seq=1, text="22")
        assert (answer.status_code, answer.json()) == (413, no_room)
        with crew.socket() as socket:
            shown = callers.ask(socket, type="output", ref=1, job=job.pk, lease=lease, seq=1, text="22")
        assert shown == {"type": "error", "ref": 1, "status": 413, **no_room}
        put = crew.http.put(f"/api/v1/worker/jobs/{job.pk}/files/b", params={"lease": lease}, content=b"x")
        assert (put.status_code, put.json()["what"], put.json()["quota"]) == (413, "files", 1)
        done = crew.post(f"jobs/{job.pk}/finish", lease=lease, outcome="success")
        assert done.json()["status"] == "success"
