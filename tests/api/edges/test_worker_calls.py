"""What a worker calls over HTTP, from the claim to the end."""

import hashlib
from typing import Any

import httpx
import pytest
from django.contrib.auth.models import User
from django.core.files.storage import default_storage
from django.utils.dateparse import parse_datetime

from jobs import operations
from jobs.models import Job, OutputChunk, ResultFile
from tests import farm
from tests.api.edges.callers import Crew

pytestmark = pytest.mark.django_db(transaction=True)


class TestClaim:
    def test_gives_a_job_with_everything_that_the_protocol_names(self, crew: Crew) -> None:
        job = operations.submit("chat", {"prompt": "Why?"})
        claimed = crew.claim_one()
        job.refresh_from_db()
        assert claimed.pop("lease").startswith("1-")
        assert parse_datetime(claimed.pop("lease_expires_at")) is not None
        assert claimed == {
            "id": job.pk,
            "kind": "chat",
            "queue": "chat",
            "payload": {"prompt": "Why?"},
            "attempt": 1,
            "max_attempts": 3,
            "fence": 1,
            "retry_when_lost": False,
            "heartbeat_every": 20.0,
            "traceparent": None,
        }
        assert job.status == "in_progress"

    def test_gives_as_many_as_asked_for(self, crew: Crew) -> None:
        submitted = [operations.submit("chat", number).pk for number in range(5)]
        assert [job["id"] for job in crew.claim(limit=3)] == submitted[:3]
        assert [job["id"] for job in crew.claim(limit=3)] == submitted[3:]
        assert crew.claim(limit=3) == []

    def test_looks_only_where_it_is_told(self, crew: Crew) -> None:
        operations.submit("image", {})
        refused = crew.post("claim", queues=["image"])
        assert (refused.status_code, refused.json()["error"]) == (403, "queue_not_allowed")
        unknown = crew.post("claim", queues=["nowhere"])
        assert (unknown.status_code, unknown.json()["error"], unknown.json()["queue"]) == (
            422,
            "unknown_queue",
            "nowhere",
        )

    def test_answers_without_the_notes_that_are_for_the_wrapper(self, crew: Crew) -> None:
        response = crew.post("claim")
        assert response.json() == {"jobs": [], "drained": False}
        assert not [name for name in response.headers if name.startswith("x-jobfarm")]


class TestReports:
    def test_a_heartbeat_keeps_the_lease_and_tells_progress(self, crew: Crew) -> None:
        job = operations.submit("chat", {})
        claimed = crew.claim_one()
        renewed = crew.post(f"jobs/{job.pk}/heartbeat", lease=claimed["lease"], progress=0.5, detail="Halfway")
        job.refresh_from_db()
        assert renewed.status_code == 200
        assert renewed.json().keys() == {"lease_expires_at"}
        assert renewed.json()["lease_expires_at"] > claimed["lease_expires_at"]
        assert (job.progress, job.detail) == (0.5, "Halfway")

    def test_a_checkpoint_comes_with_the_next_claim_and_is_shown_to_whoever_sees_the_payload(
        self, crew: Crew, client: httpx.Client, ada: User
    ) -> None:
        job = operations.submit("chat", {}, owner=ada)
        path, lease = f"jobs/{job.pk}", crew.claim_one()["lease"]
        kept = crew.post(f"{path}/checkpoint", lease=lease, value={"pages": 40})
        assert (kept.status_code, kept.json().keys()) == (200, {"lease_expires_at"})
        refused = crew.post(f"{path}/checkpoint", lease=lease, value="x" * 64_000)
        assert (refused.status_code, refused.json()["error"]) == (413, "too_large")
        lacking = crew.post(f"{path}/checkpoint", lease=lease)
        assert lacking.status_code == 422
        assert crew.post(f"{path}/release", lease=lease).status_code == 200
        assert crew.post(f"{path}/checkpoint", lease=lease, value=1).json()["reason"] == "taken_back"
        assert crew.claim_one()["checkpoint"] == {"pages": 40}
        assert client.get(f"/api/v1/jobs/{job.pk}").json()["checkpoint"] == {"pages": 40}
        assert "checkpoint" not in client.get("/api/v1/jobs").json()["jobs"][0]

    def test_a_job_submits_others_and_waits_for_them_without_a_worker(self, crew: Crew) -> None:
        job = operations.submit("chat", {})
        path, lease = f"jobs/{job.pk}", crew.claim_one()["lease"]
        new = {"lease": lease, "position": 0, "kind": "chat", "payload": {"part": 1}}
        child = crew.post(f"{path}/submit", **new)
        assert (child.status_code, child.json().keys()) == (200, {"id"})
        assert crew.post(f"{path}/submit", **new).json() == child.json()
        differs = crew.post(f"{path}/submit", **{**new, "payload": {"part": 2}})
        assert (differs.status_code, differs.json()["error"]) == (409, "child_differs")
        assert crew.post(f"{path}/submit", **{**new, "position": 10_000}).status_code == 422
        assert crew.post(f"{path}/submit", **{**new, "position": 1, "after": [job.pk]}).status_code == 422
        crew.post(f"{path}/checkpoint", lease=lease, value="half", children=1)
        waits = {"lease": lease, "outcome": "suspended", "wait": {"children": [child.json()["id"]]}}
        strange = crew.post(f"{path}/finish", **{**waits, "wait": {"children": [job.pk]}})
        assert (strange.status_code, strange.json()["error"]) == (422, "not_a_child")
        assert [crew.post(f"{path}/finish", **waits).json()["status"] for _ in range(2)] == ["pending"] * 2
        part = crew.claim_one()
        assert (part["id"], part["payload"], part["attempt"]) == (child.json()["id"], {"part": 1}, 1)
        crew.post(f"jobs/{part['id']}/finish", lease=part["lease"], outcome="success", result=7)
        again = crew.claim_one()
        assert (again["id"], again["attempt"], again["checkpoint"], again["children"]) == (job.pk, 1, "half", 1)
        assert [(one["id"], one["result"]) for one in again["after"]] == [(part["id"], 7)]
        assert crew.post(f"{path}/submit", **new).json()["reason"] == "taken_over"

    def test_output_is_stored_once_and_a_gap_says_what_is_expected(self, crew: Crew) -> None:
        job = operations.submit("chat", {})
        lease = crew.claim_one()["lease"]
        path = f"jobs/{job.pk}/output"
        assert crew.post(path, lease=lease, seq=0, text="a").json() == {"next_seq": 1}
        assert crew.post(path, lease=lease, seq=0, text="a").json() == {"next_seq": 1}
        gap = crew.post(path, lease=lease, seq=2, text="c")
        assert gap.status_code == 409
        assert gap.json() == {
            "error": "output_gap",
            "message": "Output must be sent in order: the next piece of this attempt is number 1.",
            "next_seq": 1,
        }
        assert list(OutputChunk.objects.values_list("seq", "text")) == [(0, "a")]

    def test_a_file_arrives_byte_for_byte(self, crew: Crew) -> None:
        job = operations.submit("chat", {})
        lease = crew.claim_one()["lease"]
        content = bytes(range(256)) * 20_000
        stored = crew.http.put(
            f"/api/v1/worker/jobs/{job.pk}/files/noise.bin", params={"lease": lease}, content=content
        )
        assert stored.status_code == 201
        assert stored.json() == {
            "name": "noise.bin",
            "size": len(content),
            "url": f"/api/v1/jobs/{job.pk}/files/noise.bin",
        }
        file = ResultFile.objects.get(job=job)
        assert file.sha256 == hashlib.sha256(content).hexdigest()
        with default_storage.open(file.stored_as) as kept:
            assert kept.read() == content

    def test_a_file_under_a_bad_name_is_refused(self, crew: Crew) -> None:
        job = operations.submit("chat", {})
        lease = crew.claim_one()["lease"]
        for name in (".hidden", "%20", "a%5Cb", "x" * 101):
            refused = crew.http.put(f"/api/v1/worker/jobs/{job.pk}/files/{name}", params={"lease": lease}, content=b"x")
            assert (refused.status_code, refused.json()["error"]) == (422, "invalid_name"), name
        assert not ResultFile.objects.exists()


class TestEnds:
    def test_a_finish_stores_the_result_and_brings_the_next_job(self, crew: Crew) -> None:
        first, second = operations.submit("chat", 1), operations.submit("chat", 2)
        lease = crew.claim_one()["lease"]
        ended = crew.post(f"jobs/{first.pk}/finish", lease=lease, outcome="success", result={"a": 1}, claim_next=1)
        first.refresh_from_db()
        assert (ended.status_code, ended.json()["status"]) == (200, "success")
        assert [job["id"] for job in ended.json()["jobs"]] == [second.pk]
        assert (first.status, first.result) == ("success", {"a": 1})

    def test_a_failure_is_kept_and_tried_again(self, crew: Crew) -> None:
        job = operations.submit("chat", {})
        lease = crew.claim_one()["lease"]
        ended = crew.post(f"jobs/{job.pk}/finish", lease=lease, outcome="failed", error="Traceback: boom")
        assert ended.json() == {"status": "pending", "jobs": [], "drained": False}
        assert job.attempts.get().error == "Traceback: boom"

    def test_a_second_finish_of_one_lease_is_answered_as_the_first_and_changes_nothing(self, crew: Crew) -> None:
        job = operations.submit("chat", {})
        lease = crew.claim_one()["lease"]
        crew.post(f"jobs/{job.pk}/finish", lease=lease, outcome="success", result="first")
        before = farm.everything(job)
        again = crew.post(f"jobs/{job.pk}/finish", lease=lease, outcome="success", result="second")
        assert (again.status_code, again.json()) == (200, {"status": "success", "jobs": [], "drained": False})
        assert farm.everything(job) == before

    def test_a_finish_again_brings_the_same_next_jobs(self, crew: Crew) -> None:
        for number in range(3):
            operations.submit("chat", number)
        first = crew.claim_one()
        body = {"lease": first["lease"], "outcome": "success", "claim_next": 1}
        answer = crew.post(f"jobs/{first['id']}/finish", **body).json()
        again = crew.post(f"jobs/{first['id']}/finish", **body).json()
        assert again["status"] == answer["status"] == "success"
        assert [job["lease"] for job in again["jobs"]] == [job["lease"] for job in answer["jobs"]]
        batch = {
            "finished": [{"id": job["id"], "lease": job["lease"], "outcome": "success"} for job in answer["jobs"]],
            "claim_next": 1,
        }
        many = crew.post("finish", request_id="batch-1", **batch).json()
        assert crew.post("finish", request_id="batch-1", **batch).json()["finished"] == many["finished"]
        assert Job.objects.running().count() == 1

    @pytest.mark.parametrize("name", ["", "x" * 65, "with space", "ümlaut", 7])
    def test_a_name_of_a_call_that_cannot_be_one_is_refused(self, crew: Crew, name: Any) -> None:
        assert crew.post("claim", request_id=name).status_code == 422

    def test_a_lost_lease_says_why(self, crew: Crew) -> None:
        jobs = [operations.submit("chat", number) for number in range(3)]
        leases = [job["lease"] for job in crew.claim(limit=3)]
        operations.cancel(jobs[0].pk, by=None)
        farm.time_out(jobs[1])
        crew.post(f"jobs/{jobs[2].pk}/release", lease=leases[2])
        results = []
        for job, lease in zip(jobs, leases, strict=True):
            refusal = crew.post(f"jobs/{job.pk}/heartbeat", lease=lease).json()
            results.append((refusal["error"], refusal["reason"], refusal.get("job_status")))
        assert results == [
            ("lease_lost", "canceled", None),
            ("lease_lost", "ended", "timed_out"),
            ("lease_lost", "taken_back", None),
        ]

    def test_a_batch_is_answered_one_by_one_in_order(self, crew: Crew) -> None:
        jobs = [operations.submit("chat", number) for number in range(4)]
        claimed = {job["id"]: job["lease"] for job in crew.claim(limit=3)}
        given = [
            {"id": jobs[2].pk, "lease": claimed[jobs[2].pk], "outcome": "success"},
            {"id": jobs[0].pk, "lease": "garbage", "outcome": "success"},
            {"id": jobs[1].pk, "lease": claimed[jobs[0].pk], "outcome": "success"},
            {"id": jobs[0].pk, "lease": claimed[jobs[0].pk], "outcome": "failed", "retryable": False},
        ]
        ended = crew.post("finish", finished=given, claim_next=5)
        assert ended.status_code == 200
        results = [(entry["id"], entry.get("status") or entry["error"]) for entry in ended.json()["finished"]]
        assert results == [
            (jobs[2].pk, "success"),
            (jobs[0].pk, "lease_lost"),
            (jobs[1].pk, "lease_lost"),
            (jobs[0].pk, "failed"),
        ]
        assert [job["id"] for job in ended.json()["jobs"]] == [jobs[3].pk]

    def test_a_released_job_waits_again_and_counts_no_failure(self, crew: Crew) -> None:
        job = operations.submit("chat", {})
        lease = crew.claim_one()["lease"]
        assert crew.post(f"jobs/{job.pk}/release", lease=lease).json() == {"status": "pending"}
        job.refresh_from_db()
        assert (job.status, job.failures) == ("pending", 0)
        claimed = crew.claim_one()
        assert (claimed["attempt"], claimed["fence"]) == (1, 2)

    def test_a_canceled_job_is_lost_at_the_next_call(self, crew: Crew) -> None:
        job = operations.submit("chat", {})
        lease = crew.claim_one()["lease"]
        operations.cancel(job.pk, by=None)
        before = farm.everything(job)
        calls: dict[str, dict[str, Any]] = {
            "heartbeat": {},
            "output": {"seq": 0, "text": "late"},
            "finish": {"outcome": "success"},
            "release": {},
        }
        for verb, fields in calls.items():
            refused = crew.post(f"jobs/{job.pk}/{verb}", lease=lease, **fields)
            assert (refused.status_code, refused.json()["error"]) == (409, "lease_lost"), verb
        assert farm.everything(job) == before
        assert Job.objects.get(pk=job.pk).status == "canceled"

    def test_a_heartbeat_of_several_says_of_each_whether_it_is_still_held(self, crew: Crew) -> None:
        farm.submit(3, "chat")
        jobs = crew.claim(limit=3)
        operations.cancel(jobs[1]["id"], by=None)
        named = [{"id": job["id"], "lease": job["lease"]} for job in jobs]
        answers = crew.post("heartbeat", jobs=[*named[:2], named[2] | {"lease": "nonsense"}]).json()["jobs"]
        assert [(one["id"], one.get("error"), one.get("reason")) for one in answers] == [
            (jobs[0]["id"], None, None), (jobs[1]["id"], "lease_lost", "canceled"),
            (jobs[2]["id"], "lease_lost", "unknown"),
        ]  # fmt: skip
        assert answers[0]["lease_expires_at"] > jobs[0]["lease_expires_at"]
        assert crew.post("heartbeat", jobs=[]).status_code == 422


class TestUnclaim:
    def test_gives_back_what_no_call_has_named_as_if_never_claimed(self, crew: Crew) -> None:
        farm.submit(3, "chat")
        jobs = crew.claim(limit=3)
        assert crew.post(f"jobs/{jobs[0]['id']}/heartbeat", lease=jobs[0]["lease"]).status_code == 200
        named = [{"id": job["id"], "lease": job["lease"]} for job in jobs]

        first, again = (crew.post("unclaim", jobs=named).json() for _ in range(2))

        assert (sorted(first["unclaimed"]), again) == ([jobs[1]["id"], jobs[2]["id"]], {"unclaimed": []})
        assert farm.status(Job.objects.get(pk=jobs[0]["id"])) == "in_progress"
        waiting = Job.objects.filter(pk__in=first["unclaimed"])
        assert {(job.status, job.failures, job.releases) for job in waiting} == {("pending", 0, 0)}

    def test_leaves_alone_what_another_holds_and_what_is_no_lease(self, crew: Crew) -> None:
        farm.submit(1, "chat")
        [job] = crew.claim(limit=1)
        assert crew.post("unclaim", jobs=[{"id": job["id"], "lease": "nonsense"}]).json() == {"unclaimed": []}
        assert crew.post("unclaim", jobs=[]).status_code == 422
        assert farm.status(Job.objects.get(pk=job["id"])) == "in_progress"
