"""Bodies and answers that nobody means: each is refused, or ends as an error that names its job."""

import json
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.base import ContentFile
from django.test import Client

from accounts import operations as accounts
from core import values
from jobs import operations as jobs
from jobs.models import Job, Worker
from openai_api.operations import call_hooks
from tests import farm
from tests.looped import looped
from tests.openai_api.batching import content, line, made, offering, step, text, to_the_end, uploaded

pytestmark = pytest.mark.django_db(transaction=True)
GARBAGE = b'{"data": ['


@pytest.fixture
def client(ada: User) -> Client:
    """Who calls, and gets an answer of 500 where the farm fails."""
    _, key = accounts.create_token(ada, name="openai", scopes=["submit"])
    return Client(headers={"Authorization": f"Bearer {key}"}, raise_request_exception=False)


@pytest.fixture
def hooks() -> Iterator[list[call_hooks.Hook]]:
    """Those that decide about calls, which a test adds to."""
    known = [*call_hooks.BEFORE]
    yield call_hooks.BEFORE
    call_hooks.BEFORE[:] = known


def post(client: Client, path: str, body: Any) -> Any:
    return client.post(f"/v1/{path}", body if isinstance(body, str) else json.dumps(body), "application/json")


def code(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


def answered(worker: Worker, result: Any, *, file: bytes | None = None, name: str = "answer.json") -> int:
    """Have the worker end the job that waits with this result, and this file of it."""
    claimed = farm.claim_one(farm.stored_worker(worker))
    if file is not None:
        jobs.put_file(worker, claimed.id, claimed.lease, name=name, content=ContentFile(file))
    farm.succeed(worker, claimed, result)
    return claimed.id


class TestABody:
    @pytest.mark.parametrize(
        "fields",
        [
            '"prompt_cache_key": "\\ud800"', '"messages": [{"content": "\\ud83d"}]', '"messages": "\\u0000"',
            f'"messages": {"[" * 300}{"]" * 300}', f'"messages": {"[" * 850}{"]" * 850}',
        ],
    )  # fmt: skip
    @pytest.mark.parametrize("is_hooked", [False, True])
    @pytest.mark.usefixtures("hooks")
    def test_that_no_row_can_hold_is_refused(self, client: Client, fields: str, is_hooked: bool) -> None:
        offering("tiny")
        offering("tiny", name="other")
        if is_hooked:
            call_hooks.before_call()(lambda call: None)
        body = '{"model": "tiny", "temperature": 0, ' + fields + "}"
        for headers in ({}, {"X-Stainless-Retry-Count": "0"}, {"X-Cache": "exact"}, {"Idempotency-Key": "k"}):
            answer = client.post("/v1/chat/completions", body, "application/json", headers=headers)
            assert answer.status_code == 400, (headers, answer.content)
        assert not Job.objects.exists()

    def test_is_encoded_once_on_its_way_to_the_database(self, client: Client) -> None:
        offering("tiny")
        encoded: list[Any] = []

        def look(frame: FrameType, event: str, _: Any) -> None:
            if event == "call" and frame.f_code is values.dumps.__code__:
                encoded.append(frame.f_locals["value"])

        sys.setprofile(look)
        try:
            post(client, "chat/completions", {"model": "tiny", "messages": [{"role": "user", "content": "x"}]})
        finally:
            sys.setprofile(None)
        assert encoded == [Job.objects.whole().get().payload]

    @pytest.mark.parametrize("value", [None, True, 0, -1, 1e300, 10**400, "", "x", [], [[]], {}, {"a": None}, ["x", 1]])
    @pytest.mark.parametrize("path", ["chat/completions", "responses", "messages", "completions", "rerank"])
    def test_with_a_value_of_another_type_in_any_field_makes_a_job_or_is_refused(
        self, client: Client, path: str, value: Any
    ) -> None:
        offering("tiny")
        offering("tiny", name="other")
        for name in (
            "model", "stream", "messages", "input", "prompt", "previous_response_id", "background", "store", "tools",
            "system", "instructions", "prompt_cache_key", "stream_options", "max_tokens", "n", "temperature",
            "conversation", "documents", "query", "metadata", "user",
        ):  # fmt: skip
            answer = client.post(
                f"/v1/{path}", json.dumps({"model": "tiny", name: value}), "application/json",
                headers={"X-Cache": "exact", "X-Stainless-Retry-Count": "0"},
            )  # fmt: skip
            assert answer.status_code in {200, 202, 400, 404}, (name, answer.content)

    @pytest.mark.parametrize("value", [None, True, 7, 1e300, "x", "\ud800", "\x00", [], {}, {"a": "\ud800"}, {"a": 1}])
    def test_of_a_batch_with_a_value_of_another_type_is_refused(self, client: Client, ada: User, value: Any) -> None:
        file = uploaded(text(line(0)), user=ada).public_id
        good = {"input_file_id": file, "endpoint": "/v1/embeddings", "completion_window": "24h", "metadata": None}
        for name in (*good, "more"):
            answer = post(client, "batches", {**good, name: value})
            assert answer.status_code in {200, 400, 404}, (name, answer.content)

    @looped("path", ["files", "batches", "models", "responses/resp_1/input_items", "responses/resp_1"])
    @looped("query", ["after=%00", "after=%F0", "limit=x", "limit=1e9", "order=[]", "stream=%00"])
    def test_is_asked_for_by_a_query_of_nonsense_and_says_so(self, client: Client, path: str, query: str) -> None:
        assert client.get(f"/v1/{path}?{query}").status_code in {200, 400, 404}


class TestAHook:
    @pytest.mark.parametrize("error", [SystemExit, StopIteration])
    def test_that_would_end_the_process_refuses_the_call(
        self, client: Client, hooks: list[call_hooks.Hook], error: type[BaseException]
    ) -> None:
        def leave(call: call_hooks.HookedCall) -> Any:
            raise error

        offering("tiny")
        call_hooks.before_call()(leave)
        assert code(post(client, "responses", {"model": "tiny", "input": "x"})) == (503, "hook_failed")


class TestAnAnswer:
    @pytest.mark.parametrize("result", [None, 7, "text", [], {"error": "no"}, {"output": 5}, {"error": ["no"]},
                                        {"answer_text": "x", "content_type": "text/plain"},
                                        {"answer_file": "answer.json"}, {"answer_file": []}])  # fmt: skip
    def test_that_is_no_response_is_shown_and_cannot_be_continued(self, client: Client, result: Any) -> None:
        worker = offering("tiny")
        first = post(client, "responses", {"model": "tiny", "input": "x", "background": True}).json()["id"]
        answered(worker, result)
        shown = client.get(f"/v1/responses/{first}")
        assert shown.status_code == 200, shown.content
        more = {"model": "tiny", "input": "y", "background": True, "previous_response_id": first}
        assert post(client, "responses", more).status_code in {200, 400}
        assert client.get(f"/v1/responses/{first}/input_items").status_code == 200

    def test_that_lies_in_a_file_of_garbage_is_a_response_that_failed(self, client: Client) -> None:
        worker = offering("tiny")
        first = post(client, "responses", {"model": "tiny", "input": "x", "background": True}).json()["id"]
        answered(worker, {"answer_file": "answer.json"}, file=GARBAGE)
        shown = client.get(f"/v1/responses/{first}")
        assert (shown.status_code, shown.json()["status"]) == (200, "failed"), shown.content

    def test_that_is_broken_answers_no_other_call_from_the_cache(self, client: Client) -> None:
        worker = offering("tiny")
        body = {"model": "tiny", "messages": [{"role": "user", "content": "x"}], "temperature": 0}
        cached: dict[str, Any] = {"content_type": "application/json", "headers": {"X-Cache": "exact"}}
        client.post("/v1/chat/completions", json.dumps(body), **cached)
        broken = client.get(f"/v1/chat/completions/{answered(worker, None)}")
        assert code(broken) == (502, "broken_answer")
        client.post("/v1/chat/completions", json.dumps(body), **cached)
        assert Job.objects.count() == 2


class TestABatch:
    @pytest.mark.parametrize("name", ["\ud800", "\x00", 7, [], {}, ""])
    def test_whose_line_has_a_name_that_no_row_can_hold_is_refused(self, ada: User, name: Any) -> None:
        offering("tiny")
        batch = to_the_end(made(text(line(0, custom_id=name)), user=ada))
        assert (batch.status, [each["param"] for each in batch.errors]) == ("failed", ["custom_id"])

    @pytest.mark.parametrize(
        "result",
        [
            None, 7, "text", [], {"usage": "answer.json"}, {"answer_file": "answer.json"},
            {"answer_file": ["answer.json"]}, {"answer_text": "answer.json", "content_type": "text/plain"},
        ],
    )  # fmt: skip
    def test_whose_line_was_answered_with_nonsense_ends(self, ada: User, result: Any) -> None:
        worker = offering("tiny")
        batch = step(made(text(line(0)), user=ada))
        answered(worker, result)
        ended = to_the_end(batch)
        assert (ended.status, len(content(ended.output_file)) + len(content(ended.error_file))) == ("completed", 1)

    def test_whose_answer_lies_in_a_file_of_garbage_says_so_in_the_file_of_errors(self, ada: User) -> None:
        worker = offering("tiny")
        batch = step(made(text(line(0)), user=ada))
        job_id = answered(worker, {"answer_file": "answer.json"}, file=GARBAGE)
        [error] = content(to_the_end(batch).error_file)
        assert str(job_id) in error["error"]["message"]

    def test_has_the_whole_of_an_answer_that_was_too_long_for_a_row(self, ada: User) -> None:
        worker = offering("tiny")
        batch = step(made(text(line(0)), user=ada))
        cut = {"data": {"jobfarm_part": "part-1", "size": 3, "begins": "[1"}}
        answered(worker, cut, file=b'{"data": [1]}', name=jobs.RESULT)
        [only] = content(to_the_end(batch).output_file)
        assert only["response"]["body"] == {"data": [1]}


def test_a_model_whose_name_no_database_holds_is_known_to_nobody(client: Client) -> None:
    offering("tiny")
    for name in ("ti\x00ny", "tiny\x00"):
        form = {"model": name, "file": ContentFile(b"RIFF", name="a.wav")}
        assert code(client.post("/v1/audio/transcriptions", form)) == (404, "model_not_found")
    assert not Job.objects.exists()
