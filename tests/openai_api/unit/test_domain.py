"""What a call asks for, how it ended, and the form of OpenAI's errors."""

import json
from typing import Any

import pytest

from jobfarm_worker.handlers import answers
from openai_api import domain
from openai_api.errors import InvalidCall
from tests.looped import looped


class TestACall:
    def test_keeps_its_whole_body(self) -> None:
        body = {"model": "tiny", "stream": True, "odd": [None]}
        call = domain.call("completions", body)
        assert (call.model, call.is_stream) == ("tiny", True)
        assert call.payload == {"path": "completions", "body": body}

    @pytest.mark.parametrize("path", ["embeddings", "images/generations"])
    def test_does_not_stream_everywhere(self, path: str) -> None:
        assert not domain.call(path, {"model": "tiny", "stream": False}).is_stream
        with pytest.raises(InvalidCall, match="stream"):
            domain.call(path, {"model": "tiny", "stream": True})

    @looped("model", [None, "", 7, "x" * 201, ["tiny"]])
    def test_names_a_model(self, model: Any) -> None:
        with pytest.raises(InvalidCall, match="model"):
            domain.call("completions", {"model": model})


class TestAFailure:
    def test_is_what_the_model_server_answered_as_the_worker_writes_it(self) -> None:
        body = {"error": {"message": "Too\nlong.", "code": None}}
        failed = answers.refused(400, body, message="Too\nlong.", retryable=False)
        assert domain.failure(job_id=7, status="failed", message=str(failed)) == (400, body)

    @looped(
        "message",
        [
            "Traceback\nValueError: It broke.",
            "The model server answered 400: It broke.",
            "The model server answered 200: x\n{}It broke.",
            "The model server answered 400: x\n{It broke.}",
            str(answers.refused(400, {"error": "x" * 20_000}, message="It broke.", retryable=False)),
        ],
    )
    def test_of_any_other_kind_is_the_farms_and_names_the_job(self, message: str) -> None:
        status, body = domain.failure(job_id=7, status="failed", message=message)
        assert (status, body["error"]["code"], body["error"]["job_id"]) == (502, "job_failed", 7)
        assert body["error"]["message"].startswith("Job 7 failed: ")
        assert "It broke." in body["error"]["message"]

    @pytest.mark.parametrize(("status", "number"), [("canceled", 410), ("timed_out", 504)])
    def test_says_how_the_job_ended(self, status: str, number: int) -> None:
        answered, body = domain.failure(job_id=7, status=status, message="")
        assert (answered, body["error"]["code"]) == (number, f"job_{status}")


class TestARefusal:
    @looped(
        ("status", "answered", "kind"),
        [
            (422, 400, "invalid_request_error"),
            (401, 401, "authentication_error"),
            (403, 403, "permission_error"),
            (404, 404, "invalid_request_error"),
            (429, 429, "rate_limit_error"),
            (500, 500, "server_error"),
        ],
    )
    def test_of_the_farm_is_put_into_openais_form(self, status: int, answered: int, kind: str) -> None:
        body = {"error": "some_code", "message": "Some sentence.", "limit": 7}
        error = {"message": "Some sentence.", "type": kind, "param": None, "code": "some_code"}
        assert domain.refused(body, status=status) == (answered, {"error": error})

    @pytest.mark.parametrize("body", [{"error": {"message": "Busy."}}, {"detail": "Busy."}])
    def test_of_a_model_server_stays_as_it_is(self, body: Any) -> None:
        assert domain.refused(json.loads(json.dumps(body)), status=422) == (422, body)
