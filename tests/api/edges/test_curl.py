"""A worker and a client made of curl alone, from the examples in the OpenAPI document."""

import json
import re
import shutil
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.contrib.auth.models import User
from django.db.models.functions import Now

from accounts import operations as accounts
from jobfarm.api import api
from jobs import operations
from jobs.models import FlowTemplate, Job, OutputChunk, ResultFile, Worker
from outbox import operations as outbox
from outbox.models import Message
from tests import farm
from tests.api.edges.callers import Crew
from tests.servers import Server

pytestmark = pytest.mark.django_db(transaction=True)

PICTURE = b"\x89PNG not really"


class Shell:
    """Runs the examples of the document as they stand."""

    def __init__(self, document: dict[str, Any], folder: Path, **variables: str) -> None:
        self._document = document
        self._folder = folder
        self.variables = variables

    def example(self, method: str, path: str) -> Any:
        """Run the first example of a call, and return the JSON of its answer."""
        description: str = self._document["paths"][path][method]["description"]
        description = description.partition("In Python")[0]
        lines = [line[4:] for line in description.splitlines() if line.startswith("    ")]
        command = re.split(r"\n(?=curl )", "\n".join(lines))[0]
        assert command.startswith("curl "), description
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=self._folder,
            env={"PATH": "/usr/bin:/bin:/usr/local/bin", **self.variables},
            capture_output=True,
            timeout=30,
            check=True,
        )
        return json.loads(done.stdout) if done.stdout else None


@pytest.fixture
def shell(server: Server, crew: Crew, ada: User, tmp_path: Path) -> Shell:
    assert shutil.which("curl"), "curl is needed: apt-get install curl"
    _, token = accounts.create_token(ada, name="curl")
    document = httpx.get(f"{server.url}/api/v1/openapi.json").json()
    (tmp_path / "picture.png").write_bytes(PICTURE)
    return Shell(document, tmp_path, FARM=server.url, KEY=crew.key, TOKEN=token)


class TestCurl:
    def test_is_all_that_a_worker_and_a_client_need(self, shell: Shell, tmp_path: Path) -> None:
        submitted = shell.example("post", "/api/v1/jobs")
        assert submitted["status"] == "pending"
        shell.variables["JOB"] = str(submitted["id"])

        [claimed] = shell.example("post", "/api/v1/worker/claim")["jobs"]
        assert claimed["payload"] == {"prompt": "Why is the sky blue?"}
        shell.variables["LEASE"] = claimed["lease"]

        job = "/api/v1/worker/jobs/{job_id}"
        assert shell.example("post", f"{job}/heartbeat").keys() == {"lease_expires_at"}
        assert shell.example("get", "/api/v1/jobs/{job_id}")["detail"] == "Painting"
        assert shell.example("post", f"{job}/output") == {"next_seq": 1}
        assert shell.example("post", f"{job}/checkpoint").keys() == {"lease_expires_at"}
        child = shell.example("post", f"{job}/submit")
        assert shell.example("post", f"{job}/submit") == child
        operations.cancel(child["id"], by=None)
        assert shell.example("put", f"{job}/files/{{name}}")["size"] == len(PICTURE)
        assert [j["id"] for j in shell.example("get", "/api/v1/jobs")["jobs"]] == [claimed["id"]]
        assert shell.example("get", "/api/v1/jobs/{job_id}/why")["reasons"][0]["code"] == "not_waiting"
        waited = operations.submit("chat", {}, owner=User.objects.get(), run_at=farm.now() + timedelta(hours=1))
        shell.variables["JOB"] = str(waited.pk)
        why = shell.example("get", "/api/v1/jobs/{job_id}/why")["reasons"][0]
        assert why["remedies"][0]["path"] == f"/api/v1/jobs/{waited.pk}/run_now"
        assert shell.example("post", "/api/v1/jobs/{job_id}/run_now")["id"] == waited.pk
        assert shell.example("post", "/api/v1/jobs/{job_id}/priority")["priority"] == -10
        assert shell.example("post", "/api/v1/jobs/{job_id}/signals") == {"is_new": True}
        operations.cancel(waited.pk, by=None)
        shell.variables["JOB"] = str(submitted["id"])
        ended = shell.example("post", f"{job}/finish")
        assert ended == {"status": "success", "jobs": [], "drained": False}

        output = shell.example("get", "/api/v1/jobs/{job_id}/output")
        assert output["chunks"] == [{"seq": 0, "text": "Once upon a time"}]
        (tmp_path / "picture.png").unlink()
        shell.example("get", "/api/v1/jobs/{job_id}/files/{name}")
        assert (tmp_path / "picture.png").read_bytes() == PICTURE
        assert shell.example("post", "/api/v1/jobs/{job_id}/cancel")["verdict"] == "too_late"
        again = shell.example("post", "/api/v1/jobs/{job_id}/retry")
        assert again["retry_of"] == submitted["id"]
        assert Job.objects.get(pk=submitted["id"]).result == 42
        assert OutputChunk.objects.count() == 1
        assert ResultFile.objects.count() == 1

    def test_can_upload_a_file_give_it_to_a_job_and_fetch_it(self, shell: Shell, tmp_path: Path) -> None:
        (tmp_path / "sound.ogg").write_bytes(b"OggS")
        kept = shell.example("post", "/api/v1/files")
        assert (kept["name"], kept["size"]) == ("sound.ogg", 4)
        shell.variables["FILE"] = kept["id"]
        assert shell.example("get", "/api/v1/files/{file_id}") == kept
        job = operations.submit("chat", {}, owner=User.objects.get(), files={"audio": kept["id"]})
        claimed = operations.claim(Worker.objects.get())[0]
        shell.variables |= {"JOB": str(job.pk), "LEASE": str(claimed.lease)}
        shell.example("get", "/api/v1/worker/jobs/{job_id}/inputs/{name}")
        assert (tmp_path / "input.ogg").read_bytes() == b"OggS"
        (tmp_path / "sound.ogg").unlink()
        shell.example("get", "/api/v1/jobs/{job_id}/inputs/{name}")
        assert (tmp_path / "sound.ogg").read_bytes() == b"OggS"
        operations.cancel(job.pk, by=None)
        assert shell.example("delete", "/api/v1/files/{file_id}")["deleted"] is True

    def test_can_hand_in_a_batch_and_submit_many(self, shell: Shell) -> None:
        many = shell.example("post", "/api/v1/jobs/bulk")
        assert [job["priority"] for job in many["jobs"]] == [0, -5]
        [claimed] = shell.example("post", "/api/v1/worker/claim")["jobs"]
        assert claimed["id"] == many["jobs"][0]["id"]
        shell.variables |= {"JOB": str(claimed["id"]), "LEASE": claimed["lease"]}
        ended = shell.example("post", "/api/v1/worker/finish")
        assert ended["finished"] == [{"id": claimed["id"], "status": "success"}]
        assert [job["id"] for job in ended["jobs"]] == [many["jobs"][1]["id"]]

    def test_can_start_a_flow_look_at_it_and_cancel_it(self, shell: Shell) -> None:
        FlowTemplate.objects.create(name="report", placeholders={"day": None}, jobs=[{"name": "a", "kind": "chat"}])
        started = shell.example("post", "/api/v1/flows")
        shell.variables |= {"FLOW": str(started["id"]), "JOB": str(started["jobs"][0]["id"])}
        assert shell.example("get", "/api/v1/flows/{flow_id}") == started
        assert shell.example("post", "/api/v1/flows/{flow_id}/cancel") == {"canceled": 1}
        assert len(shell.example("post", "/api/v1/flows/{flow_id}/retry")["jobs"]) == 1

    def test_can_say_what_a_worker_is_and_drain_it(self, shell: Shell, crew: Crew, ada: User) -> None:
        assert shell.example("post", "/api/v1/worker/hello")["drained"] is False
        Worker.objects.update(owner=ada)
        shell.variables["WORKER"] = str(crew.worker.pk)
        [row] = shell.example("get", "/api/v1/workers")["workers"]
        assert (row["presence"], row["about"]["host"], row["drained_at"]) == ("live", "gpu-3", None)
        assert shell.example("post", "/api/v1/workers/{worker_id}/drain")["drained_by"] == "ada"
        assert shell.example("post", "/api/v1/worker/hello")["drained"] is True
        assert shell.example("post", "/api/v1/workers/{worker_id}/undrain")["drained_at"] is None
        assert shell.example("get", "/api/v1/workers/{worker_id}")["presence"] == "live"

    def test_can_be_an_operator_of_the_outbox(self, shell: Shell) -> None:
        made = shell.example("post", "/api/v1/outbox/endpoints")
        assert made["secret"].startswith("whsec_")
        shell.variables["ENDPOINT"] = str(made["id"])
        one = "/api/v1/outbox/endpoints/{endpoint_id}"
        assert shell.example("patch", one)["per_minute"] == 60
        assert shell.example("post", f"{one}/rotate")["secret"] != made["secret"]
        assert shell.example("post", f"{one}/pause")["status"] == "paused"
        assert shell.example("post", f"{one}/test") == {"messages": 1}
        [listed] = shell.example("get", "/api/v1/outbox/endpoints")["endpoints"]
        assert (listed["id"], listed["waiting"]) == (made["id"], 1)
        assert len(shell.example("get", one)["secrets"]) == 2
        assert shell.example("get", "/api/v1/outbox/messages")["messages"] == []
        Message.objects.update(status="dead", next_attempt_at=None, ended_at=Now())
        shell.variables["MESSAGE"] = str(Message.objects.get().pk)
        assert shell.example("get", "/api/v1/outbox/messages/{message_id}")["status"] == "dead"
        assert shell.example("post", "/api/v1/outbox/messages/{message_id}/replay")["status"] == "pending"
        assert shell.example("post", "/api/v1/outbox/replays")["id"] is None
        begun = outbox.replay_matching(outbox.Filter(), by=User.objects.get())
        assert begun is None
        assert shell.example("post", f"{one}/disable")["status"] == "disabled"
        assert shell.example("post", f"{one}/resume")["status"] == "active"
        begun = outbox.replay_matching(outbox.Filter(), by=User.objects.get())
        assert begun is not None
        shell.variables["REPLAY"] = str(begun.first)
        assert shell.example("get", "/api/v1/outbox/replays/{replay_id}")["matched"] == 1
        assert shell.example("post", "/api/v1/outbox/replays/{replay_id}/stop")["is_over"] is True
        assert shell.example("delete", one) == {"id": made["id"], "deleted": True}

    def test_can_be_an_operator_of_alerts(self, shell: Shell) -> None:
        User.objects.update(is_staff=True, is_superuser=True)
        made = shell.example("post", "/api/v1/alerts/rules")
        shell.variables["RULE"] = str(made["id"])
        assert (made["mail_to"], made["firing"]) == (["ops@example.org"], 0)
        one = "/api/v1/alerts/rules/{rule_id}"
        assert shell.example("patch", one)["severity"] == "critical"
        assert shell.example("post", f"{one}/mute")["muted_until"] is not None
        assert shell.example("post", f"{one}/unmute")["muted_until"] is None
        assert shell.example("get", one) == shell.example("get", "/api/v1/alerts/rules")["rules"][0]
        codes = [each["code"] for each in shell.example("get", "/api/v1/alerts/conditions")["conditions"]]
        assert "jobs_wait" in codes
        assert shell.example("get", "/api/v1/alerts")["alerts"] == []
        assert shell.example("delete", one)["deleted"] is True

    def test_can_give_a_job_back(self, shell: Shell) -> None:
        job = operations.submit("chat", {})
        [claimed] = shell.example("post", "/api/v1/worker/claim")["jobs"]
        shell.variables |= {"JOB": str(claimed["id"]), "LEASE": claimed["lease"]}
        assert shell.example("post", "/api/v1/worker/jobs/{job_id}/release") == {"status": "pending"}
        job.refresh_from_db()
        assert job.status == "pending"


class TestDocument:
    def test_names_exactly_the_calls_of_the_protocol(self, shell: Shell, server: Server) -> None:
        document = httpx.get(f"{server.url}/api/v1/openapi.json").json()
        calls = {f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods}
        assert calls == {
            "POST /api/v1/worker/claim",
            "GET /api/v1/worker/jobs/{job_id}/inputs/{name}",
            "GET /api/v1/jobs/{job_id}/inputs/{name}",
            "POST /api/v1/files",
            "GET /api/v1/files/{file_id}",
            "DELETE /api/v1/files/{file_id}",
            "POST /api/v1/worker/hello",
            "GET /api/v1/workers",
            "GET /api/v1/workers/{worker_id}",
            "POST /api/v1/workers/{worker_id}/drain",
            "PUT /api/v1/workers/{worker_id}/labels",
            "POST /api/v1/workers/{worker_id}/undrain",
            "POST /api/v1/worker/finish",
            "POST /api/v1/worker/unclaim",
            "POST /api/v1/worker/heartbeat",
            "POST /api/v1/worker/jobs/{job_id}/heartbeat",
            "POST /api/v1/worker/jobs/{job_id}/checkpoint",
            "POST /api/v1/worker/jobs/{job_id}/submit",
            "POST /api/v1/worker/jobs/{job_id}/output",
            "PUT /api/v1/worker/jobs/{job_id}/files/{name}",
            "POST /api/v1/worker/jobs/{job_id}/finish",
            "POST /api/v1/worker/jobs/{job_id}/release",
            "POST /api/v1/jobs",
            "GET /api/v1/jobs",
            "POST /api/v1/jobs/bulk",
            "POST /api/v1/jobs/{job_id}/signals",
            "GET /api/v1/jobs/{job_id}",
            "GET /api/v1/jobs/{job_id}/output",
            "GET /api/v1/jobs/{job_id}/files/{name}",
            "GET /api/v1/jobs/{job_id}/events",
            "GET /api/v1/jobs/events",
            "GET /api/v1/events",
            "POST /api/v1/view-tokens",
            "DELETE /api/v1/view-tokens/{token_id}",
            "GET /api/v1/bulk-actions",
            "POST /api/v1/flows",
            "GET /api/v1/flows/{flow_id}",
            "POST /api/v1/flows/{flow_id}/cancel",
            "POST /api/v1/flows/{flow_id}/retry",
            "POST /api/v1/bulk-actions",
            "GET /api/v1/bulk-actions/{bulk_id}",
            "POST /api/v1/bulk-actions/{bulk_id}/begin",
            "POST /api/v1/bulk-actions/{bulk_id}/stop",
            "POST /api/v1/bulk-actions/{bulk_id}/undo",
            "POST /api/v1/jobs/pause",
            "POST /api/v1/jobs/resume",
            "POST /api/v1/jobs/{job_id}/cancel",
            "POST /api/v1/jobs/{job_id}/retry",
            "POST /api/v1/jobs/{job_id}/run_now",
            "POST /api/v1/jobs/{job_id}/priority",
            "GET /api/v1/jobs/{job_id}/why",
            "GET /api/v1/scale",
            "GET /api/v1/usage",
            "GET /api/v1/budgets",
            "POST /api/v1/budgets",
            "PATCH /api/v1/budgets/{budget_id}",
            "DELETE /api/v1/budgets/{budget_id}",
            "GET /api/v1/outbox/endpoints",
            "POST /api/v1/outbox/endpoints",
            "GET /api/v1/outbox/endpoints/{endpoint_id}",
            "PATCH /api/v1/outbox/endpoints/{endpoint_id}",
            "DELETE /api/v1/outbox/endpoints/{endpoint_id}",
            "POST /api/v1/outbox/endpoints/{endpoint_id}/disable",
            "POST /api/v1/outbox/endpoints/{endpoint_id}/pause",
            "POST /api/v1/outbox/endpoints/{endpoint_id}/resume",
            "POST /api/v1/outbox/endpoints/{endpoint_id}/rotate",
            "POST /api/v1/outbox/endpoints/{endpoint_id}/test",
            "GET /api/v1/outbox/messages",
            "GET /api/v1/outbox/messages/{message_id}",
            "POST /api/v1/outbox/messages/{message_id}/replay",
            "POST /api/v1/outbox/replays",
            "GET /api/v1/outbox/replays/{replay_id}",
            "POST /api/v1/outbox/replays/{replay_id}/stop",
            "GET /api/v1/alerts",
            "GET /api/v1/alerts/conditions",
            "GET /api/v1/alerts/rules",
            "POST /api/v1/alerts/rules",
            "GET /api/v1/alerts/rules/{rule_id}",
            "PATCH /api/v1/alerts/rules/{rule_id}",
            "DELETE /api/v1/alerts/rules/{rule_id}",
            "POST /api/v1/alerts/rules/{rule_id}/mute",
            "POST /api/v1/alerts/rules/{rule_id}/test",
            "POST /api/v1/alerts/rules/{rule_id}/unmute",
        }

    def test_has_a_summary_an_example_and_the_right_key_for_every_call(self, server: Server) -> None:
        document = httpx.get(f"{server.url}/api/v1/openapi.json").json()
        people = {"TokenAuth", "SessionAuth"}
        assert document["components"]["securitySchemes"].keys() == {"WorkerKey", "MetricsToken", "ViewKey", *people}
        for path, methods in document["paths"].items():
            for method, call in methods.items():
                assert call["summary"], (method, path)
                assert "curl -sS" in call["description"], (method, path)
                keys = {name for scheme in call["security"] for name in scheme}
                expected = {"WorkerKey"} if "/worker/" in path else people
                scrapers = {"MetricsToken"} if path == "/api/v1/scale" else set()
                assert keys - {"ViewKey"} == expected | scrapers, (method, path)
                assert "ViewKey" not in keys or method == "get", (method, path)

    def test_is_shown_as_a_page_without_anything_from_elsewhere(self, server: Server) -> None:
        page = httpx.get(f"{server.url}/api/docs")
        assert page.status_code == 200
        assert "/api/v1/openapi.json" in page.text
        assert "https://" not in page.text


class TestTheDocument:
    def test_has_a_body_to_begin_with_for_every_call_that_takes_one(self) -> None:
        document = json.loads(json.dumps(api.get_openapi_schema(), default=str))
        taken = {
            f"{method} {path}": operation["requestBody"]["content"]["application/json"].get("example")
            for path, operations_of in document["paths"].items()
            for method, operation in operations_of.items()
            if "application/json" in operation.get("requestBody", {}).get("content", {})
        }
        assert len(taken) == 31
        assert [path for path, body in taken.items() if not body] == []
        assert taken["post /api/v1/worker/finish"] == {
            "finished": [{"id": 7, "lease": "1-9f86d081", "outcome": "success"}], "claim_next": 1,
        }  # fmt: skip

    def test_says_of_every_call_that_the_farm_may_not_be_able_to_answer(self) -> None:
        """The database is away, or others change the same at every try."""
        document = json.loads(json.dumps(api.get_openapi_schema(), default=str))
        calls = [(path, call) for path, methods in document["paths"].items() for call in methods.values()]
        assert [path for path, call in calls if "503" not in call["responses"]] == []
        assert "503 `unavailable`" in document["info"]["description"]
