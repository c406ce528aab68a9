"""Files and batches by OpenAI's own client and by curl, with a worker and a cluster of their own."""

import io
import json
import subprocess
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from django.contrib.auth.models import User

from accounts import operations as accounts
from jobs.models import Job, Upload
from openai_api.models import Batch, File
from tests import farm
from tests.openai_api import batching
from tests.openai_api.batching import line, text
from tests.openai_api.edges.conftest import Working
from tests.openai_api.model_server import ModelServer, Script, whole
from tests.scheduling.concurrency.support import supervisor
from tests.servers import Server

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def http(client: openai.OpenAI, key: str) -> Any:
    """A plain client with her token."""
    headers = {"Authorization": f"Bearer {key}"}
    with httpx.Client(base_url=str(client.base_url), headers=headers, timeout=30) as plain:
        yield plain


def chat(number: int, model: str = "tiny") -> dict[str, Any]:
    """A line that asks a question."""
    body = {"model": model, "messages": [{"role": "user", "content": f"Question {number}?"}]}
    return line(number, url="/v1/chat/completions", body=body)


def answer(request: dict[str, Any]) -> Script:
    """What the model server answers a question with; the second one it refuses."""
    question = request["messages"][0]["content"]
    if question.startswith("Question 1?"):
        error = {"error": {"message": "too hard", "type": "invalid_request_error", "code": "hard"}}
        return Script([json.dumps(error).encode()], status=400, headers={"content-type": "application/json"})
    message = {"role": "assistant", "content": f"Answer to {question}"}
    return whole(id="c", object="chat.completion", created=1, model="tiny", choices=[
        {"index": 0, "message": message, "finish_reason": "stop"}
    ])  # fmt: skip


class TestOpenAIsClient:
    def test_uploads_a_file_makes_a_batch_waits_and_reads_both_files(
        self, client: openai.OpenAI, model: ModelServer, working: Working, tmp_path: Path
    ) -> None:
        model.answer = answer
        (path := tmp_path / "questions for May.jsonl").write_bytes(text(*map(chat, range(5))))
        uploaded = client.files.create(file=path, purpose="batch")
        assert (uploaded.filename, uploaded.purpose, uploaded.status) == (path.name, "batch", "processed")
        assert uploaded.bytes == path.stat().st_size
        with working(concurrency=4), supervisor("--actions", "--workers", "1"):
            batch = client.batches.create(
                input_file_id=uploaded.id, endpoint="/v1/chat/completions", completion_window="24h",
                metadata={"month": "May"},
            )  # fmt: skip
            assert (batch.status, batch.metadata) == ("validating", {"month": "May"})
            assert Batch.objects.get().token_id is not None  # whose budgets bound its jobs
            farm.until(lambda: client.batches.retrieve(batch.id).status == "completed", what="the batch's end")
        done = client.batches.retrieve(batch.id)
        counts = done.request_counts
        assert counts is not None
        assert (counts.total, counts.completed, counts.failed) == (5, 4, 1)
        assert None not in {done.in_progress_at, done.finalizing_at, done.completed_at}
        assert done.expires_at is not None
        assert done.expires_at - done.created_at == 86400
        assert (done.failed_at, done.cancelled_at, done.errors) == (None, None, None)
        lines = [json.loads(each) for each in client.files.content(done.output_file_id or "").text.splitlines()]
        contents = {each["custom_id"]: each["response"]["body"]["choices"][0]["message"]["content"] for each in lines}
        assert contents == {f"line-{n}": f"Answer to Question {n}?" for n in (0, 2, 3, 4)}
        [refused] = [json.loads(each) for each in client.files.content(done.error_file_id or "").text.splitlines()]
        assert refused["custom_id"] == "line-1"
        assert refused["response"]["status_code"] == 400
        assert refused["response"]["body"]["error"]["message"] == "too hard"
        assert [each.id for each in client.batches.list()] == [batch.id]

    def test_lists_retrieves_and_deletes_files(self, client: openai.OpenAI, ada: User, bob: User) -> None:
        foreign = batching.uploaded(b"secret", user=bob)
        made = [
            client.files.create(file=(f"{n}.bin", io.BytesIO(bytes([n]) * 10)), purpose="user_data") for n in range(3)
        ]
        made.append(client.files.create(file=("b.jsonl", b"{}"), purpose="batch"))
        ids = [each.id for each in made]
        assert [each.id for each in client.files.list()] == ids[::-1]
        assert [each.id for each in client.files.list(order="asc", limit=2)] == ids
        assert [each.id for each in client.files.list(purpose="user_data")] == [*ids[:3]][::-1]
        page = client.files.list(limit=2, after=ids[3])
        assert ([each.id for each in page.data], page.has_more) == (ids[2:0:-1], True)
        assert client.files.content(ids[1]).read() == bytes([1]) * 10
        assert client.files.delete(ids[1]).deleted
        for gone in (ids[1], foreign.public_id, "file-x"):
            for call in (client.files.retrieve, client.files.content, client.files.delete):
                with pytest.raises(openai.NotFoundError):
                    call(gone)
        assert File.objects.count() == Upload.objects.count() == 4

    def test_cancels_a_batch(self, client: openai.OpenAI, server: Server, ada: User) -> None:
        worker = batching.offering("tiny")
        batch = batching.step(batching.made(text(*map(line, range(3))), user=ada))
        running = farm.claim_one(worker)
        assert client.batches.cancel(batch.public_id).status == "cancelling"
        farm.succeed(worker, running, {"echo": "late"})
        batching.step(batch)
        cancelled = client.batches.retrieve(batch.public_id)
        assert cancelled.status == "cancelled"
        assert None not in {cancelled.cancelled_at, cancelled.cancelling_at}
        assert None not in {cancelled.output_file_id, cancelled.error_file_id}
        with pytest.raises(openai.ConflictError):
            client.batches.cancel(batch.public_id)

    def test_reads_why_a_file_was_refused(self, client: openai.OpenAI, ada: User) -> None:
        batching.offering("tiny")
        batch = batching.step(batching.made(text(line(0), b"no json\n"), user=ada))
        failed = client.batches.retrieve(batch.public_id)
        assert failed.status == "failed"
        assert failed.failed_at
        [error] = (failed.errors and failed.errors.data) or []
        assert (error.code, error.line) == ("invalid_json_line", 2)

    def test_pages_through_its_batches(self, client: openai.OpenAI, ada: User, bob: User) -> None:
        batching.offering("tiny")
        made = [batching.made(text(line(n)), user=ada).public_id for n in range(3)]
        batching.made(text(line(0)), user=bob)
        page = client.batches.list(limit=2)
        assert ([each.id for each in page.data], page.has_more) == (made[:0:-1], True)
        assert [each.id for each in client.batches.list(limit=2)] == made[::-1]


class TestRefusals:
    @pytest.mark.parametrize(
        ("fields", "param"),
        [
            ({}, "purpose"), ({"purpose": "batch_output"}, "purpose"), ({"purpose": "No such"}, "purpose"),
            ({"purpose": "batch", "expires_after[seconds]": "10"}, "expires_after"),
            ({"purpose": "batch", "expires_after[seconds]": "x"}, "expires_after"),
            ({"purpose": "batch", "expires_after[anchor]": "now", "expires_after[seconds]": "3600"}, "expires_after"),
        ],
        ids=["none", "ours", "no word", "too soon", "no number", "anchor"],
    )  # fmt: skip
    def test_of_a_file_store_nothing(self, http: httpx.Client, fields: dict[str, str], param: str) -> None:
        refused = http.post("/files", data=fields, files={"file": ("a.txt", b"x")})
        assert refused.status_code == 400
        assert refused.json()["error"]["param"] == param
        assert not Upload.objects.exists()

    def test_of_what_is_no_form_or_has_no_file(self, http: httpx.Client) -> None:
        for body in ({"json": {"purpose": "batch"}}, {"data": {"purpose": "batch"}}):
            refused = http.post("/files", **body)  # type: ignore[arg-type]
            assert refused.status_code == 400
            assert refused.json()["error"]["param"] == "file"

    def test_of_a_file_that_is_too_large_come_before_it_is_sent(self, server: Server, key: str) -> None:
        address = httpx.URL(server.url)
        connection = HTTPConnection(address.host, address.port, timeout=30)
        connection.putrequest("POST", "/v1/files")
        connection.putheader("Authorization", f"Bearer {key}")
        connection.putheader("Content-Length", "200100000")
        connection.endheaders()
        refused = connection.getresponse()
        assert refused.status == 413
        assert json.loads(refused.read())["error"]["code"] == "too_large"
        connection.close()

    @pytest.mark.parametrize("field", ["input_file_id", "endpoint", "completion_window"])
    def test_of_a_batch_name_the_field(self, http: httpx.Client, ada: User, field: str) -> None:
        whole_body: dict[str, Any] = {
            "input_file_id": batching.uploaded(text(line(0)), user=ada).public_id,
            "endpoint": batching.ENDPOINT, "completion_window": "24h",
        }  # fmt: skip
        refused = http.post("/batches", json={**whole_body, field: None})
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, field)
        assert http.post("/batches", content=b"{").status_code == 400
        assert http.post("/batches", json=[]).status_code == 400
        assert not Batch.objects.exists()

    def test_of_lists_name_the_parameter(self, http: httpx.Client) -> None:
        for path in ("/files?limit=0", "/files?limit=x", "/files?order=up", "/batches?limit=101"):
            assert http.get(path).status_code == 400
        assert http.get("/files?after=file-1").status_code == 404
        assert http.get("/batches?after=batch_1").status_code == 404

    def test_of_somebody_elses_batch_say_that_there_is_none(self, http: httpx.Client, bob: User) -> None:
        batching.offering("tiny")
        batch = batching.made(text(line(0)), user=bob)
        assert http.get(f"/batches/{batch.public_id}").status_code == 404
        assert http.post(f"/batches/{batch.public_id}/cancel").status_code == 404

    def test_of_a_file_that_a_live_batch_reads_by_either_api(self, http: httpx.Client, ada: User) -> None:
        worker = batching.offering("tiny")
        batch = batching.step(batching.made(text(line(0)), user=ada))
        assert batch.input_file is not None
        refused = http.delete(f"/files/{batch.input_file.public_id}")
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "file_in_use")
        own = str(http.base_url).replace("/v1/", f"/api/v1/files/{batch.input_file.pk}")
        assert http.delete(own).status_code == 409
        batching.to_the_end(batch, by=worker)
        assert http.delete(f"/files/{batch.input_file.public_id}").status_code == 200
        assert http.get(f"/batches/{batch.public_id}").json()["input_file_id"] is None

    def test_of_a_token_that_may_not_submit(self, http: httpx.Client, ada: User) -> None:
        token = accounts.create_token(ada, name="reader", scopes=["read"])[1]
        for path in ("/files", "/batches"):
            assert http.get(path, headers={"Authorization": f"Bearer {token}"}).status_code == 403
            assert http.get(path, headers={"Authorization": "Bearer x"}).status_code == 401


def test_curl_makes_a_batch_and_reads_its_output(server: Server, ada: User, key: str, tmp_path: Path) -> None:
    worker = batching.offering("tiny")
    (path := tmp_path / "in.jsonl").write_bytes(text(line(0)))

    def curl(*words: str) -> Any:
        command = ["curl", "-sSf", *words[:-1], f"{server.url}/v1/{words[-1]}", "-H", f"Authorization: Bearer {key}"]
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout

    file = json.loads(curl("-F", "purpose=batch", "-F", f"file=@{path}", "files"))
    body = {"input_file_id": file["id"], "endpoint": batching.ENDPOINT, "completion_window": "24h"}
    made = json.loads(curl("-d", json.dumps(body), "batches"))
    batching.to_the_end(Batch.objects.get(), by=worker)
    done = json.loads(curl(f"batches/{made['id']}"))
    output = json.loads(curl(f"files/{done['output_file_id']}/content"))
    assert output["response"]["body"] == {"echo": "word 0"}
    assert Job.objects.count() == 1
